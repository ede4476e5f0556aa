import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Duration, durationFromMs } from "@bufbuild/protobuf/wkt";
import { EffectState, FailureSchema } from "./gen/rota/v1/common_pb.js";
import type { CreateJobRequest } from "./gen/rota/v1/jobs_pb.js";
import { FailedSchema, type Result, ResultSchema } from "./gen/rota/worker/v1/worker_pb.js";
import * as limits from "./limits.js";
import { Payload } from "./payload.js";
import { Stop, Stopped } from "./stop.js";
import { clean } from "./text.js";

/** Failed; try again, not before `afterMs`, at most an hour. With a `cause` it takes the cause's class. */
export class Retry extends Error {
  override readonly name: string = "Retry";
  constructor(
    message = "",
    readonly options: { afterMs?: number; cause?: unknown } = {},
  ) {
    super(message || wordsOf(options.cause), { cause: options.cause });
  }
}

/** Failed for good: no retry, whatever the policy says. */
export class Fatal extends Error {
  override readonly name: string = "Fatal";
}

/** Failed, told in terms of the work instead of this program's. The retry policy decides unless `retryable` does. */
export class Failed extends Error {
  override readonly name: string = "Failed";
  constructor(
    message: string,
    readonly options: { type: string; stack?: string; retryable?: boolean },
  ) {
    super(message);
  }
}

/** Failed, and nobody knows whether the effect was applied, for example because the target did not answer. */
export class EffectUnknown extends Error {
  override readonly name: string = "EffectUnknown";
}

/** Give the job back unfinished, not before `delayMs`, at most an hour. Does not count as an attempt. */
export class Release extends Error {
  override readonly name: string = "Release";
  constructor(
    reason = "",
    readonly delayMs = 0,
  ) {
    super(reason);
  }
}

/** The handler stopped because it was asked to. */
export class Cancelled extends Error {
  override readonly name: string = "Cancelled";
}

/** What an outcome is made for. */
export interface Subject {
  readonly job: string;
  readonly fence: bigint;
  readonly stopReason: Stop;
  readonly runTimeoutMs: number;
  readonly receipts: { effectKey: string; reference: string }[];
  readonly spawned: CreateJobRequest[];
  nextRequestId(): string;
}

type Outcome = MessageInitShape<typeof ResultSchema>["outcome"];

function result(of: Subject, outcome: NonNullable<Outcome>, traceparent: string): Result {
  return create(ResultSchema, {
    job: of.job,
    fence: of.fence,
    requestId: of.nextRequestId(),
    outcome,
    effectReceipts: of.receipts,
    traceparent,
  });
}

/** Success with what the handler returned; a failure that says why when it cannot be kept. */
export function succeeded(of: Subject, value: unknown, traceparent = ""): Result {
  let payload: Payload;
  try {
    payload = Payload.of(value);
  } catch (error) {
    return failed(of, "ResultNotSerializable", wordsOf(error), "", traceparent, { retryable: false });
  }
  if (payload.data.length > limits.RESULT_BYTES_MAX) {
    const words = `expected a result of at most ${limits.RESULT_BYTES_MAX} bytes, found ${payload.data.length}; store it elsewhere and return where`;
    return failed(of, "ResultTooLarge", words, "", traceparent, { retryable: false });
  }
  const message = payload.message();
  const made = result(of, { case: "succeeded", value: message ? { result: message } : {} }, traceparent);
  made.spawned = of.spawned;
  const size = of.spawned.length > 0 ? toBinary(ResultSchema, made).length : 0;
  if (size > limits.RESULT_CALL_BYTES_MAX) {
    const words = `expected result and spawned jobs of at most ${limits.RESULT_CALL_BYTES_MAX} bytes, found ${size}; create large jobs with a Client`;
    return failed(of, "ResultTooLarge", words, "", traceparent, { retryable: false });
  }
  return made;
}

export function failed(
  of: Subject,
  type: string,
  words: string,
  stack: string,
  traceparent: string,
  more: Omit<MessageInitShape<typeof FailedSchema>, "failure" | "$typeName"> = {},
): Result {
  const failure = create(FailureSchema, {
    type: clean(type, limits.FAILURE_TYPE_BYTES_MAX),
    message: clean(words, limits.FAILURE_MESSAGE_BYTES_MAX),
    stack: clean(stack, limits.FAILURE_STACK_BYTES_MAX),
  });
  return result(of, { case: "failed", value: create(FailedSchema, { ...more, failure }) }, traceparent);
}

/** The handler ran longer than its run timeout. What it did outside is unknown. */
export function timedOut(of: Subject, traceparent = ""): Result {
  const words = `expected the handler to end within its run timeout of ${of.runTimeoutMs / 1_000} s`;
  const effectState = EffectState.UNKNOWN;
  return failed(of, "TimedOut", words, "", traceparent, { retryable: true, effectState });
}

/** Given back; not counted as an attempt. */
export function released(of: Subject, reason: string, delayMs = 0): Result {
  const delay = delayMs > 0 ? { delay: span(delayMs) } : {};
  return result(of, { case: "released", value: { reason: clean(reason, limits.REASON_BYTES_MAX), ...delay } }, "");
}

/** Stopped on request. */
export function cancelled(of: Subject, reason: string, traceparent = ""): Result {
  return result(of, { case: "cancelled", value: { reason: clean(reason, limits.REASON_BYTES_MAX) } }, traceparent);
}

/**
 * The failure that takes the place of an outcome which the coordinator cannot accept. It is another logical outcome, so
 * it has a request_id of its own; nothing of the refused content is in it.
 */
export function rejected(refused: Result, requestId: string, words: string): Result {
  const of = {
    job: refused.job,
    fence: refused.fence,
    stopReason: Stop.None,
    runTimeoutMs: 0,
    receipts: [],
    spawned: [],
    nextRequestId: () => requestId,
  };
  const told = `the ${refused.outcome.case} outcome was refused: ${words}`;
  return failed(of, "OutcomeRejected", told, "", "", { retryable: false });
}

/** What an error of the handler means, given why the handler was asked to stop, if it was. */
export function ofError(of: Subject, error: unknown, traceparent = ""): Result {
  if (error instanceof Release) {
    return released(of, error.message, error.delayMs);
  }
  const asked = of.stopReason;
  if (error instanceof Cancelled || error instanceof Stopped || (error as Error)?.name === "AbortError") {
    if (asked === Stop.Cancel) {
      return cancelled(of, wordsOf(error), traceparent);
    }
    if (asked === Stop.Leaving) {
      return released(of, "the worker leaves");
    }
  }
  const words = wordsOf(error);
  const stack = error instanceof Failed ? (error.options.stack ?? "") : stackOf(error);
  if (error instanceof Fatal) {
    return failed(of, typeOf(error.cause ?? error), words, stack, traceparent, { retryable: false });
  }
  if (asked === Stop.TimedOut) {
    return timedOut(of, traceparent);
  }
  if (error instanceof Failed) {
    const { type, retryable } = error.options;
    return failed(of, type, words, stack, traceparent, retryable === undefined ? {} : { retryable });
  }
  if (error instanceof Retry) {
    const retryAfter = span(Math.min(Math.max(0, error.options.afterMs ?? 0), limits.RETRY_AFTER_MAX_MS));
    return failed(of, typeOf(error.cause ?? error), words, stack, traceparent, { retryable: true, retryAfter });
  }
  if (error instanceof EffectUnknown) {
    const effectState = EffectState.UNKNOWN;
    return failed(of, typeOf(error.cause ?? error), words, stack, traceparent, { effectState });
  }
  return failed(of, typeOf(error), words, stack, traceparent);
}

export function span(ms: number): Duration {
  return durationFromMs(Math.round(Math.min(ms, limits.RETRY_AFTER_MAX_MS)));
}

function typeOf(error: unknown): string {
  return error instanceof Error
    ? error.constructor.name === "Error"
      ? error.name
      : error.constructor.name
    : typeof error;
}

/** The words of whatever was thrown, which is the user's code and may itself fail. */
function wordsOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : error === undefined ? "" : String(error);
  } catch (failure) {
    return `(the text of this ${typeOf(error)} cannot be made: ${typeOf(failure)})`;
  }
}

function stackOf(error: unknown): string {
  return error instanceof Error && typeof error.stack === "string" ? error.stack : "";
}

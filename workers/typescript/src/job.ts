import { create } from "@bufbuild/protobuf";
import { durationFromMs, type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  DedupeConflict,
  DedupeSchema,
  DedupeScope,
  EffectState,
  type Failure,
  RetryPolicySchema,
  TimeoutsSchema,
} from "./gen/rota/v1/common_pb.js";
import {
  type Attempt as AttemptMessage,
  AttemptOutcome,
  CancelMode,
  type CreateJobRequest,
  CreateJobRequestSchema,
  type Job as JobMessage,
  JobSchema,
  JobState,
} from "./gen/rota/v1/jobs_pb.js";
import { Payload } from "./payload.js";

export { AttemptOutcome, CancelMode, DedupeConflict, DedupeScope, EffectState, JobState };

/** A job to create. Due at `runTime`, after `delayMs`, or at once; what is left out is the server's default. */
export interface NewJob {
  type: string;
  /** See Payload.of. */
  payload?: unknown;
  queue?: string;
  /** 0 to 9, 9 first. */
  priority?: number;
  runTime?: Date;
  delayMs?: number;
  /** What follows a failure; by default 5 attempts, 1 s doubling up to 1 h. */
  retry?: {
    maxAttempts?: number;
    initialBackoffMs?: number;
    maxBackoffMs?: number;
    multiplier?: number;
    nonRetryableTypes?: string[];
  };
  /** Bounds of its life; by default `runMs` is 1 h, and the others have none. */
  timeouts?: { startByMs?: number; runMs?: number; totalMs?: number };
  headers?: Record<string, string>;
  labels?: Record<string, string>;
  effectKey?: string;
  concurrencyKey?: string;
  /** At most one job for a key, for `windowMs` after its creation, or, without one, until it is terminal. */
  dedupe?: { key: string; scope?: DedupeScope; windowMs?: number; onConflict?: DedupeConflict };
}

/** One piece of work as it stood when the server answered. In lists without payload and result. */
export interface Job {
  /** jobs/{id} */
  name: string;
  id: string;
  type: string;
  queue: string;
  state: JobState;
  priority: number;
  payload: Payload;
  headers: Record<string, string>;
  labels: Record<string, string>;
  effectKey: string;
  concurrencyKey: string;
  attempt: number;
  attemptsCounted: number;
  generation: number;
  result: Payload;
  lastFailure: Failure | undefined;
  session: string;
  schedule: string;
  reason: string;
  traceparent: string;
  completedDespiteCancel: boolean;
  dueTime: Date | undefined;
  createTime: Date | undefined;
  leaseTime: Date | undefined;
  finishTime: Date | undefined;
  nominalTime: Date | undefined;
  /** On creation: request_id or dedupe led to a job that was there already. */
  existing: boolean;
}

/** One grant of a job to a session. */
export interface Attempt {
  name: string;
  number: number;
  fence: bigint;
  session: string;
  worker: string;
  outcome: AttemptOutcome;
  failure: Failure | undefined;
  effectState: EffectState;
  leaseTime: Date | undefined;
  endTime: Date | undefined;
}

const TERMINAL: ReadonlySet<JobState> = new Set([
  JobState.SUCCEEDED,
  JobState.DEAD,
  JobState.CANCELLED,
  JobState.EXPIRED,
]);

export function isTerminal(job: Job): boolean {
  return TERMINAL.has(job.state);
}

export function createRequest(job: NewJob): CreateJobRequest {
  if (!job.type) {
    throw new TypeError("type: expected the name of a handler, found none");
  }
  if (job.runTime !== undefined && job.delayMs !== undefined) {
    throw new TypeError("expected runTime or delayMs, found both; give one");
  }
  const message = create(JobSchema, {
    type: job.type,
    queue: job.queue ?? "",
    headers: job.headers ?? {},
    labels: job.labels ?? {},
    effectKey: job.effectKey ?? "",
    concurrencyKey: job.concurrencyKey ?? "",
  });
  const payload = Payload.of(job.payload).message();
  if (payload !== undefined) {
    message.payload = payload;
  }
  if (job.priority !== undefined) {
    message.priority = job.priority;
  }
  if (job.runTime !== undefined) {
    message.runTime = timestampFromDate(job.runTime);
  }
  if (job.retry !== undefined) {
    message.retryPolicy = create(RetryPolicySchema, {
      nonRetryableTypes: job.retry.nonRetryableTypes ?? [],
      ...has("maxAttempts", job.retry.maxAttempts),
      ...has("multiplier", job.retry.multiplier),
      ...has("initialBackoff", duration(job.retry.initialBackoffMs)),
      ...has("maxBackoff", duration(job.retry.maxBackoffMs)),
    });
  }
  if (job.timeouts !== undefined) {
    message.timeouts = create(TimeoutsSchema, {
      ...has("startBy", duration(job.timeouts.startByMs)),
      ...has("run", duration(job.timeouts.runMs)),
      ...has("total", duration(job.timeouts.totalMs)),
    });
  }
  const request = create(CreateJobRequestSchema, { job: message, ...has("delay", duration(job.delayMs)) });
  if (job.dedupe !== undefined) {
    request.dedupe = create(DedupeSchema, {
      key: job.dedupe.key,
      scope: job.dedupe.scope ?? DedupeScope.UNSPECIFIED,
      onConflict: job.dedupe.onConflict ?? DedupeConflict.UNSPECIFIED,
      ...has("window", duration(job.dedupe.windowMs)),
    });
  }
  return request;
}

export function jobOf(message: JobMessage | undefined, existing = false): Job {
  const job = message ?? create(JobSchema);
  return {
    name: job.name,
    id: job.name.replace(/^jobs\//, ""),
    type: job.type,
    queue: job.queue,
    state: job.state,
    priority: job.priority ?? 0,
    payload: Payload.from(job.payload),
    headers: job.headers,
    labels: job.labels,
    effectKey: job.effectKey,
    concurrencyKey: job.concurrencyKey,
    attempt: job.attempt,
    attemptsCounted: job.attemptsCounted,
    generation: job.generation,
    result: Payload.from(job.result),
    lastFailure: job.lastFailure,
    session: job.session,
    schedule: job.schedule,
    reason: job.reason,
    traceparent: job.traceparent,
    completedDespiteCancel: job.completedDespiteCancel,
    dueTime: date(job.dueTime),
    createTime: date(job.createTime),
    leaseTime: date(job.leaseTime),
    finishTime: date(job.finishTime),
    nominalTime: date(job.nominalTime),
    existing,
  };
}

export function attemptOf(attempt: AttemptMessage): Attempt {
  return {
    name: attempt.name,
    number: attempt.number,
    fence: attempt.fence,
    session: attempt.session,
    worker: attempt.worker,
    outcome: attempt.outcome,
    failure: attempt.failure,
    effectState: attempt.effectState,
    leaseTime: date(attempt.leaseTime),
    endTime: date(attempt.endTime),
  };
}

/** jobs/{id}, from either form. */
export function jobName(nameOrId: string): string {
  if (!nameOrId) {
    throw new TypeError("expected a job's name or id, found an empty text");
  }
  return nameOrId.startsWith("jobs/") ? nameOrId : `jobs/${nameOrId}`;
}

export function date(stamp: Timestamp | undefined): Date | undefined {
  return stamp === undefined ? undefined : timestampDate(stamp);
}

export function duration(ms: number | undefined) {
  return ms === undefined ? undefined : durationFromMs(Math.round(ms));
}

/** A field that is there only with a value. */
function has<K extends string, V>(name: K, value: V | undefined): { [name in K]?: V } {
  return (value === undefined ? {} : { [name]: value }) as { [name in K]?: V };
}

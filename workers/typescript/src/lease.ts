import { milliseconds } from "./errors.js";
import type { CreateJobRequest } from "./gen/rota/v1/jobs_pb.js";
import type { Lease as Message } from "./gen/rota/worker/v1/worker_pb.js";
import { createRequest, date, type NewJob } from "./job.js";
import * as limits from "./limits.js";
import type { Subject } from "./outcome.js";
import { Payload } from "./payload.js";
import { monotonic, type Shared } from "./shared.js";
import { Stop, Stopped } from "./stop.js";
import { clean } from "./text.js";
import { windowWarning } from "./window.js";

/** The right to run one attempt of a job, and all that a handler needs to know. */
export class Lease implements Subject {
  readonly #message: Message;
  readonly #shared: Shared;
  readonly #receivedAt: number;
  readonly #controller = new AbortController();
  readonly #note: (words: string) => void;
  readonly #requestId: () => string;
  readonly #warn: (words: string) => void;
  /** @internal */
  readonly index: number;
  /** @internal */
  readonly receipts: { effectKey: string; reference: string }[] = [];
  /** @internal */
  readonly spawned: CreateJobRequest[] = [];
  /** sessions/{id} that holds the lease. */
  readonly session: string;

  /** @internal */
  constructor(
    message: Message,
    place: { index: number; session: string; receivedAt: number; shared: Shared },
    note: (words: string) => void,
    requestId: () => string,
    warn: (words: string) => void,
  ) {
    this.#message = message;
    this.#shared = place.shared;
    this.#receivedAt = place.receivedAt;
    this.#note = note;
    this.#requestId = requestId;
    this.#warn = warn;
    this.index = place.index;
    this.session = place.session;
  }

  /** jobs/{id} */
  get job(): string {
    return this.#message.job;
  }

  get id(): string {
    return this.job.replace(/^jobs\//, "");
  }

  /** Grows with every attempt. Targets that check it refuse a late one. */
  get fence(): bigint {
    return this.#message.fence;
  }

  /** 1 for the first grant. */
  get attempt(): number {
    return this.#message.attempt;
  }

  /** The handler's name. */
  get type(): string {
    return this.#message.type;
  }

  get queue(): string {
    return this.#message.queue;
  }

  /** The handler's input. */
  get payload(): Payload {
    return Payload.from(this.#message.payload);
  }

  /** The payload as UTF-8. */
  text(): string {
    return this.payload.text();
  }

  /** The payload as JSON; undefined when there is none. Throws a SyntaxError. */
  json<T = unknown>(): T {
    return this.payload.json<T>();
  }

  /** Named texts beside the payload. */
  get headers(): Readonly<Record<string, string>> {
    return this.#message.headers;
  }

  /** The idempotency key of the job's effect: equal in all attempts, retries and redrives. */
  get effectKey(): string {
    return this.#message.effectKey;
  }

  /**
   * HTTP headers for a target that honours idempotency keys. With `windowMs`, how long the target remembers a key, it warns
   * once for each job type that may be tried for longer, or be redriven up to `redriveMs` (14 days) after its deadline.
   */
  effectHeaders({
    windowMs,
    redriveMs = limits.REDRIVE_MS,
  }: {
    windowMs?: number | undefined;
    redriveMs?: number | undefined;
  } = {}): {
    "Idempotency-Key": string;
    "Rota-Fence": string;
  } {
    if (windowMs !== undefined) {
      const words = windowWarning(this.type, windowMs, this.#deadlineMs(), redriveMs);
      if (words !== undefined) {
        this.#warn(words);
      }
    }
    return { "Idempotency-Key": this.effectKey, "Rota-Fence": String(this.fence) };
  }

  /** schedules/{id} that the job comes from; empty: none. */
  get schedule(): string {
    return this.#message.schedule;
  }

  /** Informative: the instant that the schedule's rule names. */
  get nominalTime(): Date | undefined {
    return date(this.#message.nominalTime);
  }

  /** Informative: when the job became due. */
  get dueTime(): Date | undefined {
    return date(this.#message.dueTime);
  }

  /** 0 to 9, 9 first. */
  get priority(): number {
    return this.#message.priority;
  }

  /** The most attempts that count. */
  get maxAttempts(): number {
    return this.#message.maxAttempts;
  }

  /** Attempts that counted before this one. */
  get attemptsCounted(): number {
    return this.#message.attemptsCounted;
  }

  /** W3C trace context of the grant; empty when it has none. */
  get traceparent(): string {
    return this.#message.traceparent;
  }

  get tracestate(): string {
    return this.#message.tracestate;
  }

  /** @internal */
  get runTimeoutMs(): number {
    return milliseconds(this.#message.runTimeout);
  }

  /** Milliseconds until the run timeout or the job's deadline, whichever is first; never negative, perhaps Infinity. */
  remainingMs(): number {
    const spans = [milliseconds(this.#message.runTimeout) || Number.POSITIVE_INFINITY];
    if (this.#message.deadline !== undefined) {
      spans.push(milliseconds(this.#message.deadline));
    }
    return this.#left(Math.min(...spans));
  }

  #deadlineMs(): number {
    const { deadline } = this.#message;
    return deadline === undefined ? Number.POSITIVE_INFINITY : this.#left(milliseconds(deadline));
  }

  #left(spanMs: number): number {
    return Math.max(0, this.#receivedAt + spanMs - monotonic());
  }

  /** Aborts when the handler must stop; its reason says why. Hand it to fetch, timers and the like. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the handler is asked to stop. Told at once, also to a handler that blocks its event loop. */
  get stopReason(): Stop {
    return this.#shared.stopOf(this.index);
  }

  throwIfStopped(): void {
    if (this.stopReason !== Stop.None) {
      throw new Stopped(this.stopReason);
    }
  }

  /** No beat was answered for two thirds of the session's TTL: at its end the attempt is aborted. */
  get atRisk(): boolean {
    return this.#shared.atRisk;
  }

  /** Tells people how far it is, with the next beat; only the latest note is sent, cut at 1 KiB. */
  progress(note: string): void {
    this.#note(clean(note, limits.NOTE_BYTES_MAX));
  }

  /** Creates a job in the transaction of this one's success; nothing when it does not succeed. */
  spawn(job: NewJob): void {
    if (this.spawned.length >= limits.SPAWNED_JOBS_MAX) {
      throw new RangeError(`expected at most ${limits.SPAWNED_JOBS_MAX} spawned jobs; create more with a Client`);
    }
    this.spawned.push(createRequest(job));
  }

  /** Keeps with the attempt what a target answered, for example a payment id. */
  receipt(reference: string, effectKey = this.effectKey): void {
    if (this.receipts.length >= limits.RECEIPTS_MAX) {
      throw new RangeError(`expected at most ${limits.RECEIPTS_MAX} receipts, found one more`);
    }
    this.receipts.push({ effectKey, reference: clean(reference, limits.RECEIPT_BYTES_MAX) });
  }

  /** @internal */
  nextRequestId(): string {
    return this.#requestId();
  }

  /** @internal The engine has written down why. */
  heed(): void {
    if (!this.#controller.signal.aborted && this.stopReason !== Stop.None) {
      this.#controller.abort(new Stopped(this.stopReason));
    }
  }
}

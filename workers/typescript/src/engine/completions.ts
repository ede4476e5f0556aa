import { toBinary } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";
import { Backoff } from "../backoff.js";
import { fromStatus, type RotaError } from "../errors.js";
import { type CompleteResponse, type Result, ResultSchema, WorkerService } from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import { rejected } from "../outcome.js";
import { monotonic } from "../shared.js";
import { Stop } from "../stop.js";
import type { Crew } from "./crew.js";
import type { Held } from "./held.js";
import { Bell, race, Signal, sleep } from "./waiting.js";

/** Given by gRPC itself, without a word of Rota's, to a request beyond the server's receive limit. */
const TOO_LARGE = "larger than max";

interface Outcome {
  lease: Held;
  result: Result;
  size: number;
  rejected: boolean;
  repeated: number;
}

/**
 * Reports outcomes: many in one call, each until it is answered or its lease is lost. One that is refused never holds up
 * the others of its call.
 */
export class Completions {
  #queue: Outcome[] = [];
  /** Refused one by one for the moment: each goes again at its own instant and holds up nobody. */
  #postponed: { at: number; item: Outcome }[] = [];
  #unanswered = 0;
  readonly #bell = new Bell();
  readonly #answeredBell = new Bell();
  readonly #stop = new Signal();
  readonly #backoff = new Backoff(limits.BACKOFF_FIRST_MS, limits.BACKOFF_MOST_MS);
  done: Promise<void> = Promise.resolve();

  constructor(private readonly crew: Crew) {}

  start(): void {
    this.done = this.#run();
  }

  stop(): void {
    this.#stop.set();
  }

  put(lease: Held, result: Result): void {
    this.#unanswered++;
    this.#queue.push(outcomeOf(lease, result));
    this.#bell.ring();
  }

  /** Waits until everything put so far is answered or dropped; whether it is. */
  async flush(timeoutMs: number): Promise<boolean> {
    const until = monotonic() + timeoutMs;
    while (this.#unanswered > 0) {
      if (monotonic() >= until) {
        return false;
      }
      await race(until - monotonic(), [this.#answeredBell.rung]);
    }
    return true;
  }

  async #run(): Promise<void> {
    while (await this.#waitForSome()) {
      await this.#linger();
      await this.#send(this.#nextBatch());
    }
    this.#drop(this.#queue.length + this.#postponed.length);
    this.#queue = [];
    this.#postponed = [];
  }

  /** False when it was told to stop. */
  async #waitForSome(): Promise<boolean> {
    for (;;) {
      const now = monotonic();
      this.#queue.push(...this.#postponed.filter(({ at }) => at <= now).map(({ item }) => item));
      this.#postponed = this.#postponed.filter(({ at }) => at > now);
      if (this.#stop.isSet) {
        return false;
      }
      if (this.#queue.length > 0) {
        return true;
      }
      const next = Math.min(...this.#postponed.map(({ at }) => at));
      await race(next - now, [this.#bell.rung], this.#stop.signal);
    }
  }

  /** Waits for company while more outcomes are expected and do come: at most 5 ms. */
  async #linger(): Promise<void> {
    const until = monotonic() + limits.OUTCOME_LINGER_MS;
    for (let seen = 0; ; ) {
      const waiting = this.#queue.length;
      const busy = this.crew.engine.used > 0;
      if (waiting <= seen || waiting >= this.crew.session.maxResults || !busy || monotonic() >= until) {
        return;
      }
      seen = waiting;
      await sleep(1, this.#stop.signal);
    }
  }

  #nextBatch(): Outcome[] {
    const batch: Outcome[] = [];
    let dropped = 0;
    let size = 0;
    let taken = 0;
    for (const item of this.#queue) {
      if (
        batch.length >= this.crew.session.maxResults ||
        (batch.length > 0 && size + item.size > limits.SEND_BYTES_MAX)
      ) {
        break;
      }
      taken++;
      if (item.lease.stopReason >= Stop.Lost || this.crew.session.endedFor !== Stop.None) {
        dropped++;
        continue;
      }
      size += item.size;
      batch.push(item);
    }
    this.#queue.splice(0, taken);
    this.#drop(dropped);
    return batch;
  }

  #drop(count: number): void {
    if (count > 0) {
      this.crew.log("info", `${this.crew.session.name}: ${count} outcomes dropped, their leases are lost`);
      this.crew.engine.shared.count("dropped", count);
      this.#answered(count);
    }
  }

  #answered(count: number): void {
    this.#unanswered -= count;
    if (this.#unanswered === 0) {
      this.#answeredBell.ring();
    }
  }

  async #send(batch: Outcome[]): Promise<void> {
    if (batch.length === 0) {
      return;
    }
    const request = { session: this.crew.session.name, results: batch.map(({ result }) => result) };
    try {
      const options = { timeoutMs: limits.COMPLETE_TIMEOUT_MS, signal: this.#stop.signal };
      const answer = await this.crew.link.channel.unary(WorkerService.method.complete, request, options);
      this.#backoff.reset();
      this.#settle(batch, answer);
    } catch (error) {
      await this.#onRefusal(batch, error as RotaError);
    }
  }

  /** The call as a whole failed. */
  async #onRefusal(batch: Outcome[], error: RotaError): Promise<void> {
    const { session } = this.crew;
    if (error.code === Code.NOT_FOUND) {
      session.end(Stop.SessionGone, error.message);
      this.#drop(batch.length);
      return;
    }
    const large = error.code === Code.RESOURCE_EXHAUSTED && error.message.includes(TOO_LARGE);
    if (error.code === Code.INVALID_ARGUMENT || large) {
      const first = batch[0];
      if (batch.length === 1 && first !== undefined) {
        this.#reject(first, error);
        return;
      }
      // One of them is at fault, and the others must not wait for it.
      const half = Math.floor(batch.length / 2);
      await this.#send(batch.slice(0, half));
      await this.#send(batch.slice(half));
      return;
    }
    let wait = this.#backoff.next(error.retryAfterMs);
    if (!error.isTransient) {
      wait = Math.max(wait, limits.SLOW_DOWN_MS);
    }
    const level = error.isTransient ? "debug" : "error";
    this.crew.log(
      level,
      `${session.name}: ${batch.length} outcomes not taken, again in ${Math.round(wait)} ms: ${error.message}`,
    );
    this.#queue.unshift(...batch);
    await sleep(wait, this.#stop.signal);
  }

  #settle(batch: Outcome[], response: CompleteResponse): void {
    batch.forEach((item, at) => {
      const answer = response.statuses[at];
      if (answer === undefined) {
        // A malformed answer says nothing of the rest.
        this.#postponed.push({ at: monotonic() + limits.SLOW_DOWN_MS, item });
      } else if ((answer.status?.code ?? 0) === Code.OK || answer.status === undefined) {
        const kind = item.result.outcome.case;
        if (kind !== undefined) {
          this.crew.engine.shared.count(kind);
        }
        this.crew.settled(item.lease);
        this.#answered(1);
      } else {
        this.#onStatus(item, fromStatus(answer.status));
      }
    });
  }

  #onStatus(item: Outcome, error: RotaError): void {
    if (error.isTransient) {
      const wait = Math.min(limits.BACKOFF_FIRST_MS * 2 ** item.repeated, limits.BACKOFF_MOST_MS);
      item.repeated = Math.min(item.repeated + 1, 16);
      this.#postponed.push({ at: monotonic() + Math.max(wait, error.retryAfterMs), item });
    } else if (error.code === Code.INVALID_ARGUMENT) {
      this.#reject(item, error);
    } else {
      // Final: a stale fence, another outcome stored, another owner.
      const level = error.code === Code.ABORTED ? "info" : "error";
      this.crew.log(level, `${item.lease.job}: outcome ${item.result.outcome.case} refused: ${error.message}`);
      this.crew.lose(item.lease.job, item.lease.fence);
      this.#drop(1);
    }
  }

  /** A content that the coordinator cannot take: the attempt fails, and says why. */
  #reject(item: Outcome, error: RotaError): void {
    this.crew.log("error", `${item.lease.job}: outcome ${item.result.outcome.case} refused: ${error.message}`);
    if (item.rejected) {
      // Even the plain failure is refused. The coordinator ends the attempt at its run timeout.
      this.crew.settled(item.lease);
      this.#drop(1);
      return;
    }
    const instead = rejected(item.result, this.crew.session.nextRequestId(), error.message);
    this.#queue.unshift({ ...outcomeOf(item.lease, instead), rejected: true });
  }
}

function outcomeOf(lease: Held, result: Result): Outcome {
  return { lease, result, size: toBinary(ResultSchema, result).length + 8, rejected: false, repeated: 0 };
}

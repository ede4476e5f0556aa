import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { status as Code } from "@grpc/grpc-js";
import { Backoff, jittered } from "../backoff.js";
import { milliseconds, type RotaError } from "../errors.js";
import { type LeaseResponse, WorkerService } from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import { monotonic } from "../shared.js";
import { Stop } from "../stop.js";
import type { Crew } from "./crew.js";
import { race, Signal, sleep } from "./waiting.js";

const POLLER = 0;

/** Asks for jobs: one call in flight, the same request_id until it is answered, the last batch acknowledged. */
export class Poller {
  readonly #stopping = new Signal();
  readonly #backoff = new Backoff(limits.BACKOFF_FIRST_MS, limits.BACKOFF_MOST_MS);
  #overdue = new AbortController();
  #again = false;
  #notBefore = 0;
  #slowUntil = 0;
  #ackBatch = 0n;
  /** Kept when no further poll follows. */
  done: Promise<void> = Promise.resolve();

  constructor(private readonly crew: Crew) {}

  start(): void {
    this.done = this.#run();
  }

  /** No further polls. The one in flight may still be answered; `abandon` cuts it off. */
  stop(): void {
    this.#stopping.set();
  }

  abandon(): void {
    this.stop();
    this.#overdue.abort();
  }

  slowDown(): void {
    const now = monotonic();
    this.#slowUntil = now + limits.SLOW_DOWN_FOR_MS;
    this.#notBefore = Math.max(this.#notBefore, now + slowPause());
  }

  /** The answer to the call in flight may be lost: makes the call again, at once. */
  repeat(): void {
    this.#again = true;
    this.#overdue.abort();
  }

  async #run(): Promise<void> {
    for (;;) {
      const free = await this.#waitForSlots();
      if (free === 0 || !(await this.#pause())) {
        return;
      }
      if (!(await this.#poll(free))) {
        return;
      }
    }
  }

  /**
   * Free slots to ask for; 0 when no poll shall follow. With few of many slots free it lingers for a moment: under load a
   * small poll would be followed at once by another one.
   */
  async #waitForSlots(): Promise<number> {
    const { engine } = this.crew;
    const comfortable = Math.max(1, Math.floor(engine.slots / 4));
    let lingerUntil: number | undefined;
    while (!this.#stopping.isSet) {
      const free = engine.free;
      if (free >= comfortable) {
        return Math.min(free, limits.LEASE_JOBS_MAX);
      }
      let left = Number.POSITIVE_INFINITY;
      if (free > 0) {
        lingerUntil ??= monotonic() + limits.SLOT_LINGER_MS;
        left = lingerUntil - monotonic();
        if (left <= 0) {
          return free;
        }
      } else {
        lingerUntil = undefined;
      }
      await race(left, [engine.freed.rung], this.#stopping.signal);
    }
    return 0;
  }

  async #pause(): Promise<boolean> {
    for (let left = this.#notBefore - monotonic(); left > 0; left = this.#notBefore - monotonic()) {
      if (!(await sleep(left, this.#stopping.signal))) {
        return false;
      }
    }
    return !this.#stopping.isSet;
  }

  /** One logical call; false when no other shall follow. */
  async #poll(free: number): Promise<boolean> {
    const { session, beats, link } = this.crew;
    // Jitter, so that idle workers do not come back in the same instant.
    const wait = jittered(session.wait, 0.8, 1);
    const request = {
      session: session.name,
      poller: POLLER,
      requestId: session.nextRequestId(),
      ackBatch: this.#ackBatch,
      capacity: free,
      maxBytes: limits.SEND_BYTES_MAX,
      wait: durationFromMs(Math.round(wait)),
    };
    for (;;) {
      if (this.#stopping.isSet) {
        return false;
      }
      beats.proveSoon(false);
      this.#again = false;
      this.#overdue = new AbortController();
      try {
        const options = { timeoutMs: wait + limits.LEASE_ANSWER_GRACE_MS, signal: this.#overdue.signal };
        const response = await link.channel.unary(WorkerService.method.lease, request, options);
        this.#backoff.reset();
        this.#receive(response);
        return true;
      } catch (error) {
        if (this.#ackBatch !== 0n) {
          beats.proveSoon(true);
        }
        const refusal = error as RotaError;
        if (this.#again && refusal.code === Code.CANCELLED && !this.#stopping.isSet) {
          continue;
        }
        const { repeat, goOn } = await this.#afterFailure(refusal);
        if (!repeat) {
          return goOn;
        }
      }
    }
  }

  /** Waits as the failure deserves; whether to repeat the very same call, and else whether to go on. */
  async #afterFailure(error: RotaError): Promise<{ repeat: boolean; goOn: boolean }> {
    const { session } = this.crew;
    if (this.#stopping.isSet) {
      return { repeat: false, goOn: false };
    }
    if (error.code === Code.NOT_FOUND) {
      session.end(Stop.SessionGone, error.message);
      return { repeat: false, goOn: false };
    }
    const same = error.isTransient;
    const quiet = same && error.code !== Code.RESOURCE_EXHAUSTED;
    this.crew.log(quiet ? "debug" : "warn", `${session.name}: Lease: ${error.message}`);
    let wait = this.#backoff.next(error.retryAfterMs);
    if (error.code === Code.UNAVAILABLE) {
      wait = Math.max(Math.min(wait, limits.CONNECT_BACKOFF_MOST_MS), error.retryAfterMs);
    }
    if (!same) {
      // An answer, and not one that a quick repetition changes.
      wait = Math.max(wait, limits.SLOW_DOWN_MS);
    }
    const goOn = await sleep(wait, this.#stopping.signal);
    return { repeat: goOn && same, goOn };
  }

  #receive(response: LeaseResponse): void {
    const now = monotonic();
    if (response.leases.length > 0) {
      this.#ackBatch = response.batch || this.#ackBatch;
      this.crew.receive(POLLER, response.batch, response.leases, now);
      this.crew.beats.proveSoon(true);
    }
    if (response.leases.length > 0 && response.nextPollAfter === undefined) {
      // A coordinator that has still too much to do would not leave that out.
      this.#slowUntil = 0;
    }
    if (now < this.#slowUntil) {
      this.#notBefore = Math.max(this.#notBefore, now + slowPause());
    }
    if (response.nextPollAfter !== undefined) {
      this.#notBefore = Math.max(this.#notBefore, now + milliseconds(response.nextPollAfter));
    }
    if (response.directives.length > 0) {
      this.crew.direct(response.directives);
    }
  }
}

/** Jitter, for workers that were told in the same instant. */
function slowPause(): number {
  return jittered(limits.SLOW_DOWN_MS, 0.8, 1.2);
}

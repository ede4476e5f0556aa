import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type EndpointOptions, resolve } from "./endpoint.js";
import { RotaError } from "./errors.js";
import { LeaseSchema, type Result, ResultSchema } from "./gen/rota/worker/v1/worker_pb.js";
import { Lease } from "./lease.js";
import * as limits from "./limits.js";
import type { Granted, LogLevel, Setup, ToEngine, ToMain } from "./messages.js";
import { ofError, succeeded } from "./outcome.js";
import { type Count, Shared } from "./shared.js";
import { Stop } from "./stop.js";
import { runTraced } from "./telemetry.js";
import { clean } from "./text.js";

/**
 * Runs one attempt of a job. What it returns is the job's result: undefined, bytes, a string, a Payload or anything with a
 * JSON form, up to 64 KiB. What it throws fails the attempt; Retry, Fatal, Failed, Release, Cancelled and EffectUnknown say
 * more.
 */
export type Handler = (lease: Lease) => unknown;

export interface WorkerOptions extends EndpointOptions {
  /** Queues to take jobs from; default: default. */
  queues?: string[];
  /** Jobs that run at a time; default 10. */
  slots?: number;
  /** For people; default: host and process id. */
  name?: string;
  /** The build of the handlers, for people. */
  buildId?: string;
  labels?: Record<string, string>;
  /** How long running handlers may take to end when the worker leaves; default 30 s. */
  drainTimeoutMs?: number;
  /** How long they may take once they are asked to stop; default 1 s. */
  unwindTimeoutMs?: number;
  /** Where words go; default: warnings and errors to standard error. */
  log?: (level: LogLevel, words: string) => void;
}

/**
 * Takes jobs from queues and runs up to `slots` of them at a time on the caller's event loop. A thread of its own keeps the
 * session alive, so that no handler can block the beats.
 */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #endpoint;
  readonly #slots: number;
  readonly #handlers = new Map<string, Handler>();
  readonly #shared: Shared;
  readonly #leases = new Map<number, Lease>();
  readonly #waiting: Lease[] = [];
  #running = 0;
  #requests = 0;
  #thread: Thread | undefined;
  #stopped = false;

  constructor(options: WorkerOptions = {}) {
    const queues = options.queues ?? ["default"];
    if (queues.length < 1 || queues.length > limits.QUEUES_MAX) {
      throw new RangeError(`queues: expected 1 to ${limits.QUEUES_MAX} names, found ${queues.length}`);
    }
    this.#slots = options.slots ?? 10;
    if (!Number.isInteger(this.#slots) || this.#slots < 1 || this.#slots > limits.SLOTS_MAX) {
      throw new RangeError(`slots: expected 1 to ${limits.SLOTS_MAX}, found ${this.#slots}`);
    }
    for (const name of ["drainTimeoutMs", "unwindTimeoutMs"] as const) {
      if ((options[name] ?? 0) < 0) {
        throw new RangeError(`${name}: expected milliseconds, not negative, found ${options[name]}`);
      }
    }
    this.#options = { ...options, queues };
    this.#endpoint = resolve(options);
    // A coordinator that sends more than it was asked for must not break anything.
    this.#shared = new Shared(2 * this.#slots + limits.LEASE_JOBS_MAX);
  }

  /** Registers a handler for jobs of a type. Throws on a type that has one, on the 513th, and once the worker runs. */
  handle(type: string, handler: Handler): this {
    if (this.#thread !== undefined) {
      throw new Error("handlers are registered before the worker runs");
    }
    if (!type || this.#handlers.has(type)) {
      throw new TypeError(`type: expected a name without a handler, found ${JSON.stringify(type)}`);
    }
    if (this.#handlers.size >= limits.TYPES_MAX) {
      throw new RangeError(`expected at most ${limits.TYPES_MAX} types; run another worker for the rest`);
    }
    this.#handlers.set(type, handler);
    return this;
  }

  /**
   * Works until it is stopped, by `stop`, by the signal's abort or by the coordinator. Rejects with a RotaError when the
   * server refuses the session, for example for want of a valid API key; an unreachable server is waited for.
   *
   * With `signals` SIGTERM and SIGINT drain, and a second one leaves at once.
   */
  async run({ signal, signals = true }: { signal?: AbortSignal; signals?: boolean } = {}): Promise<void> {
    if (this.#handlers.size === 0) {
      throw new Error("expected a handler, found none; register one with handle(type, handler)");
    }
    if (this.#thread !== undefined) {
      throw new Error("the worker runs already");
    }
    if (this.#stopped || signal?.aborted) {
      return;
    }
    const thread = new Thread(new URL("./engine/thread.js", import.meta.url), { workerData: this.#setup() });
    this.#thread = thread;
    const onAbort = () => this.stop();
    const onSignal = () => this.stop({ now: this.#stopped });
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signals) {
      process.on("SIGTERM", onSignal);
      process.on("SIGINT", onSignal);
    }
    try {
      await new Promise<void>((resolve, reject) => {
        thread.on("message", (message: ToMain) => {
          if (message.kind === "exit") {
            const { refusal } = message;
            refusal === null ? resolve() : reject(new RotaError(refusal.code, refusal.reason, refusal.message));
          } else {
            this.#hear(message);
          }
        });
        thread.on("error", reject);
        thread.on("exit", (code) => reject(new Error(`the worker's thread ended with code ${code}`)));
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
      process.off("SIGTERM", onSignal);
      process.off("SIGINT", onSignal);
      thread.removeAllListeners();
      await thread.terminate();
      this.#thread = undefined;
    }
  }

  /** Drains and ends, for good; `now`: without waiting for handlers. Also before `run`, and again to hurry. */
  stop({ now = false }: { now?: boolean } = {}): void {
    this.#stopped = true;
    this.#tell({ kind: now ? "hurry" : "drain" });
  }

  /** What it has done so far. */
  counts(): Record<Count, number> {
    return this.#shared.counts();
  }

  #setup(): Setup {
    const { queues = [], name, buildId = "", labels = {}, drainTimeoutMs, unwindTimeoutMs } = this.#options;
    return {
      endpoint: this.#endpoint,
      shared: this.#shared.buffer,
      identity: {
        worker: clean(name ?? `${hostname()}-${process.pid}`, limits.IDENTITY_BYTES_MAX),
        buildId,
        queues,
        types: [...this.#handlers.keys()].sort(),
        slots: this.#slots,
        labels,
      },
      drainTimeoutMs: drainTimeoutMs ?? limits.DRAIN_TIMEOUT_MS,
      unwindTimeoutMs: unwindTimeoutMs ?? limits.UNWIND_TIMEOUT_MS,
    };
  }

  #tell(message: ToEngine): void {
    this.#thread?.postMessage(message);
  }

  #hear(message: Exclude<ToMain, { kind: "exit" }>): void {
    if (message.kind === "start") {
      this.#waiting.push(...message.leases.map((granted) => this.#lease(granted)));
      this.#startWaiting();
    } else if (message.kind === "stop") {
      this.#leases.get(message.index)?.heed();
      this.#dropWithdrawn(message.index);
    } else {
      this.#log(message.level, message.words);
    }
  }

  #lease({ index, lease, session, receivedAt }: Granted): Lease {
    const made = new Lease(
      fromBinary(LeaseSchema, lease),
      { index, session, receivedAt, shared: this.#shared },
      (words) => this.#tell({ kind: "note", index, words }),
      () => `${session.replace(/^sessions\//, "")}-h${++this.#requests}`,
      (words) => this.#log("warn", words),
    );
    this.#leases.set(index, made);
    return made;
  }

  /** In the order of the answers, which is that of the queue; never more than there are slots, whatever was sent. */
  #startWaiting(): void {
    while (this.#running < this.#slots) {
      const lease = this.#waiting.shift();
      if (lease === undefined) {
        return;
      }
      if (this.#shared.begin(lease.index)) {
        this.#running++;
        void this.#run(lease);
      } else {
        this.#end(lease, null);
      }
    }
  }

  #dropWithdrawn(index: number): void {
    const at = this.#waiting.findIndex((lease) => lease.index === index);
    const lease = this.#waiting[at];
    if (lease !== undefined && !this.#shared.isQueued(index)) {
      this.#waiting.splice(at, 1);
      this.#end(lease, null);
    } else if (lease !== undefined && lease.stopReason >= Stop.Lost && this.#shared.settleUnstarted(index)) {
      this.#waiting.splice(at, 1);
      this.#end(lease, null);
    }
  }

  async #run(lease: Lease): Promise<void> {
    const handler = this.#handlers.get(lease.type);
    const result = await runTraced(lease, async (parent) => {
      try {
        return { result: succeeded(lease, await handler?.(lease), parent()) };
      } catch (error) {
        return { result: ofError(lease, error, parent()), error };
      }
    });
    this.#running--;
    this.#end(lease, this.#shared.settle(lease.index) ? result : null);
    this.#startWaiting();
  }

  #end(lease: Lease, result: Result | null): void {
    this.#leases.delete(lease.index);
    this.#tell({ kind: "ended", index: lease.index, result: result && toBinary(ResultSchema, result) });
  }

  #log(level: LogLevel, words: string): void {
    if (this.#options.log !== undefined) {
      this.#options.log(level, words);
    } else if (level === "warn" || level === "error") {
      console.error(`rota: ${words}`);
    }
  }
}

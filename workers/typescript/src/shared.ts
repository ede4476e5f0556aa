/**
 * What both threads of a worker see at every moment: the state of each lease, why it is asked to stop, and counts.
 *
 * The engine's thread keeps the session alive and decides about leases whose handlers have not started or do not end; the
 * main thread runs handlers. Each lease is decided by whoever is first, which a compare-and-set tells, and a handler that
 * blocks its thread can still ask whether it should stop.
 */
import { Stop } from "./stop.js";

export const COUNTS = [
  "sessions",
  "leased",
  "lost",
  "dropped",
  "succeeded",
  "failed",
  "released",
  "cancelled",
] as const;
export type Count = (typeof COUNTS)[number];

const QUEUED = 0;
const RUNNING = 1;
const SETTLED = 2;
const RISK = COUNTS.length;
const HEAD = RISK + 1;

export class Shared {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #room: number;

  /** Room for so many leases, or what another thread made. */
  constructor(room: number | SharedArrayBuffer) {
    this.buffer =
      typeof room === "number" ? new SharedArrayBuffer((HEAD + 2 * room) * Int32Array.BYTES_PER_ELEMENT) : room;
    this.#words = new Int32Array(this.buffer);
    this.#room = (this.#words.length - HEAD) / 2;
  }

  get room(): number {
    return this.#room;
  }

  count(name: Count, by = 1): void {
    Atomics.add(this.#words, COUNTS.indexOf(name), by);
  }

  counts(): Record<Count, number> {
    return Object.fromEntries(COUNTS.map((name, at) => [name, Atomics.load(this.#words, at)])) as Record<Count, number>;
  }

  get atRisk(): boolean {
    return Atomics.load(this.#words, RISK) === 1;
  }

  set atRisk(risk: boolean) {
    Atomics.store(this.#words, RISK, risk ? 1 : 0);
  }

  /** A place begins anew with another lease. */
  renew(index: number): void {
    Atomics.store(this.#words, this.#stop(index), Stop.None);
    Atomics.store(this.#words, this.#state(index), QUEUED);
  }

  /** Whether the handler may start: once, and not after the outcome was decided. */
  begin(index: number): boolean {
    return Atomics.compareExchange(this.#words, this.#state(index), QUEUED, RUNNING) === QUEUED;
  }

  /** Claims the right to decide the outcome, which only the first caller gets. */
  settle(index: number): boolean {
    return this.settleUnstarted(index) || this.#settleRunning(index);
  }

  settleUnstarted(index: number): boolean {
    return Atomics.compareExchange(this.#words, this.#state(index), QUEUED, SETTLED) === QUEUED;
  }

  isQueued(index: number): boolean {
    return Atomics.load(this.#words, this.#state(index)) === QUEUED;
  }

  stopOf(index: number): Stop {
    return Atomics.load(this.#words, this.#stop(index));
  }

  /** Records why; false when it had been asked for a reason as grave. */
  askToStop(index: number, reason: Stop): boolean {
    for (;;) {
      const before = this.stopOf(index);
      if (before >= reason) {
        return false;
      }
      if (Atomics.compareExchange(this.#words, this.#stop(index), before, reason) === before) {
        return true;
      }
    }
  }

  #settleRunning(index: number): boolean {
    return Atomics.compareExchange(this.#words, this.#state(index), RUNNING, SETTLED) === RUNNING;
  }

  #state(index: number): number {
    return HEAD + index;
  }

  #stop(index: number): number {
    return HEAD + this.#room + index;
  }
}

/** Milliseconds on a clock that never goes back and that both threads share. */
export function monotonic(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

import { create } from "@bufbuild/protobuf";
import { milliseconds } from "../errors.js";
import { type Inventory, InventorySchema, type Lease } from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import type { Subject } from "../outcome.js";
import type { Shared } from "../shared.js";
import type { Stop } from "../stop.js";
import type { Session } from "./session.js";

/** A lease as the engine knows it; a subject of the outcomes that the engine itself decides. */
export class Held implements Subject {
  readonly key: string;
  runUntil: number;
  /** Asked to stop at its run timeout; given up at `runUntil` from then on. */
  late = false;
  /** The handler has ended, or never started. */
  ended = false;
  /** Its outcome is answered or worthless. */
  gone = false;
  readonly receipts = [];
  readonly spawned = [];

  constructor(
    readonly message: Lease,
    readonly index: number,
    readonly session: Session,
    readonly receivedAt: number,
    readonly shared: Shared,
  ) {
    this.key = keyOf(message.job, message.fence);
    // Counted from receipt: the request may have been parked for long before the grant.
    this.runUntil = receivedAt + (this.runTimeoutMs || Number.POSITIVE_INFINITY);
  }

  get job(): string {
    return this.message.job;
  }

  get fence(): bigint {
    return this.message.fence;
  }

  get runTimeoutMs(): number {
    return milliseconds(this.message.runTimeout);
  }

  get stopReason(): Stop {
    return this.shared.stopOf(this.index);
  }

  nextRequestId(): string {
    return this.session.nextRequestId();
  }
}

export function keyOf(job: string, fence: bigint): string {
  return `${job} ${fence}`;
}

/** The leases that a session holds, from receipt to the answered outcome, and for each poller the last batch received. */
export class Holdings {
  readonly #leases = new Map<string, Held>();
  readonly #batches = new Map<number, bigint>();

  get size(): number {
    return this.#leases.size;
  }

  has(key: string): boolean {
    return this.#leases.has(key);
  }

  /** A batch and its leases become visible together, so that an inventory never claims a batch without them. */
  add(poller: number, batch: bigint, leases: Held[]): void {
    if (batch !== 0n) {
      this.#batches.set(poller, batch);
    }
    for (const lease of leases) {
      this.#leases.set(lease.key, lease);
    }
  }

  find(key: string): Held | undefined {
    return this.#leases.get(key);
  }

  take(key: string): Held | undefined {
    const found = this.#leases.get(key);
    this.#leases.delete(key);
    return found;
  }

  takeAll(): Held[] {
    const all = this.all();
    this.#leases.clear();
    return all;
  }

  all(): Held[] {
    return [...this.#leases.values()];
  }

  /** What ran longer than it may, by `now`, and when to look again. */
  overdue(now: number): { late: Held[]; stubborn: Held[]; next: number } {
    const late: Held[] = [];
    const stubborn: Held[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const lease of this.#leases.values()) {
      if (lease.runUntil > now) {
        next = Math.min(next, lease.runUntil);
      } else if (lease.late) {
        stubborn.push(lease);
        lease.runUntil = Number.POSITIVE_INFINITY;
      } else {
        late.push(lease);
        lease.late = true;
        lease.runUntil = now + limits.TIMEOUT_REPORT_GRACE_MS;
        next = Math.min(next, lease.runUntil);
      }
    }
    return { late, stubborn, next };
  }

  inventory(): Inventory {
    return create(InventorySchema, {
      leases: this.all().map(({ job, fence }) => ({ job, fence })),
      batches: Object.fromEntries(this.#batches),
    });
  }
}

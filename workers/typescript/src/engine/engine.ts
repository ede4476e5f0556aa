import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Backoff } from "../backoff.js";
import { CloseMode, LeaseSchema, type Result, ResultSchema } from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import type { LogLevel, Setup, ToEngine, ToMain } from "../messages.js";
import { cancelled, released, timedOut } from "../outcome.js";
import { monotonic, Shared } from "../shared.js";
import { Stop } from "../stop.js";
import { PROTOCOL, SDK } from "../version.js";
import { Crew } from "./crew.js";
import type { Held } from "./held.js";
import { Link } from "./link.js";
import { closeSession, openSession, type Session } from "./session.js";
import { Bell, race, Signal, sleep } from "./waiting.js";

/**
 * Runs sessions one after the other, and ends in order. A session that ends takes its leases along and is followed by a
 * new one; a stop drains: no new jobs, unstarted ones go back at once, running ones finish, their outcomes are answered,
 * the session is closed. Beats go on until then.
 */
export class Engine {
  readonly link: Link;
  readonly shared: Shared;
  readonly slots: number;
  /** Rings when slots become free. */
  readonly freed = new Bell();
  used = 0;
  readonly #types: ReadonlySet<string>;
  readonly #draining = new Signal();
  readonly #hurried = new Signal();
  readonly #held = new Map<number, Held>();
  readonly #places: number[] = [];
  readonly #crews = new Map<Session, Crew>();

  constructor(
    private readonly setup: Setup,
    private readonly tell: (message: ToMain) => void,
  ) {
    this.link = new Link(setup.endpoint, (level, words) => this.log(level, words));
    this.shared = new Shared(setup.shared);
    this.slots = setup.identity.slots;
    this.#types = new Set(setup.identity.types);
    for (let index = this.shared.room - 1; index >= 0; index--) {
      this.#places.push(index);
    }
  }

  get free(): number {
    return this.slots - this.used;
  }

  log(level: LogLevel, words: string): void {
    this.tell({ kind: "log", level, words });
  }

  drain(): void {
    this.#draining.set();
  }

  hear(message: ToEngine): void {
    switch (message.kind) {
      case "ended":
        this.#ended(message.index, message.result);
        return;
      case "note": {
        const lease = this.#held.get(message.index);
        lease?.session.note(lease, message.words);
        return;
      }
      case "drain":
        this.drain();
        return;
      case "hurry":
        this.#hurried.set();
        this.drain();
    }
  }

  /** Works until it is told to leave. Rejects with what the server refuses for good. */
  async run(): Promise<void> {
    const { worker, buildId, queues, types, slots, labels } = this.setup.identity;
    const identity = { worker, sdk: SDK, buildId, queues, types, slots, labels, protocolVersion: PROTOCOL };
    const backoff = new Backoff(limits.BACKOFF_FIRST_MS, limits.BACKOFF_MOST_MS);
    const log = (level: LogLevel, words: string) => this.log(level, words);
    try {
      while (!this.#draining.isSet) {
        const onRisk = (risk: boolean) => {
          this.shared.atRisk = risk;
        };
        const session = await openSession(this.link, identity, this.#draining.signal, log, onRisk);
        if (session === undefined) {
          return;
        }
        this.shared.count("sessions");
        this.shared.atRisk = false;
        const openedAt = monotonic();
        const crew = new Crew(this, session);
        this.#crews.set(session, crew);
        crew.start();
        await race(Number.POSITIVE_INFINITY, [], this.#draining.signal, session.over.signal);
        if (session.endedFor === Stop.None) {
          await this.#leave(crew);
        }
        await crew.dismiss();
        if (session.endedFor !== Stop.None) {
          this.lose(session.holdings.takeAll(), session.endedFor);
        }
        this.#crews.delete(session);
        if (monotonic() - openedAt > session.ttl) {
          backoff.reset();
        } else if (!this.#draining.isSet) {
          await sleep(backoff.next(), this.#draining.signal);
        }
      }
    } finally {
      this.link.close();
    }
  }

  /** A place in what both threads see, for a lease. */
  place(): number {
    const index = this.#places.pop();
    if (index === undefined) {
      throw new Error("the coordinator sent more leases than there is room for");
    }
    this.shared.renew(index);
    return index;
  }

  start(leases: Held[]): void {
    this.shared.count("leased", leases.length);
    this.used += leases.length;
    const start = leases.filter((lease) => {
      this.#held.set(lease.index, lease);
      if (this.#types.has(lease.message.type)) {
        return true;
      }
      this.log("error", `${lease.job}: no handler for the type ${lease.message.type}; given back`);
      this.#withdraw(lease, released(lease, "no handler for this type", limits.NO_HANDLER_DELAY_MS));
      this.#ended(lease.index, null);
      return false;
    });
    if (start.length > 0) {
      const granted = start.map(({ index, message, session, receivedAt }) => ({
        index,
        lease: toBinary(LeaseSchema, message),
        session: session.name,
        receivedAt,
      }));
      this.tell({ kind: "start", leases: granted });
    }
  }

  stopLease(lease: Held, reason: Stop): void {
    if (!this.shared.askToStop(lease.index, reason)) {
      return;
    }
    if (reason < Stop.Lost && this.shared.settleUnstarted(lease.index)) {
      const withdrawn = reason === Stop.Cancel ? cancelled : released;
      this.#deliver(
        lease,
        withdrawn(lease, reason === Stop.Cancel ? "cancelled before it started" : "it could not be started in time"),
      );
    }
    this.tell({ kind: "stop", index: lease.index });
  }

  /** Ends a lease without waiting for its handler, which keeps its slot until it returns. */
  giveUp(lease: Held): void {
    if (this.shared.settle(lease.index)) {
      this.#deliver(lease, timedOut(lease));
    }
  }

  /** Leases that are gone: their handlers stop, their outcomes are dropped. */
  lose(leases: Held[], why: Stop): void {
    if (leases.length > 0) {
      this.shared.count("lost", leases.length);
      this.log("warn", `${leases.length} leases lost (${Stop[why]}), first ${leases[0]?.job}`);
    }
    for (const lease of leases) {
      this.stopLease(lease, why);
      this.forget(lease);
    }
  }

  /** Nothing is to be said of the lease any more. */
  forget(lease: Held): void {
    lease.gone = true;
    this.#release(lease);
  }

  #ended(index: number, result: Uint8Array | null): void {
    const lease = this.#held.get(index);
    if (lease === undefined || lease.ended) {
      return;
    }
    lease.ended = true;
    // The slot first: the sender of outcomes waits for company while handlers run.
    this.used--;
    this.freed.ring();
    if (result !== null) {
      this.#deliver(lease, fromBinary(ResultSchema, result));
    }
    this.#release(lease);
  }

  /** Its place is free once nobody looks there. */
  #release(lease: Held): void {
    if (lease.gone && lease.ended && this.#held.get(lease.index) === lease) {
      this.#held.delete(lease.index);
      this.#places.push(lease.index);
    }
  }

  #withdraw(lease: Held, instead: Result): void {
    if (this.shared.settleUnstarted(lease.index)) {
      this.#deliver(lease, instead);
      this.tell({ kind: "stop", index: lease.index });
    }
  }

  /** Hands on an outcome that is worth sending. */
  #deliver(lease: Held, result: Result): void {
    const crew = this.#crews.get(lease.session);
    if (lease.stopReason >= Stop.Lost || crew === undefined) {
      this.shared.count("dropped");
      this.forget(lease);
      return;
    }
    if (result.outcome.case === "failed") {
      const { attempt, fence } = lease.message;
      const { type, message } = result.outcome.value.failure ?? {};
      this.log("warn", `${lease.job} attempt ${attempt} fence ${fence} failed: ${type}: ${message}`);
    }
    crew.completions.put(lease, result);
  }

  /** How long a phase of leaving may take. */
  #patience(ms: number): number {
    return this.#hurried.isSet ? Math.min(ms, limits.AT_ONCE_MS) : ms;
  }

  async #leave(crew: Crew): Promise<void> {
    const { session, poller, completions } = crew;
    const { drainTimeoutMs, unwindTimeoutMs } = this.setup;
    const startedAt = monotonic();
    const log = (level: LogLevel, words: string) => this.log(level, words);
    log("info", `${session.name}: leaving; ${this.used} jobs run`);
    session.draining = true;
    poller.stop();
    await closeSession(this.link, session, CloseMode.DRAIN, this.#patience(limits.CLOSE_TIMEOUT_MS), log);
    this.#giveBackUnstarted(session);
    // The coordinator answers the parked poll; what it grants still goes back.
    if (await race(this.#patience(limits.PARKED_POLL_GRACE_MS), [poller.done])) {
      poller.abandon();
      await poller.done;
    }
    this.#giveBackUnstarted(session);
    await this.#waitIdle(session, startedAt + drainTimeoutMs - monotonic(), true);
    if (this.used > 0 && session.endedFor === Stop.None) {
      log("warn", `${this.used} handlers have not ended in time and are stopped`);
      for (const lease of session.holdings.all()) {
        this.stopLease(lease, Stop.Leaving);
      }
      await this.#waitIdle(session, unwindTimeoutMs, true);
      if (this.#hurried.isSet) {
        await this.#waitIdle(session, this.#patience(unwindTimeoutMs), false);
      }
      for (const lease of session.holdings.all()) {
        if (this.shared.settle(lease.index)) {
          this.#deliver(lease, released(lease, "the worker leaves before the handler ended"));
        }
      }
    }
    // A TTL at least: for so long outcomes are worth something although nobody answers.
    if (!(await completions.flush(this.#patience(Math.max(limits.FLUSH_TIMEOUT_MS, session.ttl))))) {
      log("error", `${session.name}: leaving with outcomes that were not answered`);
    }
    if (session.endedFor === Stop.None) {
      await closeSession(this.link, session, CloseMode.NOW, this.#patience(limits.CLOSE_TIMEOUT_MS), log);
    }
    log("info", `${session.name}: left after ${Math.round(monotonic() - startedAt)} ms`);
  }

  async #waitIdle(session: Session, ms: number, heedHurry: boolean): Promise<void> {
    const until = monotonic() + ms;
    const signals = heedHurry ? [this.#hurried.signal, session.over.signal] : [session.over.signal];
    while (this.used > 0 && monotonic() < until && !signals.some(({ aborted }) => aborted)) {
      await race(until - monotonic(), [this.freed.rung], ...signals);
    }
  }

  #giveBackUnstarted(session: Session): void {
    for (const lease of session.holdings.all()) {
      this.#withdraw(lease, released(lease, "the worker leaves"));
    }
  }
}

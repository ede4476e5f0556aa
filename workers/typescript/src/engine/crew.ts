import { type Directive, DirectiveKind, type Lease } from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import type { LogLevel } from "../messages.js";
import { Stop } from "../stop.js";
import { Beats } from "./beats.js";
import { Completions } from "./completions.js";
import type { Engine } from "./engine.js";
import { Held, keyOf } from "./held.js";
import { Poller } from "./poller.js";
import type { Session } from "./session.js";

/** What works for one session: beats, poller, completions. */
export class Crew {
  readonly beats: Beats;
  readonly poller: Poller;
  readonly completions: Completions;
  readonly #carriedOut = new Set<bigint>();

  constructor(
    readonly engine: Engine,
    readonly session: Session,
  ) {
    this.beats = new Beats(this);
    this.poller = new Poller(this);
    this.completions = new Completions(this);
  }

  get link() {
    return this.engine.link;
  }

  log(level: LogLevel, words: string): void {
    this.engine.log(level, words);
  }

  /** Beats first. */
  start(): void {
    this.beats.start();
    this.completions.start();
    this.poller.start();
  }

  async dismiss(): Promise<void> {
    this.poller.abandon();
    this.beats.stop();
    this.completions.stop();
    await Promise.all([this.poller.done, this.completions.done]);
  }

  /** Leases of an answer, which may come twice: those that are held already are passed over. */
  receive(poller: number, batch: bigint, messages: Lease[], now: number): void {
    const fresh: Held[] = [];
    for (const message of messages) {
      if (!this.session.holdings.has(keyOf(message.job, message.fence))) {
        fresh.push(new Held(message, this.engine.place(), this.session, now, this.engine.shared));
      }
    }
    this.session.holdings.add(poller, batch, fresh);
    this.engine.start(fresh);
  }

  lose(job: string, fence: bigint): void {
    const lease = this.session.holdings.take(keyOf(job, fence));
    if (lease !== undefined) {
      this.engine.lose([lease], Stop.Lost);
    }
  }

  /** Its outcome is answered. */
  settled(lease: Held): void {
    this.session.holdings.take(lease.key);
    this.engine.forget(lease);
  }

  /** Carries directives out, each once, and acknowledges them. */
  direct(directives: Directive[]): void {
    const acked: bigint[] = [];
    for (const directive of directives) {
      if (directive.id === 0n || !this.#carriedOut.has(directive.id)) {
        this.#act(directive);
      }
      if (directive.id !== 0n) {
        acked.push(directive.id);
        this.#carriedOut.add(directive.id);
      }
    }
    for (const id of this.#carriedOut) {
      if (this.#carriedOut.size <= limits.DIRECTIVES_KEPT) {
        break;
      }
      this.#carriedOut.delete(id);
    }
    if (acked.length > 0) {
      this.beats.acknowledge(acked);
    }
  }

  #act({ kind, job, fence, reason }: Directive): void {
    this.log("info", `directive ${DirectiveKind[kind] ?? kind} ${job} ${reason}`);
    switch (kind) {
      case DirectiveKind.CANCEL: {
        const lease = this.session.holdings.find(keyOf(job, fence));
        if (lease !== undefined) {
          this.engine.stopLease(lease, Stop.Cancel);
        }
        return;
      }
      case DirectiveKind.LOST:
        this.lose(job, fence);
        return;
      case DirectiveKind.DRAIN:
        this.engine.drain();
        return;
      case DirectiveKind.RECONNECT:
        if (this.link.renew(reason || "asked for by the coordinator")) {
          this.beats.reconnected();
        }
        return;
      case DirectiveKind.SLOW_DOWN:
        this.poller.slowDown();
        return;
      case DirectiveKind.RESYNC:
        this.beats.tellInventory();
        this.poller.repeat();
        return;
      default:
        this.log("warn", `a directive of unknown kind ${kind} is ignored`);
    }
  }
}

import { create } from "@bufbuild/protobuf";
import { type ClientDuplexStream, status as Code } from "@grpc/grpc-js";
import { Backoff } from "../backoff.js";
import { fromRpc, milliseconds, type RotaError } from "../errors.js";
import {
  type Beat,
  type BeatAck,
  BeatSchema,
  type Directive,
  type HeartbeatRequest,
  HeartbeatRequestSchema,
  type HeartbeatResponse,
  WorkerService,
} from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import { monotonic } from "../shared.js";
import { Stop } from "../stop.js";
import type { Crew } from "./crew.js";

const NEVER = Number.POSITIVE_INFINITY;

interface Sent {
  at: number;
  acks: bigint[];
  inventory: number;
}

interface BeatStream {
  call: ClientDuplexStream<HeartbeatRequest, HeartbeatResponse>;
  /** The hello was answered: the stream carries. */
  live: boolean;
}

/**
 * The signs of life of a session, and the time of everything that must happen whatever handlers do: beats, the session's
 * TTL, run timeouts. Beats go over the stream while it carries, else one by one.
 */
export class Beats {
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #seq = 0n;
  #urgent = false;
  #lastAt = monotonic();
  readonly #unacked = new Set<bigint>();
  readonly #sent = new Map<bigint, Sent>();
  // Full inventories are numbered: wanted, and the newest that was answered.
  #wanted = 0;
  #answered = 0;
  #proveAt = NEVER;
  #retryAt = NEVER;
  #renewAt = 0;
  #stream: BeatStream | undefined;
  #streamAt = monotonic();
  #openedAt = 0;
  #quick = 0;
  readonly #retry = new Backoff(limits.BACKOFF_FIRST_MS, limits.BACKOFF_MOST_MS);
  readonly #renew = new Backoff(limits.RENEW_INTERVAL_MS, limits.RENEW_INTERVAL_MOST_MS);
  readonly #streams = new Backoff(limits.STREAM_BACKOFF_FIRST_MS, limits.STREAM_BACKOFF_MOST_MS);
  // An answer that takes longer than this is not worth waiting for.
  readonly #patience: number;

  constructor(private readonly crew: Crew) {
    this.#patience = Math.min(crew.session.beatInterval, crew.session.ttl / 5);
  }

  start(): void {
    this.#step();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#stream?.call.cancel();
    this.#stream = undefined;
  }

  /** These directives are carried out: said in a beat at once, and again until that beat is answered. */
  acknowledge(directives: bigint[]): void {
    for (const id of directives) {
      this.#unacked.add(id);
    }
    this.#hurry();
  }

  /** Sends a full inventory with a beat at once, and again until it is answered. */
  tellInventory(): void {
    this.#wanted++;
    this.#hurry();
  }

  /** A batch must be proven received, well within its delivery TTL; or its proof is on the way. */
  proveSoon(needed: boolean): void {
    if (!needed) {
      this.#proveAt = NEVER;
    } else if (this.#proveAt === NEVER) {
      this.#proveAt = monotonic() + this.crew.session.deliveryTtl / 5;
    }
    // Run timeouts may have come with the batch.
    this.#lookAgain(0);
  }

  /** The link is new: opens a stream on it at once, with the inventory. */
  reconnected(): void {
    this.#stream?.call.cancel();
    this.#stream = undefined;
    this.#sent.clear();
    this.#streamAt = monotonic();
    this.#quick = 0;
    this.#lookAgain(0);
  }

  #hurry(): void {
    this.#urgent = true;
    this.#lookAgain(0);
  }

  #lookAgain(afterMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#stopped) {
      this.#timer = setTimeout(() => this.#step(), Math.max(0, Math.min(afterMs, this.crew.session.ttl)));
    }
  }

  #step(): void {
    const { session } = this.crew;
    const now = monotonic();
    const lifeAt = session.checkLife(now);
    if (this.#stopped || session.endedFor !== Stop.None) {
      return;
    }
    const { late, stubborn, next } = session.holdings.overdue(now);
    for (const lease of late) {
      this.crew.engine.stopLease(lease, Stop.TimedOut);
    }
    for (const lease of stubborn) {
      this.crew.engine.giveUp(lease);
    }
    if (now >= this.#proveAt) {
      this.#proveAt = NEVER;
      this.#wanted++;
      this.#urgent = true;
    }
    let due = this.#urgent && now >= this.#lastAt + limits.BEAT_SPACING_MS;
    due ||= now >= Math.min(this.#retryAt, this.#lastAt + session.beatInterval);
    if (now >= this.#silentAt()) {
      this.crew.log("warn", `${session.name}: the heartbeat stream does not answer; going on with single beats`);
      this.#stream?.call.cancel();
      this.#stream = undefined;
      this.#sent.clear();
      this.#streamAt = now + this.#streams.next();
      due = true;
    }
    if (this.#stream === undefined && now >= this.#streamAt) {
      this.#openStream(now);
    }
    if (due) {
      this.#urgent = false;
      this.#retryAt = NEVER;
      this.#lastAt = now;
      this.#beat(now);
    }
    const again = Math.min(
      this.#lastAt + (this.#urgent ? limits.BEAT_SPACING_MS : session.beatInterval),
      lifeAt,
      next,
      this.#proveAt,
      this.#retryAt,
      this.#silentAt(),
      this.#stream === undefined ? this.#streamAt : NEVER,
    );
    this.#lookAgain(again - now);
  }

  /** When the stream's oldest unanswered beat runs out of patience. */
  #silentAt(): number {
    if (this.#stream === undefined || this.#sent.size === 0) {
      return NEVER;
    }
    return Math.min(...[...this.#sent.values()].map((sent) => sent.at)) + this.#patience;
  }

  #openStream(now: number): void {
    const { session } = this.crew;
    this.#wanted++;
    const call = this.crew.link.channel.stream(WorkerService.method.heartbeat);
    const stream: BeatStream = { call, live: false };
    this.#sent.set(0n, { at: now, acks: [], inventory: this.#wanted });
    this.#stream = stream;
    this.#openedAt = now;
    let ended = false;
    const end = (error: RotaError | undefined) => {
      if (!ended) {
        ended = true;
        this.#onStreamEnd(stream, error);
      }
    };
    call.on("data", (message: HeartbeatResponse) => this.#onMessage(stream, message));
    call.on("end", () => end(undefined));
    call.on("error", (error: unknown) => end(fromRpc(error)));
    const hello = { session: session.name, inventory: session.holdings.inventory() };
    call.write(create(HeartbeatRequestSchema, { message: { case: "hello", value: hello } }));
  }

  #beat(now: number): void {
    const { session } = this.crew;
    const acks = [...this.#unacked];
    const full = this.#wanted > this.#answered;
    const sent: Sent = { at: now, acks, inventory: full ? this.#wanted : 0 };
    const beat = create(BeatSchema, {
      seq: ++this.#seq,
      freeSlots: Math.max(0, this.crew.engine.free),
      progress: session.takeNotes(),
      ackedDirectives: acks,
      ...(full ? { inventory: session.holdings.inventory() } : {}),
    });
    if (this.#stream?.live) {
      this.#sent.set(beat.seq, sent);
      this.#stream.call.write(create(HeartbeatRequestSchema, { message: { case: "beat", value: beat } }));
    } else {
      void this.#beatAlone(beat, sent);
    }
  }

  async #beatAlone(beat: Beat, sent: Sent): Promise<void> {
    const { name } = this.crew.session;
    try {
      const options = { timeoutMs: this.#patience };
      const request = { session: name, beat };
      const answer = await this.crew.link.channel.unary(WorkerService.method.sendHeartbeat, request, options);
      if (!this.#stopped && answer.ack !== undefined) {
        this.#onAck(answer.ack, sent);
      }
    } catch (error) {
      this.#onLoneFailure(error as RotaError);
    }
  }

  #onLoneFailure(error: RotaError): void {
    if (this.#stopped || this.#isGone(error)) {
      return;
    }
    this.crew.log("warn", `${this.crew.session.name}: beat: ${error.message}`);
    const now = monotonic();
    if (error.isTransient) {
      this.#retryAt = now + this.#retry.next(error.retryAfterMs);
      this.#lookAgain(0);
    }
    // Rarer each time: the coordinator may be slow instead of unreachable.
    if (error.code === Code.DEADLINE_EXCEEDED && now >= this.#renewAt) {
      this.#renewAt = now + this.#renew.next();
      if (this.crew.link.renew("beats are not answered")) {
        this.reconnected();
        this.crew.poller.repeat();
      }
    }
  }

  /** The session is the only resource that these calls name. */
  #isGone(error: RotaError): boolean {
    if (error.code === Code.NOT_FOUND) {
      this.crew.session.end(Stop.SessionGone, error.message);
      return true;
    }
    return false;
  }

  #onMessage(stream: BeatStream, { message }: HeartbeatResponse): void {
    if (this.#stopped) {
      return;
    }
    if (message.case === "ack") {
      if (this.#stream !== undefined && stream !== this.#stream) {
        return;
      }
      const sent = this.#sent.get(message.value.seq);
      this.#sent.delete(message.value.seq);
      stream.live = true;
      this.#onAck(message.value, sent);
    } else if (message.case === "directive") {
      this.#direct([message.value]);
    } else {
      this.crew.log("warn", `${this.crew.session.name}: a message of unknown kind is ignored`);
    }
  }

  #onAck(ack: BeatAck, sent: Sent | undefined): void {
    if (sent !== undefined) {
      this.crew.session.renew(sent.at, milliseconds(ack.renewedFor) || this.crew.session.ttl);
      this.#retry.reset();
      this.#renew.reset();
      this.#answered = Math.max(this.#answered, sent.inventory);
      for (const id of sent.acks) {
        this.#unacked.delete(id);
      }
    }
    for (const { job, fence } of ack.lost) {
      this.crew.lose(job, fence);
    }
    this.#direct(ack.directives);
    this.#lookAgain(0);
  }

  #direct(directives: Directive[]): void {
    if (directives.length > 0) {
      this.crew.direct(directives);
    }
  }

  #onStreamEnd(stream: BeatStream, error: RotaError | undefined): void {
    if (this.#stopped || (error !== undefined && this.#isGone(error)) || stream !== this.#stream) {
      return;
    }
    this.#stream = undefined;
    this.#sent.clear();
    const now = monotonic();
    if (stream.live && now - this.#openedAt >= this.crew.session.beatInterval) {
      this.#streams.reset();
      this.#quick = 0;
    }
    if (stream.live && this.#quick === 0) {
      this.#streamAt = now;
    } else {
      // Refused, or cut again and again: single beats until the next try.
      this.#streamAt = now + this.#streams.next();
      this.#urgent = true;
    }
    this.#quick++;
    if (error?.code === Code.UNIMPLEMENTED) {
      this.#streamAt = NEVER;
    }
    this.crew.log(
      "info",
      `${this.crew.session.name}: heartbeat stream ended: ${error?.message ?? "by the coordinator"}`,
    );
    this.#lookAgain(0);
  }
}

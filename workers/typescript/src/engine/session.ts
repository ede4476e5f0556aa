import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";
import { Backoff } from "../backoff.js";
import { fromRpc, milliseconds, type RotaError } from "../errors.js";
import {
  type CloseMode,
  type OpenSessionRequestSchema,
  type OpenSessionResponse,
  type Progress,
  ProgressSchema,
  WorkerService,
} from "../gen/rota/worker/v1/worker_pb.js";
import * as limits from "../limits.js";
import type { LogLevel } from "../messages.js";
import { monotonic } from "../shared.js";
import { Stop } from "../stop.js";
import { type Held, Holdings } from "./held.js";
import type { Link } from "./link.js";
import { Signal, sleep } from "./waiting.js";

const AT_RISK = 2 / 3;

/**
 * A session from its opening to its end. It lives until an instant that only an answered beat moves on, counted from the
 * instant of sending: the coordinator, which counts from receipt, never ends it earlier.
 */
export class Session {
  readonly name: string;
  readonly ttl: number;
  readonly deliveryTtl: number;
  readonly beatInterval: number;
  readonly wait: number;
  readonly maxResults: number;
  readonly holdings = new Holdings();
  readonly over = new Signal();
  endedFor = Stop.None;
  /** No handler starts any more; what was not started is given back. */
  draining = false;
  #renewedAt: number;
  #aliveFor: number;
  #atRisk = false;
  #ids = 0;
  readonly #notes = new Map<string, { lease: Held; words: string }>();

  constructor(
    answer: OpenSessionResponse,
    sentAt: number,
    private readonly log: (level: LogLevel, words: string) => void,
    private readonly onRisk: (risk: boolean) => void,
  ) {
    this.name = answer.session;
    this.ttl = milliseconds(answer.leaseTtl) || limits.LEASE_TTL_MS;
    this.deliveryTtl = milliseconds(answer.deliveryTtl) || limits.DELIVERY_TTL_MS;
    // A server's mistake must not make beats rarer than the TTL can bear.
    this.beatInterval = Math.min(milliseconds(answer.beatInterval) || limits.BEAT_INTERVAL_MS, this.ttl / 3);
    this.wait = Math.min(milliseconds(answer.maxWait) || limits.LEASE_WAIT_MS, limits.LEASE_WAIT_MS);
    this.maxResults = Math.min(answer.maxResults || limits.RESULTS_PER_CALL_MAX, limits.RESULTS_PER_CALL_MAX);
    this.#renewedAt = sentAt;
    this.#aliveFor = this.ttl;
  }

  /** Unique among all sessions, for one logical call or outcome. */
  nextRequestId(): string {
    return `${this.name.replace(/^sessions\//, "")}-${++this.#ids}`;
  }

  /** A beat sent at `sentAt` was answered with so much life. */
  renew(sentAt: number, life: number): void {
    // Answers may overtake each other; the latest beat says what holds.
    if (this.endedFor !== Stop.None || sentAt < this.#renewedAt) {
      return;
    }
    this.#renewedAt = sentAt;
    this.#aliveFor = life;
    if (this.#atRisk) {
      this.#atRisk = false;
      this.onRisk(false);
      this.log("info", `${this.name}: beats are answered again`);
    }
  }

  /** Warns and ends as time demands; the next instant to look again. */
  checkLife(now: number): number {
    const until = this.#renewedAt + this.#aliveFor;
    const risk = this.#renewedAt + this.#aliveFor * AT_RISK;
    if (now >= until) {
      this.end(Stop.Expired, `no beat was answered for ${this.ttl / 1_000} s`);
      return Number.POSITIVE_INFINITY;
    }
    if (now < risk) {
      return risk;
    }
    if (!this.#atRisk) {
      this.#atRisk = true;
      this.onRisk(true);
      this.log("warn", `${this.name}: no beat is answered; its ${this.holdings.size} leases are about to be lost`);
    }
    return until;
  }

  end(reason: Stop, words: string): void {
    if (this.endedFor === Stop.None) {
      this.endedFor = reason;
      this.log("warn", `${this.name} ended (${Stop[reason]}): ${words}`);
      this.over.set();
    }
  }

  note(lease: Held, words: string): void {
    this.#notes.set(lease.key, { lease, words });
  }

  takeNotes(): Progress[] {
    const told: Progress[] = [];
    for (const [key, { lease, words }] of this.#notes) {
      if (told.length === limits.BEAT_NOTES_MAX) {
        break;
      }
      told.push(create(ProgressSchema, { job: lease.job, fence: lease.fence, note: words }));
      this.#notes.delete(key);
    }
    return told;
  }
}

/**
 * Opens a session, under one request_id until it is answered; undefined when it was told to stop. Rejects with what the
 * server refuses for good.
 */
export async function openSession(
  link: Link,
  request: MessageInitShape<typeof OpenSessionRequestSchema>,
  stop: AbortSignal,
  log: (level: LogLevel, words: string) => void,
  onRisk: (risk: boolean) => void,
): Promise<Session | undefined> {
  const backoff = new Backoff(limits.BACKOFF_FIRST_MS, limits.BACKOFF_MOST_MS);
  const requestId = randomUUID();
  for (let failures = 1; !stop.aborted; failures++) {
    const sentAt = monotonic();
    try {
      const options = { timeoutMs: limits.CONNECT_TIMEOUT_MS, signal: stop };
      const answer = await link.channel.unary(WorkerService.method.openSession, { ...request, requestId }, options);
      const session = new Session(answer, sentAt, log, onRisk);
      log("info", `${session.name} opened, epoch ${answer.epoch}, TTL ${session.ttl / 1_000} s`);
      return session;
    } catch (error) {
      const refusal = error as RotaError;
      if (stop.aborted) {
        return undefined;
      }
      if (!refusal.isTransient) {
        throw refusal;
      }
      if (refusal.code === Code.DEADLINE_EXCEEDED) {
        link.renew("no session within the time of a call");
      }
      log(failures === 1 || failures === 10 ? "warn" : "debug", `no session yet: ${refusal.message}`);
      await sleep(backoff.next(refusal.retryAfterMs), stop);
    }
  }
  return undefined;
}

export async function closeSession(
  link: Link,
  session: Session,
  mode: CloseMode,
  timeoutMs: number,
  log: (level: LogLevel, words: string) => void,
): Promise<void> {
  try {
    await link.channel.unary(WorkerService.method.closeSession, { session: session.name, mode }, { timeoutMs });
  } catch (error) {
    // The TTL does the rest.
    log("warn", `${session.name}: close was not answered: ${fromRpc(error).message}`);
  }
}

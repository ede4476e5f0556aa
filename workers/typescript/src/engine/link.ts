import { Channel } from "../channel.js";
import type { Endpoint } from "../endpoint.js";
import * as limits from "../limits.js";
import type { LogLevel } from "../messages.js";
import { monotonic } from "../shared.js";

/** The worker's connection, which can be exchanged for a new one under its calls. */
export class Link {
  channel: Channel;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #closed = false;
  readonly #old = new Set<Channel>();

  constructor(
    private readonly endpoint: Endpoint,
    private readonly log: (level: LogLevel, words: string) => void,
  ) {
    this.channel = new Channel(endpoint);
  }

  /** Goes over to a new connection; false when that was done a moment ago. Calls on the old one have time to end. */
  renew(why: string): boolean {
    const now = monotonic();
    if (this.#closed || now - this.#renewedAt < limits.RENEW_INTERVAL_MS) {
      return false;
    }
    this.log("info", `a new connection: ${why}`);
    const old = this.channel;
    this.#renewedAt = now;
    this.channel = new Channel(this.endpoint);
    this.#old.add(old);
    setTimeout(() => {
      this.#old.delete(old);
      old.close();
    }, limits.LEASE_WAIT_MS + limits.LEASE_ANSWER_GRACE_MS).unref();
    return true;
  }

  close(): void {
    this.#closed = true;
    for (const channel of [this.channel, ...this.#old]) {
      channel.close();
    }
  }
}

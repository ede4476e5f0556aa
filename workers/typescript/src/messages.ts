/** What the two threads of a worker tell each other. */
import type { Endpoint } from "./endpoint.js";

export interface Setup {
  endpoint: Endpoint;
  shared: SharedArrayBuffer;
  identity: {
    worker: string;
    buildId: string;
    queues: string[];
    types: string[];
    slots: number;
    labels: Record<string, string>;
  };
  drainTimeoutMs: number;
  unwindTimeoutMs: number;
}

/** A lease on its way to its handler: `lease` is the message's bytes. */
export interface Granted {
  index: number;
  lease: Uint8Array;
  session: string;
  receivedAt: number;
}

export interface Refusal {
  code: number;
  reason: string;
  message: string;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

export type ToMain =
  | { kind: "start"; leases: Granted[] }
  | { kind: "stop"; index: number }
  | { kind: "log"; level: LogLevel; words: string }
  | { kind: "exit"; refusal: Refusal | null };

export type ToEngine =
  /** The handler of a lease has ended, or will not start; with its outcome where it is the handler's to decide. */
  | { kind: "ended"; index: number; result: Uint8Array | null }
  | { kind: "note"; index: number; words: string }
  | { kind: "drain" }
  | { kind: "hurry" };

/** The TypeScript SDK under the conformance suite: see workers/conformance/README.md for the lines it reads and writes. */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { trace } from "@opentelemetry/api";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import {
  Cancelled,
  EffectUnknown,
  Failed,
  Fatal,
  type Lease,
  Release,
  Retry,
  RotaError,
  Stop,
  Worker,
} from "../src/index.js";

const SHOWN_BYTES = 1_000;

interface Config {
  address: string;
  api_key: string;
  queues: string[];
  slots: number;
  drain_timeout: number;
  trace?: boolean;
  types: Record<string, string | Record<string, unknown>>;
}

interface Failure {
  message?: string;
  type?: string;
  retryable?: boolean;
  retry_after?: number;
  message_bytes?: number;
  text?: string;
}

function tell(event: string, fields: object): void {
  const line = JSON.stringify({ event, ...fields }, (_, value) => (typeof value === "bigint" ? String(value) : value));
  writeSync(1, `${line}\n`);
}

const finishing = new Map<string, PromiseWithResolvers>();

interface PromiseWithResolvers {
  promise: Promise<void>;
  resolve: () => void;
}

function finish(job: string): PromiseWithResolvers {
  let found = finishing.get(job);
  if (found === undefined) {
    let resolve = () => {};
    const promise = new Promise<void>((keep) => {
      resolve = keep;
    });
    found = { promise, resolve };
    finishing.set(job, found);
  }
  return found;
}

function reasonOf(stop: Stop): string {
  switch (stop) {
    case Stop.None:
      return "";
    case Stop.TimedOut:
      return "timeout";
    case Stop.Leaving:
      return "leaving";
    case Stop.Cancel:
      return "cancel";
    default:
      return "lost";
  }
}

/** Tells once that the attempt is at risk, and once for each reason to stop, before the handler has ended. */
function watch(lease: Lease): () => void {
  const told = new Set<string>();
  const once = (key: string, event: string, fields: object) => {
    if (!told.has(key)) {
      told.add(key);
      tell(event, { job: lease.job, fence: lease.fence, ...fields });
    }
  };
  const look = () => {
    if (lease.atRisk) {
      once("at_risk", "at_risk", {});
    }
    const reason = reasonOf(lease.stopReason);
    if (reason !== "") {
      once(reason, "stopping", { reason });
    }
  };
  const timer = setInterval(look, 20);
  return () => {
    clearInterval(timer);
    look();
  };
}

async function hold(lease: Lease): Promise<string> {
  const stopped = new Promise<never>((_, reject) => {
    lease.signal.addEventListener("abort", () => reject(lease.signal.reason), { once: true });
  });
  lease.throwIfStopped();
  await Promise.race([finish(lease.job).promise, stopped]);
  return "finished";
}

function fail(given: Failure): never {
  let message = given.message ?? "went wrong";
  if (given.text === "nul-and-surrogate") {
    message = "before\u0000middle\ud800after";
  }
  if (given.message_bytes !== undefined) {
    message = "é".repeat(given.message_bytes / 2);
  }
  if (given.retryable === false) {
    throw new Fatal(message);
  }
  if (given.retry_after !== undefined) {
    throw new Retry(message, { afterMs: given.retry_after * 1_000 });
  }
  if (given.type !== undefined) {
    throw new Failed(message, { type: given.type });
  }
  throw new TypeError(message);
}

async function act(lease: Lease, name: string, argument: unknown): Promise<unknown> {
  switch (name) {
    case "return":
      return argument ?? "ok";
    case "hold":
      return hold(lease);
    case "deaf":
      await delay(Number(argument) * 1_000);
      return "late";
    case "block": {
      const until = Date.now() + Number(argument) * 1_000;
      while (Date.now() < until) {
        // Busy: the event loop gets no turn.
      }
      return "blocked";
    }
    case "fail":
      return fail((argument ?? {}) as Failure);
    case "result_bytes":
      return new Uint8Array(Number(argument));
    case "release":
      throw new Release("the case says so", Number(argument ?? 0) * 1_000);
    case "unasked":
      throw new Cancelled("nobody asked");
    case "unknown_effect":
      throw new EffectUnknown("no answer from the target");
    case "spawn":
      for (let n = 0; n < Number(argument); n++) {
        lease.spawn({ type: "child", payload: { n } });
      }
      return "spawned";
    case "receipt":
      lease.receipt(String(argument));
      return "receipted";
    case "progress":
      lease.progress(String(argument));
      return hold(lease);
    default:
      throw new Error(`no such behaviour: ${name}`);
  }
}

function handler(behaviour: string | Record<string, unknown>) {
  const [name, argument] =
    typeof behaviour === "string" ? [behaviour, undefined] : (Object.entries(behaviour)[0] ?? [""]);
  return async (lease: Lease): Promise<unknown> => {
    const { data } = lease.payload;
    tell("started", {
      job: lease.job,
      fence: lease.fence,
      attempt: lease.attempt,
      type: lease.type,
      payload: data.length <= SHOWN_BYTES ? lease.text() : "",
      payload_bytes: data.length,
      effect_key: lease.effectKey,
      effect_headers: lease.effectHeaders(),
      traceparent: lease.traceparent,
      headers: lease.headers,
      remaining: Math.min(lease.remainingMs() / 1_000, 1e9),
    });
    const end = watch(lease);
    try {
      return await act(lease, name, argument);
    } finally {
      end();
      tell("ended", { job: lease.job, fence: lease.fence });
    }
  };
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const config = JSON.parse((await lines.next()).value as string) as Config;
if (config.trace) {
  trace.setGlobalTracerProvider(new BasicTracerProvider());
}
const worker = new Worker({
  address: config.address,
  apiKey: config.api_key,
  queues: config.queues,
  slots: config.slots,
  drainTimeoutMs: config.drain_timeout * 1_000,
  log: (level, words) => console.error(`${level}: ${words}`),
});
for (const [type, behaviour] of Object.entries(config.types)) {
  worker.handle(type, handler(behaviour));
}
void (async () => {
  for (;;) {
    const { value, done } = await lines.next();
    if (done) {
      return;
    }
    finish((JSON.parse(value) as { finish: string }).finish).resolve();
  }
})();
try {
  await worker.run();
} catch (error) {
  if (!(error instanceof RotaError)) {
    throw error;
  }
  tell("refused", { reason: error.reason, message: error.message });
  process.exit(1);
}
tell("left", { ...worker.counts() });
// A handler that never heeds anything must not keep the process.
process.exit(0);

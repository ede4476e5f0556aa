/** The TypeScript SDK's worker of the mixed fleet and of the benchmark: see workers/conformance/README.md. */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { once } from "../src/effects.js";
import { Worker } from "../src/index.js";

const SAY_EVERY = 100;
const { values } = parseArgs({ options: { slots: { type: "string", default: "20" } } });
const slots = Number(values.slots);
const target = new pg.Pool({ connectionString: process.env["FLEET_TARGET"], max: slots });
let started = 0;

function say(what: Record<string, number>): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

function starting(): void {
  started++;
  if (started % SAY_EVERY === 0) {
    say({ started });
  }
}

const worker = new Worker({ slots });

worker.handle("noop", () => starting());

/** One row for each job, in the transaction of its effect key; goes wrong at random before or after it. */
worker.handle("pay", async (lease) => {
  starting();
  const wish = lease.json<{ slow_ms: number; fails: number }>();
  await sleep(wish.slow_ms, undefined, { signal: lease.signal });
  if (Math.random() < wish.fails) {
    throw new Error("the target is away");
  }
  const client = await target.connect();
  try {
    await client.query("begin");
    if (await once(client, lease)) {
      await client.query("insert into payments (job, fence, sdk) values ($1, $2, 'typescript')", [
        lease.job,
        String(lease.fence),
      ]);
    }
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
  if (Math.random() < wish.fails) {
    throw new Error("failed after its commit");
  }
});

process.stdin.resume().on("end", () => process.exit(1));
const { user, system } = process.cpuUsage();
say({ ready_cpu_s: (user + system) / 1e6 });
await worker.run();
process.exit(0);

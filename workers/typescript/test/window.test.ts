import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { LeaseSchema } from "../src/gen/rota/worker/v1/worker_pb.js";
import { Lease } from "../src/lease.js";
import { monotonic, Shared } from "../src/shared.js";
import { forgetWarnings, windowShortfallMs } from "../src/window.js";

const HOUR_S = 3_600;
const HOUR_MS = 3_600_000;

function lease(warn: (words: string) => void = () => {}, deadlineS?: number): Lease {
  const deadline = deadlineS === undefined ? {} : { deadline: { seconds: BigInt(deadlineS), nanos: 0 } };
  return new Lease(
    create(LeaseSchema, { job: "jobs/1", fence: 7n, type: "work", effectKey: "key", ...deadline }),
    { index: 0, session: "sessions/s1", receivedAt: monotonic(), shared: new Shared(1) },
    () => {},
    () => "id",
    warn,
  );
}

test("effect headers", () => {
  assert.deepEqual(lease().effectHeaders(), { "Idempotency-Key": "key", "Rota-Fence": "7" });
});

test("how much too early a target forgets keys", () => {
  assert.equal(windowShortfallMs(24 * HOUR_MS, HOUR_MS, 0), 0);
  assert.equal(windowShortfallMs(24 * HOUR_MS, 24 * HOUR_MS, 1), 1);
  assert.equal(windowShortfallMs(60_000, 30_000, 31_000), 1_000);
  assert.equal(windowShortfallMs(60_000, Number.POSITIVE_INFINITY, 0), Number.POSITIVE_INFINITY);
});

test("a target that forgets too early is warned of once", () => {
  const told = (deadlineS?: number, redriveMs?: number): string => {
    const words: string[] = [];
    const found = lease((said) => words.push(said), deadlineS).effectHeaders({ windowMs: HOUR_MS, redriveMs });
    assert.deepEqual(found, { "Idempotency-Key": "key", "Rota-Fence": "7" });
    return words.join("\n");
  };
  forgetWarnings();
  assert.equal(told(HOUR_S / 2, 0), "");
  assert.match(told(2 * HOUR_S, 0), /"work": its target forgets idempotency keys after 3600 s, 3600 s before/);
  assert.equal(told(2 * HOUR_S, 0), "");
  forgetWarnings();
  assert.match(told(HOUR_S / 2), /1207800 s before the last possible attempt/);
  forgetWarnings();
  assert.match(told(undefined, 0), /no total timeout/);
  lease(() => assert.fail("nobody asked")).effectHeaders();
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { EffectState } from "../src/gen/rota/v1/common_pb.js";
import { Cancelled, EffectUnknown, Failed, Fatal, Release, Retry, Stop, Stopped } from "../src/index.js";
import { ofError, type Subject, succeeded } from "../src/outcome.js";
import { Shared } from "../src/shared.js";

function subject(stopReason = Stop.None): Subject {
  let ids = 0;
  return {
    job: "jobs/1",
    fence: 7n,
    stopReason,
    runTimeoutMs: 60_000,
    receipts: [],
    spawned: [],
    nextRequestId: () => `id-${++ids}`,
  };
}

test("what errors mean", () => {
  const kind = (error: unknown, asked = Stop.None) => ofError(subject(asked), error).outcome.case;
  assert.equal(kind(new Error("x")), "failed");
  assert.equal(kind("a text"), "failed");
  assert.equal(kind(new Release("later", 1_000)), "released");
  assert.equal(kind(new Stopped(Stop.Cancel), Stop.Cancel), "cancelled");
  assert.equal(kind(new DOMException("x", "AbortError"), Stop.Cancel), "cancelled");
  assert.equal(kind(new Cancelled()), "failed");
  assert.equal(kind(new Stopped(Stop.Leaving), Stop.Leaving), "released");
  assert.equal(kind(new Error("x"), Stop.Cancel), "failed");
});

test("what failures say", () => {
  const told = (error: unknown, asked = Stop.None) => {
    const { outcome } = ofError(subject(asked), error);
    assert.equal(outcome.case, "failed");
    return outcome.case === "failed" ? outcome.value : undefined;
  };
  assert.equal(told(new Fatal("x"))?.retryable, false);
  assert.equal(told(new TypeError("x"))?.failure?.type, "TypeError");
  assert.equal(told(new Failed("3", { type: "ExitCode" }))?.failure?.type, "ExitCode");
  assert.equal(told(new Retry("x", { afterMs: 7_200_000 }))?.retryAfter?.seconds, 3_600n);
  assert.equal(told(new Retry("", { cause: new RangeError("y") }))?.failure?.type, "RangeError");
  assert.equal(told(new EffectUnknown("x"))?.effectState, EffectState.UNKNOWN);
  assert.equal(told(new Error("x"), Stop.TimedOut)?.failure?.type, "TimedOut");
  const odd = {
    toString() {
      throw new Error("no");
    },
  };
  assert.match(told(odd)?.failure?.message ?? "", /cannot be made/);
});

test("results that cannot be kept fail for good", () => {
  for (const value of [new Uint8Array(65_537), () => 1, 1n]) {
    const { outcome } = succeeded(subject(), value);
    assert.equal(outcome.case === "failed" && outcome.value.retryable, false);
  }
  assert.equal(succeeded(subject(), "x".repeat(65_536)).outcome.case, "succeeded");
});

test("a lease is decided once, and the gravest reason stays", () => {
  const shared = new Shared(4);
  shared.renew(2);
  assert.ok(shared.begin(2) && !shared.begin(2) && !shared.settleUnstarted(2));
  assert.ok(shared.settle(2) && !shared.settle(2));
  assert.ok(shared.askToStop(2, Stop.Cancel) && !shared.askToStop(2, Stop.Leaving) && shared.askToStop(2, Stop.Lost));
  assert.equal(new Shared(shared.buffer).stopOf(2), Stop.Lost);
  shared.renew(2);
  assert.ok(shared.isQueued(2) && shared.stopOf(2) === Stop.None);
});

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { resolve } from "../src/endpoint.js";
import { Payload, RotaError, Worker } from "../src/index.js";
import { createRequest } from "../src/job.js";
import { clean } from "../src/text.js";

test("texts are cleaned and cut", () => {
  assert.equal(clean("a\u0000b", 100), "ab");
  assert.equal(clean("a\ud800b", 100), "a\ufffdb");
  assert.equal(clean("x".repeat(100), 100), "x".repeat(100));
  const cut = clean("é".repeat(100), 100);
  assert.ok(Buffer.byteLength(cut) <= 100 && cut.endsWith("… (cut)") && !cut.includes("\ufffd"));
  assert.equal(clean("éé", 3), "é");
});

test("addresses", () => {
  const cases: [string, string, boolean, boolean][] = [
    ["127.0.0.1:7070", "127.0.0.1:7070", false, true],
    ["rota.example", "rota.example:7070", false, false],
    ["grpcs://rota.example:443", "rota.example:443", true, false],
    ["[::1]:9", "[::1]:9", false, true],
    ["localhost", "localhost:7070", false, true],
  ];
  for (const [address, target, secure, loopback] of cases) {
    const found = resolve({ address }, {});
    assert.deepEqual([found.target, found.tls !== null, found.loopback], [target, secure, loopback], address);
  }
  for (const address of ["ftp://a:1", "http://a/b", "a b", "a:99999", "://"]) {
    assert.throws(() => resolve({ address }, {}), /address: expected host:port/, address);
  }
});

test("the key of rota dev is found on this machine only", () => {
  const home = mkdtempSync(join(tmpdir(), "rota-"));
  mkdirSync(join(home, "dev"));
  writeFileSync(join(home, "dev", "api-key"), "rk_dev\n");
  const env = { ROTA_HOME: home };
  assert.equal(resolve({ address: "127.0.0.1:1" }, env).apiKey, "rk_dev");
  assert.equal(resolve({ address: "rota.example:1" }, env).apiKey, "");
  assert.equal(resolve({}, { ...env, ROTA_API_KEY: "rk_env" }).apiKey, "rk_env");
  assert.equal(resolve({ apiKey: "rk_given" }, { ...env, ROTA_API_KEY: "rk_env" }).apiKey, "rk_given");
});

test("half an identity is refused", () => {
  assert.throws(() => resolve({}, { ROTA_TLS_CERT: "cert.pem" }), /both a certificate and its key/);
});

test("payloads", () => {
  assert.equal(Payload.of("é").contentType, "text/plain; charset=utf-8");
  assert.deepEqual(Payload.of({ a: 1 }).json(), { a: 1 });
  assert.equal(Payload.of(undefined).data.length, 0);
  assert.throws(() => Payload.of(() => 1), /JSON form/);
});

test("a new job with two due times is refused", () => {
  assert.throws(() => createRequest({ type: "t", runTime: new Date(), delayMs: 1 }), /give one/);
  assert.throws(() => createRequest({ type: "" }), /type: expected/);
  assert.equal(createRequest({ type: "t", delayMs: 1_500 }).delay?.nanos, 500_000_000);
});

test("bad options are named", () => {
  assert.throws(() => new Worker({ slots: 0 }), /slots: expected 1 to/);
  assert.throws(() => new Worker({ queues: [] }), /queues: expected 1 to/);
  assert.throws(() => new Worker({ drainTimeoutMs: -1 }), /drainTimeoutMs/);
});

test("handlers are registered once, and a worker needs one", async () => {
  const worker = new Worker({ address: "127.0.0.1:1" });
  await assert.rejects(worker.run(), /expected a handler/);
  worker.handle("work", () => {});
  assert.throws(() => worker.handle("work", () => {}), /without a handler/);
  worker.stop();
  await worker.run();
});

test("errors are told apart", () => {
  assert.ok(new RotaError(10, "STALE_FENCE", "x").isStaleFence);
  assert.ok(new RotaError(14, "", "x").isTransient);
  assert.ok(!new RotaError(8, "QUOTA_EXCEEDED", "x").isTransient);
  assert.match(
    String(new RotaError(3, "VALIDATION_FAILED", "x", {}, 0, [{ field: "job.type", description: "y" }])),
    /job\.type: y/,
  );
});

// The client against the real server, with a store in memory: what fails on the way is produced by a proxy.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import { Keystead, KeysteadError, MemoryStore } from "../dist/index.js";
import { Backoff } from "../dist/sync/backoff.js";
import { Proxy, Server, until } from "./server.mjs";

let server;
let proxy;
const open = [];

before(async () => {
  const limits = path.join(os.tmpdir(), `keystead-client-${process.pid}.toml`);
  await writeFile(limits, '[limit.login]\nkind = "fixedWindow"\nlimit = 2\nwindowMs = 3600000\nfail = "closed"\n', { mode: 0o600 });
  server = await Server.start(["--durability", "commit", "--shards", "4", "--config", limits]);
  proxy = await Proxy.start(server.url);
});

after(async () => {
  await Promise.all(open.map((sync) => sync.close()));
  proxy.stop();
  await server.stop();
});

const quick = () => new Backoff(10, 200);

async function connect(prefix, options = {}) {
  const keystead = new Keystead({ url: options.url ?? proxy.url, timeoutMs: options.timeoutMs ?? 10_000 });
  const settled = [];
  const onSettled = (one) => settled.push(one);
  const sync = await keystead.sync({ prefix, backoff: quick(), intervalMs: 500, onSettled, ...options });
  open.push(sync);
  return { sync, settled };
}

async function stored(key) {
  return (await new Keystead({ url: server.url }).documents().get(key)) ?? undefined;
}

/** What the proxy does with the next requests to upload. */
function uploads(...rules) {
  proxy.rule = (request) => (request.method === "POST" ? rules.shift() : undefined);
}

test("documents and limits", async () => {
  const keystead = new Keystead({ url: server.url });
  const documents = keystead.documents();
  const stop = new AbortController();
  const changes = documents.watch("doc/", { signal: stop.signal });
  const first = changes.next();
  await new Promise((resolve) => setTimeout(resolve, 200));
  const key = "doc/a b%?é";
  assert.deepEqual(await documents.put(key, { n: 1 }, { ifVersion: "absent" }), { key, value: { n: 1 }, version: 1 });
  assert.equal((await documents.patch(key, { m: 2 }, { ifVersion: 1 })).version, 2);
  assert.deepEqual((await documents.get(key)).value, { n: 1, m: 2 });
  await assert.rejects(documents.put(key, 3, { ifVersion: 1 }), (error) => {
    assert.ok(error instanceof KeysteadError);
    assert.deepEqual([error.code, error.status, error.current], ["conflict", 409, 2]);
    return true;
  });
  assert.equal(await documents.delete(key), true);
  assert.equal(await documents.delete(key), false);
  assert.equal(await documents.get(key), null);
  assert.deepEqual((await first).value, { key, value: { n: 1 }, version: 1 });
  stop.abort();
  const decisions = [];
  for (let n = 0; n < 3; n++) decisions.push((await keystead.limits.check("login", "ada")).allowed);
  assert.deepEqual(decisions, [true, true, false]);
});

test("reads see queued edits, and each arrives one time and in order", async () => {
  uploads("drop", "drop", "drop");
  const { sync, settled } = await connect("order:");
  for (let n = 1; n <= 20; n++) await sync.set("order:doc", "n", n);
  await sync.put("order:other", { x: 1 });
  await sync.delete("order:other", { field: "x" });
  assert.deepEqual(await sync.get("order:doc"), { n: 20 });
  assert.deepEqual((await sync.list()).map(({ key, isPending }) => [key, isPending]), [["order:doc", true], ["order:other", true]]);
  await sync.flush();
  assert.deepEqual(settled.map(({ result }) => result.status), Array(22).fill("applied"));
  assert.deepEqual(settled.map(({ edit }) => edit.id), settled.map(({ edit }) => edit.id).toSorted((a, b) => a - b));
  assert.deepEqual(await stored("order:doc"), { key: "order:doc", value: { n: 20 }, version: 20 });
  assert.deepEqual([await sync.get("order:doc"), await sync.get("order:other")], [{ n: 20 }, {}]);
  assert.equal((await sync.status()).pending, 0);
});

test("a chunk that fails is sent again, and no other", async () => {
  const rules = [undefined, { status: 503, body: '{"error":{"code":"queue_full","message":"x"}}' }];
  proxy.requests.length = 0;
  proxy.rule = () => "drop";
  const { sync } = await connect("chunk:", { live: false });
  for (let n = 1; n <= 120; n++) await sync.set(`chunk:${n % 7}`, "n", n);
  proxy.requests.length = 0;
  proxy.rule = (request) => (request.method === "POST" ? rules.shift() : undefined);
  await sync.flush();
  const sent = proxy.uploads.map((items) => [items[0].value, items.length]);
  assert.deepEqual(sent, [[1, 50], [51, 50], [51, 50], [101, 20]]);
});

test("a response that is lost changes nothing when the edits are sent again", async () => {
  uploads("lose", "lose");
  const { sync, settled } = await connect("lost:");
  for (let n = 1; n <= 10; n++) await sync.put("lost:doc", n);
  await sync.flush();
  assert.ok(settled.some(({ result }) => result.again));
  assert.deepEqual(await stored("lost:doc"), { key: "lost:doc", value: 10, version: 10 });
});

test("it recovers after any failure", async () => {
  const failures = ["drop", "hang", { status: 500 }, { status: 200, body: "<html>" }, { status: 200, body: "{}" },
    { status: 401, body: '{"error":{"code":"unauthorized","message":"x"}}' }, { status: 404, body: "" }, { status: 429 }];
  uploads(...failures);
  const { sync } = await connect("fail:", { timeoutMs: 300 });
  const { settled } = await sync.put("fail:doc", 1);
  assert.equal((await settled).status, "applied");
  proxy.rule = (request) => (request.method === "GET" ? { status: 500 } : undefined);
  assert.equal((await (await sync.put("fail:doc", 2)).settled).status, "applied", "uploads do not depend on fetching");
  proxy.rule = () => undefined;
  await until("no error", async () => (await sync.status()).error === undefined);
  assert.equal((await stored("fail:doc")).version, 2);
});

test("an edit that the server never takes does not hold back the others", async () => {
  proxy.rule = ({ method, body }) =>
    method === "POST" && body.items.some((item) => item.key === "poison:7")
      ? { status: 413, body: '{"error":{"code":"too_large","message":"it is too large"}}' }
      : undefined;
  const { sync, settled } = await connect("poison:");
  for (let n = 0; n < 60; n++) await sync.put(`poison:${n}`, n);
  await sync.flush();
  proxy.rule = () => undefined;
  const refused = settled.filter(({ result }) => result.status !== "applied");
  assert.deepEqual(refused.map(({ edit, result }) => [edit.key, result.status, result.error.code]), [["poison:7", "refused", "too_large"]]);
  assert.equal(await sync.get("poison:7"), undefined);
  assert.equal(settled.length, 60);
});

test("two clients that edit the same members offline converge, and losers are reported", async () => {
  const [one, two] = [await connect("both:"), await connect("both:")];
  await (await one.sync.put("both:doc", { a: 0, b: 0 })).settled;
  await until("two has it", () => two.sync.get("both:doc"));
  proxy.rule = () => "drop";
  await one.sync.set("both:doc", "a", "one");
  await new Promise((resolve) => setTimeout(resolve, 5));
  await two.sync.set("both:doc", "a", "two");
  await two.sync.set("both:doc", "b", "two");
  assert.deepEqual(await one.sync.get("both:doc"), { a: "one", b: 0 });
  // The later edit arrives first.
  proxy.rule = ({ body }) => (body !== undefined && body.client !== two.sync.client ? "drop" : undefined);
  await two.sync.flush();
  proxy.rule = () => undefined;
  await one.sync.flush();
  const [lost] = one.settled.filter(({ result }) => result.status === "stale");
  assert.deepEqual([lost.edit.value, lost.result.winner.value, lost.result.winner.client], ["one", "two", two.sync.client]);
  const expected = { a: "two", b: "two" };
  await until("both agree", async () => JSON.stringify(await one.sync.get("both:doc")) === JSON.stringify(expected));
  assert.deepEqual(await two.sync.get("both:doc"), expected);
  assert.deepEqual((await stored("both:doc")).value, expected);
});

test("conflicts are settled with what is there", async () => {
  const { sync } = await connect("if:");
  await (await sync.put("if:doc", 1, { ifVersion: 0 })).settled;
  await new Keystead({ url: server.url }).documents().put("if:doc", 2);
  const result = await (await sync.put("if:doc", 3, { ifVersion: 1 })).settled;
  assert.deepEqual([result.status, result.winner.value, result.winner.version], ["conflict", 2, 2]);
  assert.equal(await sync.get("if:doc"), 2);
});

test("a server that is killed in between gets every edit one time", async () => {
  const own = await Server.start(["--durability", "fsync", "--shards", "4"]);
  const { sync, settled } = await connect("kill:", { url: own.url });
  const count = 400;
  const kills = (async () => {
    for (let n = 0; n < 3; n++) {
      await until("some are settled", () => settled.length > n * 100 + 20);
      await own.kill();
      await own.restart();
    }
  })();
  for (let n = 1; n <= count; n++) {
    await sync.set(`kill:${n % 5}`, "n", n);
    if (n % 20 === 0) await until("the queue is short", () => settled.length > n - 120 || n < 60);
  }
  await sync.flush();
  await kills;
  assert.deepEqual(settled.map(({ result }) => result.status), Array(count).fill("applied"));
  for (let n = 0; n < 5; n++) {
    const document = await new Keystead({ url: own.url }).documents().get(`kill:${n}`);
    assert.deepEqual([document.version, document.value.n], [count / 5, n === 0 ? count : count - 5 + n]);
  }
  await sync.close();
  await own.stop();
});

test("what was deleted while changes were not stored disappears", async () => {
  const own = await Server.start(["--durability", "memory"]);
  const { sync } = await connect("gone:", { url: own.url });
  for (const key of ["gone:a", "gone:b"]) await (await sync.put(key, 1)).settled;
  await until("both are known", async () => (await sync.version("gone:a")) === 1 && (await sync.version("gone:b")) === 1);
  // Another database: nothing of the old one is there.
  await own.kill();
  await own.restart();
  await new Keystead({ url: own.url }).documents().put("gone:b", 2);
  await until("only one is left", async () => JSON.stringify(await sync.list()) === JSON.stringify([{ key: "gone:b", value: 2, isPending: false }]));
  await sync.close();
  await own.stop();
});

test("a clock that is a year ahead is corrected", async () => {
  const now = Date.now;
  Date.now = () => now() + 365 * 24 * 3600 * 1000;
  try {
    const { sync } = await connect("clock:");
    const first = await (await sync.put("clock:doc", 1)).settled;
    assert.equal(first.clamped, true);
    const second = await (await sync.put("clock:doc", 2)).settled;
    assert.deepEqual([second.status, second.clamped], ["applied", undefined]);
    assert.ok((await sync.status()).skewMs > 1e10);
  } finally {
    Date.now = now;
  }
});

test("a store of its own is used, and ids continue", async () => {
  const store = new MemoryStore();
  const { sync } = await connect("store:", { store });
  const { id } = await sync.put("store:doc", 1);
  await sync.flush();
  await sync.close();
  const { sync: again } = await connect("store:", { store });
  assert.equal(again.client, sync.client);
  assert.equal((await again.put("store:doc", 2)).id, id + 1);
  await assert.rejects(again.put("other:doc", 1), /does not begin/);
});

test("waiting grows, has jitter and a bound, and starts again after a success", () => {
  const least = new Backoff(100, 1000, () => 0);
  const most = new Backoff(100, 1000, () => 0.999999);
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(() => least.next()), [50, 100, 200, 400, 500, 500]);
  for (let n = 0; n < 100; n++) assert.ok(most.next() <= 1000);
  most.reset();
  assert.ok(most.next() <= 100);
});

// What goes wrong on the device: its storage fails, was cleared, is an old copy, or is full; and what became of edits is not lost with
// the program that made them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Keystead, MemoryStore } from "../dist/index.js";
import { Backoff } from "../dist/sync/backoff.js";
import { Proxy, Server, until } from "./server.mjs";

let server, proxy;

before(async () => {
  server = await Server.start(["--durability", "commit", "--shards", "4"]);
  proxy = await Proxy.start(server.url);
});

after(async () => {
  proxy.stop();
  await server.stop();
});

/** A client with this store; what its hook has is in `settled`. */
async function connect(prefix, store, options = {}) {
  const settled = [];
  const onSettled = (one, isOwn) => void settled.push({ ...one, isOwn });
  const keystead = new Keystead({ url: proxy.url });
  const sync = await keystead.sync({ prefix, store, backoff: new Backoff(10, 100), live: false, intervalMs: 200, onSettled, ...options });
  return { sync, settled };
}

async function at(now, run) {
  const real = Date.now;
  Date.now = () => now;
  try {
    return await run();
  } finally {
    Date.now = real;
  }
}

const statuses = (settled) => settled.map(({ result }) => result.error?.code ?? result.status);
const value = async (key) => (await new Keystead({ url: server.url }).documents().get(key))?.value;

test("a store that fails when the client begins is read again until it works", async () => {
  class Failing extends MemoryStore {
    isBroken = false;
    failures = { meta: 0, reports: 0, first: 0 };
    #fail(name) {
      if (!this.isBroken || this.failures[name] === 3) return;
      this.failures[name] += 1;
      throw new Error("the disk has failed");
    }
    async meta(first) {
      this.#fail("meta");
      return super.meta(first);
    }
    async reports() {
      this.#fail("reports");
      return super.reports();
    }
    async first(count) {
      this.#fail("first");
      return super.first(count);
    }
  }
  const store = new Failing();
  const { sync } = await connect("fails:", store);
  // Its first attempt has not begun yet.
  store.isBroken = true;
  const { settled } = await sync.put("fails:doc", 1);
  assert.equal((await settled).status, "applied");
  await until("all have failed", () => Object.values(store.failures).join() === "3,3,3");
  await until("it fetches, too", async () => (await sync.version("fails:doc")) === 1 && (await sync.status()).error === undefined);
  await sync.close();
});

test("a device whose storage was cleared, and whose clock had been ahead, goes on", async () => {
  const keys = Array.from({ length: 40 }, (_, n) => `cleared:${n}`);
  const { sync: before } = await connect("cleared:", new MemoryStore(), { client: "phone" });
  await at(Date.now() + 50_000, async () => {
    for (const key of keys) await before.put(key, "before");
  });
  await before.flush();
  await before.close();
  proxy.rule = () => "drop";
  const { sync, settled } = await connect("cleared:", new MemoryStore(), { client: "phone" });
  for (const key of keys) await sync.put(key, "after", { ifVersion: 1 });
  for (const key of keys.slice(0, 20)) await sync.set(key, "and", "then");
  proxy.requests.length = 0;
  proxy.rule = () => undefined;
  await sync.flush();
  assert.deepEqual(statuses(settled), Array(60).fill("applied"));
  assert.ok(proxy.uploads.length > 2, "some were sent again");
  assert.deepEqual(await Promise.all(keys.map(value)), keys.map((_, n) => (n < 20 ? { and: "then" } : "after")));
  const { id, settled: last } = await sync.put(keys[0], "last");
  assert.deepEqual([(await last).status, (await last).id], ["applied", id]);
  await sync.close();
});

test("edits of an old copy of the storage are reported, and not made again", async () => {
  const now = Date.now();
  const copies = [new MemoryStore(), new MemoryStore()];
  const open = [];
  // Two copies of one storage, up to the first edit.
  for (const store of copies) {
    const { sync, settled } = await connect("copy:", store, { client: "laptop" });
    await at(now, () => sync.put("copy:doc", 0));
    await sync.flush();
    open.push({ sync, settled });
  }
  assert.equal(open[1].settled[0].result.again, true, "they are copies");
  proxy.rule = ({ method }) => (method === "POST" ? "drop" : undefined);
  await open[1].sync.put("copy:doc", "old");
  proxy.rule = ({ body }) => (body?.items[0].value === "old" ? "drop" : undefined);
  for (let n = 1; n <= 60; n++) await open[0].sync.put("copy:doc", n);
  await open[0].sync.flush();
  proxy.rule = () => undefined;
  await open[1].sync.flush();
  assert.deepEqual(statuses(open[1].settled), ["applied", "id_goes_back"]);
  assert.equal(await value("copy:doc"), 60);
  const { settled } = await open[1].sync.put("copy:doc", "new");
  assert.equal((await settled).status, "applied", "it has learned the last id");
  for (const { sync } of open) await sync.close();
});

test("what became of an edit is reported after the next start if the hook has not run, or has failed", async () => {
  const store = new MemoryStore();
  proxy.rule = () => "drop";
  const { sync: first } = await connect("again:", store, { client: "tablet" });
  for (const n of [1, 2]) await first.put("again:doc", n, { ifVersion: 7 });
  await first.close();
  proxy.rule = () => undefined;
  // One that has no hook, and one whose hook fails.
  const { sync: silent } = await connect("again:", store, { onSettled: undefined });
  await silent.flush();
  await silent.close();
  const failed = [];
  const onSettled = async ({ edit }) => {
    failed.push(edit.value);
    throw new Error("the page is not ready");
  };
  const errors = [];
  const { error: show } = console;
  console.error = (error) => errors.push(error.message);
  const { sync: failing } = await connect("again:", store, { onSettled });
  await until("it had both", () => failed.length === 2);
  await failing.put("again:other", 1);
  await failing.flush();
  await failing.close();
  console.error = show;
  assert.deepEqual([failed, errors], [[1, 2, 1], Array(3).fill("the page is not ready")], "one time in each program");
  const { sync, settled } = await connect("again:", store);
  await until("all were reported", () => settled.length === 3);
  assert.deepEqual(settled.map(({ edit, result, isOwn }) => [edit.key, edit.value, result.status, isOwn]), [
    ["again:doc", 1, "conflict", true], ["again:doc", 2, "conflict", true], ["again:other", 1, "applied", true]]);
  await until("nothing is left", async () => (await store.reports()).length === 0);
  await sync.close();
});

test("a queue that is full rejects the next edit, and takes edits again when it is shorter", async () => {
  proxy.rule = ({ method }) => (method === "POST" ? "drop" : undefined);
  const { sync, settled } = await connect("full:", new MemoryStore(), { queueEditsMax: 3, queueBytesMax: 1000 });
  const full = { name: "KeysteadError", code: "offline_queue_full", status: 0 };
  for (let n = 0; n < 3; n++) await sync.put(`full:${n}`, n);
  await assert.rejects(sync.put("full:3", 3), full);
  assert.deepEqual([await sync.get("full:3"), (await sync.status()).pending], [undefined, 3]);
  proxy.rule = () => undefined;
  await sync.flush();
  proxy.rule = ({ method }) => (method === "POST" ? "drop" : undefined);
  await sync.put("full:4", "x".repeat(900));
  await assert.rejects(sync.put("full:5", "x".repeat(100)), full);
  await sync.put("full:6", 6);
  proxy.rule = () => undefined;
  await sync.flush();
  assert.deepEqual(statuses(settled), Array(5).fill("applied"));
  await assert.rejects(sync.put("full:7", "x".repeat(1000)), full);
  await sync.close();
});

test("a value is queued as JSON has it, or rejected", async () => {
  const { sync } = await connect("json:", new MemoryStore());
  proxy.rule = () => "drop";
  await sync.put("json:doc", { when: new Date(0), none: undefined, nan: NaN });
  assert.deepEqual(await sync.get("json:doc"), { when: "1970-01-01T00:00:00.000Z", nan: null });
  const loop = {};
  loop.self = loop;
  for (const wrong of [undefined, () => 1, 10n, loop]) await assert.rejects(sync.put("json:doc", wrong), TypeError);
  assert.equal((await sync.status()).pending, 1);
  proxy.rule = () => undefined;
  await sync.flush();
  assert.deepEqual(await value("json:doc"), await sync.get("json:doc"));
  await sync.close();
});

// What starts an attempt, each alone: after a failure the next one is an hour away, and nothing else happens. In a real Chromium, on a
// page with nothing but the client.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Keystead, MemoryStore } from "../dist/index.js";
import { Backoff } from "../dist/sync/backoff.js";
import { until } from "./server.mjs";
import { all, useTodoPage, world } from "./todo.mjs";

useTodoPage();

const HOUR_MS = 3_600_000;

/** What a test edits: another document in each of them. */
let key;
beforeEach(() => {
  key = `todo:${crypto.randomUUID()}`;
});

/** A page with a client whose timers are an hour long, in `sync`. */
async function openPage(options = {}) {
  const page = await world.context.newPage();
  // Of the same origin, without the program of the to-do list.
  await page.goto(`${world.pageUrl}/config.json`);
  await page.evaluate(
    async ({ url, options, hour }) => {
      const map = document.createElement("script");
      map.type = "importmap";
      map.textContent = JSON.stringify({ imports: { "@keystead/client": "/dist/index.js", idb: "/idb/index.js" } });
      document.head.append(map);
      const [{ Keystead }, { Backoff }] = [await import("@keystead/client"), await import("/dist/sync/backoff.js")];
      const backoff = new Backoff(hour, hour);
      globalThis.sync = await new Keystead({ url }).sync({ prefix: "todo:", live: false, intervalMs: hour, backoff, ...options });
    },
    { url: world.proxy.url, options, hour: HOUR_MS },
  );
  return page;
}

const status = (page) => page.evaluate(async () => {
  const { pending, error, leads } = await sync.status();
  return { pending, leads, hasFailed: error !== undefined };
});
const attempts = () => world.proxy.requests.length;

/** A page whose edit has failed to be sent; it waits for an hour now, and the server is there again. */
async function waiting() {
  const page = await openPage();
  await until("it has begun", async () => attempts() > 0 && (await status(page)).leads);
  // Not a lost connection: the browser itself would send the request again.
  world.proxy.rule = ({ method }) => (method === "POST" ? { status: 503 } : undefined);
  await page.evaluate((key) => sync.put(key, {}).then(() => undefined), key);
  await until("it has failed", async () => (await status(page)).hasFailed);
  world.proxy.rule = () => undefined;
  const before = attempts();
  // What nothing is a reason for does not happen: this is what makes the other tests mean something.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.equal(attempts(), before, "it waits");
  assert.deepEqual([await all(), (await status(page)).pending], [[], 1]);
  return page;
}

const sent = (page) => until("it is sent", async () => (await all()).length === 1 && (await status(page)).pending === 0);

test("the network is there again (online)", async () => {
  const page = await waiting();
  await world.context.setOffline(true);
  await world.context.setOffline(false);
  await sent(page);
});

test("the page becomes visible, not hidden (visibilitychange)", async () => {
  const page = await waiting();
  const become = (state) =>
    page.evaluate((state) => {
      Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  const before = attempts();
  await become("hidden");
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal(attempts(), before, "hidden is no reason");
  await become("visible");
  await sent(page);
});

test("an edit, also of another tab", async () => {
  const page = await waiting();
  const other = await openPage();
  assert.equal((await status(other)).leads, false);
  await other.evaluate((key) => sync.set(key, "n", 2).then(() => undefined), key);
  await sent(page);
});

test("flush", async () => {
  const page = await waiting();
  await page.evaluate(() => sync.flush());
  await sent(page);
});

test("the next start", async () => {
  const page = await waiting();
  await page.close();
  await sent(await openPage());
});

test("the end of the wait after a failure", async () => {
  const page = await openPage();
  await page.evaluate(async (url) => {
    const [{ Keystead }, { Backoff }] = [await import("@keystead/client"), await import("/dist/sync/backoff.js")];
    await sync.close();
    globalThis.sync = await new Keystead({ url }).sync({ prefix: "todo:", live: false, intervalMs: 3_600_000, backoff: new Backoff(300, 300) });
  }, world.proxy.url);
  world.proxy.rule = ({ method }) => (method === "POST" ? { status: 503 } : undefined);
  await page.evaluate((key) => sync.put(key, {}).then(() => undefined), key);
  const before = attempts();
  await until("it has failed more than once", () => attempts() > before + 2);
  world.proxy.rule = () => undefined;
  await sent(page);
});

test("the timer, for what others have changed", async () => {
  const page = await openPage({ intervalMs: 200 });
  await until("it has begun", () => attempts() > 0);
  await new Keystead({ url: world.server.url }).documents().put(key, 7);
  await until("it is fetched", () => page.evaluate(async (key) => (await sync.get(key)) === 7, key));
});

test("the server's events, for what others have changed", async () => {
  const page = await openPage({ live: true });
  await until("it listens", async () => world.proxy.requests.filter(({ url }) => !url.includes("since=")).length > 0);
  await until("it has fetched what was there", () => attempts() >= 3);
  await new Keystead({ url: world.server.url }).documents().put(key, 7);
  await until("it is fetched", () => page.evaluate(async (key) => (await sync.get(key)) === 7, key));
});

test("another token, in Node", async () => {
  const keystead = new Keystead({ url: world.proxy.url, token: "one" });
  const backoff = new Backoff(HOUR_MS, HOUR_MS);
  const sync = await keystead.sync({ prefix: "todo:", live: false, intervalMs: HOUR_MS, backoff, store: new MemoryStore() });
  await until("it has begun", () => attempts() > 0);
  world.proxy.rule = () => ({ status: 401 });
  await sync.put(key, {});
  await until("it has failed", async () => (await sync.status()).error?.status === 401);
  world.proxy.rule = () => undefined;
  keystead.setToken("two");
  await until("it is sent", async () => (await all()).length === 1);
  await sync.close();
});

// What became of an edit is reported also when the tab that made it, or the one that sent it, is gone. In a real Chromium.

import assert from "node:assert/strict";
import { test } from "node:test";

import { until } from "./server.mjs";
import { add, all, crash, leads, openTab, rename, texts, useTodoPage, words, world, writeElsewhere } from "./todo.mjs";

useTodoPage();

const notices = (tab) => tab.$$eval("#notices p", (all) => all.map((one) => one.textContent));
/** The results in IndexedDB that wait for a hook. */
const waiting = (tab) =>
  tab.evaluate(async () => {
    const { openDB } = await import("idb");
    const [{ name }] = await indexedDB.databases();
    const db = await openDB(name);
    const count = await db.count("reports");
    db.close();
    return count;
  });

/** A tab with an item on the server, which can be reached no more. */
async function withMilk() {
  const tab = await openTab();
  await add(tab, "milk");
  await until("it is saved", async () => (await words(tab)) === "all saved");
  world.proxy.rule = () => "drop";
  const [{ key }] = await all();
  return { tab, key };
}

test("an edit that loses after a reload is shown", async () => {
  const { tab, key } = await withMilk();
  await rename(tab, "li", "mine");
  await until("it is pending", async () => /1 edit/.test(await words(tab)));
  await tab.reload();
  await until("it is there again", async () => (await texts(tab)).join() === "mine");
  await writeElsewhere(key, "theirs");
  world.proxy.rule = () => undefined;
  await until("the other one is there", async () => (await texts(tab)).join() === "theirs");
  await until("it is shown", async () => (await notices(tab)).length === 1);
  assert.match((await notices(tab))[0], /mine.*theirs/);
  await until("nothing is left to report", async () => (await waiting(tab)) === 0);
  await tab.reload();
  await until("it is all there", async () => (await words(tab)) === "all saved");
  assert.deepEqual(await notices(tab), [], "it is shown one time");
});

test("an edit of a tab that was closed, and loses, is shown in another one", async () => {
  const { tab, key } = await withMilk();
  const other = await openTab();
  await rename(other, "li", "mine");
  await until("both see it", async () => (await texts(tab)).join() === "mine");
  await other.close();
  assert.equal(await leads(tab), true);
  await writeElsewhere(key, "theirs");
  world.proxy.rule = () => undefined;
  await until("it is shown", async () => (await notices(tab)).length === 1);
  await until("nothing is left to report", async () => (await waiting(tab)) === 0);
});

test("a tab that is killed between settling edits and reporting them loses no report", async () => {
  const { tab: leader, key } = await withMilk();
  const other = await openTab();
  assert.deepEqual([await leads(leader), await leads(other)], [true, false]);
  await rename(leader, "li", "of the leader");
  await other.evaluate(async (key) => {
    globalThis.results = [];
    const edits = [await sync.set(key, "text", "of the other"), await sync.set(key, "note", "wins")];
    for (const { settled } of edits) void settled.then((result) => results.push(result.status));
  }, key);
  await writeElsewhere(key, "theirs");
  // From here on nothing leaves the leader: it has stored the results, and cannot report them.
  await leader.evaluate(() => {
    BroadcastChannel.prototype.postMessage = () => undefined;
    navigator.locks.query = () => new Promise(() => undefined);
  });
  world.proxy.rule = () => undefined;
  await until("all is settled", () => other.evaluate(async () => (await sync.status()).pending === 0));
  assert.deepEqual([await other.evaluate(() => results), await notices(leader), await waiting(other)], [[], [], 3]);
  await crash(leader);
  await until("the other leads", () => leads(other));
  await until("its edits are reported to it", async () => (await other.evaluate(() => results.join())) === "stale,applied");
  await until("both losers are shown", async () => (await notices(other)).length === 2);
  const shown = (await notices(other)).join();
  assert.match(shown, /of the leader/);
  assert.match(shown, /of the other/);
  await until("nothing is left to report", async () => (await waiting(other)) === 0);
});

test("a tab whose database fails when it begins to lead goes on when it works again", async () => {
  const leader = await openTab();
  const tab = await openTab();
  assert.deepEqual([await leads(leader), await leads(tab)], [true, false]);
  world.proxy.rule = () => "drop";
  await add(tab, "milk");
  await tab.evaluate(() => {
    const { transaction } = IDBDatabase.prototype;
    globalThis.failures = 0;
    globalThis.isBroken = true;
    IDBDatabase.prototype.transaction = function (...call) {
      if (!isBroken) return transaction.apply(this, call);
      failures += 1;
      throw new DOMException("the disk has failed", "UnknownError");
    };
  });
  await leader.close();
  await until("it leads and cannot read", () => tab.evaluate(() => failures >= 3));
  world.proxy.rule = () => undefined;
  assert.deepEqual(await all(), []);
  await tab.evaluate(() => void (globalThis.isBroken = false));
  await until("it is sent", async () => (await all()).length === 1);
  await until("all is saved", async () => (await words(tab)) === "all saved");
});

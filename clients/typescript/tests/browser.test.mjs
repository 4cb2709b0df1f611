// The demo page in a real Chromium: offline, several tabs, reloads, crashes.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { chromium } from "playwright-core";

import { until } from "./server.mjs";
import { ARGS, CHROMIUM, add, all, crash, launch, leads, openTab, rename, texts, useTodoPage, words, world, writeElsewhere } from "./todo.mjs";

useTodoPage();

/** Whether every edit in the requests was sent, and took effect, in order. */
function inOrder(uploads) {
  const ids = uploads.flat().map((item) => item.id);
  const first = [...new Set(ids)];
  assert.deepEqual(first, first.toSorted((a, b) => a - b));
  return first;
}

test("edits of two tabs offline, a reload and a crash: each arrives one time, in order, and both tabs agree", async () => {
  const [one, two] = [await openTab(), await openTab()];
  await add(one, "milk");
  await until("both have it", async () => (await texts(two)).includes("milk") && (await words(two)) === "all saved");
  await world.context.setOffline(true);
  world.proxy.requests.length = 0;
  for (const text of ["eggs", "flour", "sugar"]) await add(one, text);
  await until("the other tab sees what is not sent", async () => (await texts(two)).length === 4);
  await two.check("li:nth-child(2) .done");
  await add(two, "butter");
  await rename(two, "li:nth-child(1)", "oat milk");
  await until("and the first sees the other's", async () => (await texts(one)).join() === "oat milk,eggs,flour,sugar,butter");
  assert.match(await words(one), /^offline, 6 edits stored here$/);

  // The page itself is fetched again, so the network is on for it, and only the server is away.
  world.proxy.rule = () => "drop";
  await world.context.setOffline(false);
  await two.reload();
  await until("it is there after a reload", async () => (await texts(two)).join() === "oat milk,eggs,flour,sugar,butter");
  assert.equal(await leads(one), true);
  await crash(one);
  await until("the other tab leads", () => leads(two));
  await add(two, "honey");
  assert.equal((await all()).length, 1, "nothing has arrived");

  world.proxy.requests.length = 0;
  world.proxy.rule = () => undefined;
  await until("all is saved", async () => (await words(two)) === "all saved");
  assert.equal(inOrder(world.proxy.uploads).length, 7);
  const again = await openTab();
  const expected = ["oat milk", "eggs", "flour", "sugar", "butter", "honey"];
  for (const tab of [two, again]) await until("both agree", async () => (await texts(tab)).join() === expected.join());
  const stored = await all();
  assert.deepEqual(stored.map(({ value }) => value.text).toSorted(), expected.toSorted());
  // Every edit made one version: 6 documents, a text and a mark.
  assert.equal(stored.reduce((sum, { version }) => sum + version, 0), 8);
  assert.equal(stored.find(({ value }) => value.text === "eggs").value.done, true);

  // With two tabs open and online, one of them sends the edits of both.
  assert.deepEqual([await leads(two), await leads(again)], [true, false]);
  world.proxy.requests.length = 0;
  for (let n = 0; n < 10; n++) {
    await Promise.all([two, again].map((tab) => tab.evaluate((n) => sync.set("todo:both", "at", n), n)));
  }
  await until("all is sent", async () => (await all()).find(({ key }) => key === "todo:both")?.version === 20);
  const ids = world.proxy.uploads.flat().map((item) => item.id);
  assert.deepEqual([ids.length, new Set(ids).size], [20, 20]);
});

test("a chunk that the server fails is sent again, and no other", async () => {
  const tab = await openTab();
  await until("it has begun", async () => (await words(tab)) === "all saved");
  await world.context.setOffline(true);
  await tab.evaluate(async () => {
    for (let n = 1; n <= 120; n++) await sync.set(`todo:${n % 3}`, "at", n);
  });
  world.proxy.requests.length = 0;
  const rules = [undefined, { status: 503 }, "lose"];
  world.proxy.rule = (request) => (request.method === "POST" ? rules.shift() : undefined);
  await world.context.setOffline(false);
  await until("all is saved", async () => (await words(tab)) === "all saved");
  const sent = world.proxy.uploads.map((items) => [items[0].value, items.length]);
  assert.deepEqual(sent, [[1, 50], [51, 50], [51, 50], [51, 50], [101, 20]]);
  assert.deepEqual((await all()).map(({ version, value }) => [version, value.at]), [[40, 120], [40, 118], [40, 119]]);
});

/** A browser of our own, which can be killed. */
async function launchOwn() {
  const port = path.join(world.profile, "DevToolsActivePort");
  await rm(port, { force: true });
  const args = [...ARGS, "--headless", "--remote-debugging-port=0", `--user-data-dir=${world.profile}`, "about:blank"];
  const child = spawn(CHROMIUM, args, { stdio: "ignore" });
  let address;
  await until("the browser is ready", async () => {
    address = (await readFile(port, "utf8").catch(() => "")).split("\n")[0];
    return address !== "";
  });
  const browser = await chromium.connectOverCDP(`http://127.0.0.1:${address}`);
  return { child, browser };
}

test("the browser is killed, and what was queued is sent after the next start", async () => {
  await world.context.close();
  const first = await launchOwn();
  [world.context] = first.browser.contexts();
  const tab = await openTab();
  await until("it has begun", async () => (await words(tab)) === "all saved");
  await world.context.setOffline(true);
  for (const text of ["one", "two", "three"]) await add(tab, text);
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  await first.browser.close().catch(() => undefined);
  for (const name of ["SingletonLock", "SingletonCookie", "SingletonSocket"]) await rm(path.join(world.profile, name), { force: true });
  assert.equal((await all()).length, 0);
  await launch();
  const next = await openTab();
  await until("all is saved", async () => (await words(next)) === "all saved");
  assert.deepEqual(await texts(next), ["one", "two", "three"]);
  assert.deepEqual((await all()).map(({ version }) => version), [1, 1, 1]);
});

test("an edit that loses is shown with what won", async () => {
  const tab = await openTab();
  await add(tab, "milk");
  await until("it is saved", async () => (await words(tab)) === "all saved");
  const [{ key }] = await all();
  await world.context.setOffline(true);
  await rename(tab, "li", "mine");
  await until("it is pending", async () => (await words(tab)) === "offline, 1 edit stored here");
  await writeElsewhere(key, "theirs");
  await world.context.setOffline(false);
  await until("the other one is shown", async () => (await texts(tab)).join() === "theirs");
  assert.match(await tab.textContent("#notices"), /you wrote "mine".*another device wrote "theirs"/);
  await add(tab, "bread");
  await add(tab, "a parcel for the neighbours, which must be there before Friday");
  await tab.check("li:nth-child(2) .done");
  await until("it is done on the server, too", async () => (await all()).some(({ value }) => value.done));
  await until("all is saved", async () => (await words(tab)) === "all saved");
  await world.context.setOffline(true);
  await add(tab, "written on a train");
  await until("it says so", async () => /^offline, 1 edit/.test(await words(tab)));
  await tab.check("li:nth-child(3) .done");
  await until("both are pending", async () => /^offline, 2 edits/.test(await words(tab)));
  if (process.env.SCREENSHOT) await tab.screenshot({ path: process.env.SCREENSHOT });
  await world.context.setOffline(false);
  await until("all is saved", async () => (await words(tab)) === "all saved");
  await tab.click("#notices button:text('Use mine')");
  await until("it wins now", async () => (await all()).some(({ value }) => value.text === "mine"));
  assert.equal(await tab.$$eval("#notices p", (lines) => lines.length), 0);
});

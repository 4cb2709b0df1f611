// The demo page in a real Chromium: offline, several tabs, reloads, crashes.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { Keystead } from "../dist/index.js";
import { Proxy, Server, until } from "./server.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const SERVE = fileURLToPath(new URL("../examples/todo/serve.mjs", import.meta.url));

let server, proxy, page, pageUrl, profile, context;

before(async () => {
  server = await Server.start(["--durability", "commit", "--shards", "2"]);
  proxy = await Proxy.start(server.url);
  page = spawn(process.execPath, [SERVE, proxy.url, "0"], { stdio: ["ignore", "pipe", "inherit"] });
  pageUrl = await new Promise((resolve) => page.stdout.on("data", (data) => resolve(/http:\S+/.exec(data)[0])));
});

after(async () => {
  page?.kill();
  proxy?.stop();
  await server?.stop();
});

beforeEach(async () => {
  proxy.rule = () => undefined;
  profile = await mkdtemp(path.join(os.tmpdir(), "keystead-chromium-"));
  context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, headless: true, args: ARGS, viewport: { width: 760, height: 620 } });
  const documents = new Keystead({ url: server.url });
  for (const { key } of await all()) await documents.documents().delete(key);
  proxy.requests.length = 0;
});

afterEach(async () => {
  await context?.close();
  await rm(profile, { recursive: true, force: true });
});

async function all() {
  const response = await fetch(`${server.url}/kv?prefix=todo:&values=true`);
  return (await response.json()).sort((a, b) => (a.key < b.key ? -1 : 1));
}

async function openTab() {
  const tab = await context.newPage();
  tab.on("pageerror", (error) => console.error("page:", error.message));
  await tab.goto(pageUrl);
  await tab.waitForFunction(() => globalThis.sync !== undefined);
  return tab;
}

async function add(tab, text) {
  await tab.fill("#text", text);
  await tab.press("#text", "Enter");
  await tab.waitForFunction((text) => [...document.querySelectorAll(".edit")].some((edit) => edit.value === text), text);
}

const texts = (tab) => tab.$$eval(".edit", (edits) => edits.map((edit) => edit.value));
const words = (tab) => tab.textContent("#words");

/** Kills the process of a tab. */
async function crash(tab) {
  const crashed = new Promise((resolve) => tab.once("crash", resolve));
  await tab.goto("chrome://crash").catch(() => undefined);
  await crashed;
}

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
  await context.setOffline(true);
  proxy.requests.length = 0;
  for (const text of ["eggs", "flour", "sugar"]) await add(one, text);
  await until("the other tab sees what is not sent", async () => (await texts(two)).length === 4);
  await two.check("li:nth-child(2) .done");
  await add(two, "butter");
  await two.fill("li:nth-child(1) .edit", "oat milk");
  await two.press("li:nth-child(1) .edit", "Tab");
  await until("and the first sees the other's", async () => (await texts(one)).join() === "oat milk,eggs,flour,sugar,butter");
  assert.match(await words(one), /^offline, 6 edits stored here$/);

  // The page itself is fetched again, so the network is on for it, and only the server is away.
  proxy.rule = () => "drop";
  await context.setOffline(false);
  await two.reload();
  await until("it is there after a reload", async () => (await texts(two)).join() === "oat milk,eggs,flour,sugar,butter");
  assert.equal(await one.evaluate(async () => (await sync.status()).leads), true);
  await crash(one);
  await until("the other tab leads", () => two.evaluate(async () => (await sync.status()).leads));
  await add(two, "honey");
  assert.equal((await all()).length, 1, "nothing has arrived");

  proxy.requests.length = 0;
  proxy.rule = () => undefined;
  await until("all is saved", async () => (await words(two)) === "all saved");
  assert.equal(inOrder(proxy.uploads).length, 7);
  const again = await openTab();
  const expected = ["oat milk", "eggs", "flour", "sugar", "butter", "honey"];
  for (const tab of [two, again]) await until("both agree", async () => (await texts(tab)).join() === expected.join());
  const stored = await all();
  assert.deepEqual(stored.map(({ value }) => value.text).toSorted(), expected.toSorted());
  // Every edit made one version: 6 documents, a text and a mark.
  assert.equal(stored.reduce((sum, { version }) => sum + version, 0), 8);
  assert.equal(stored.find(({ value }) => value.text === "eggs").value.done, true);

  // With two tabs open and online, one of them sends the edits of both.
  const leads = (tab) => tab.evaluate(async () => (await sync.status()).leads);
  assert.deepEqual([await leads(two), await leads(again)], [true, false]);
  proxy.requests.length = 0;
  for (let n = 0; n < 10; n++) {
    await Promise.all([two, again].map((tab) => tab.evaluate((n) => sync.set("todo:both", "at", n), n)));
  }
  await until("all is sent", async () => (await all()).find(({ key }) => key === "todo:both")?.version === 20);
  const ids = proxy.uploads.flat().map((item) => item.id);
  assert.deepEqual([ids.length, new Set(ids).size], [20, 20]);
});

test("a chunk that the server fails is sent again, and no other", async () => {
  const tab = await openTab();
  await until("it has begun", async () => (await words(tab)) === "all saved");
  await context.setOffline(true);
  await tab.evaluate(async () => {
    for (let n = 1; n <= 120; n++) await sync.set(`todo:${n % 3}`, "at", n);
  });
  proxy.requests.length = 0;
  const rules = [undefined, { status: 503 }, "lose"];
  proxy.rule = (request) => (request.method === "POST" ? rules.shift() : undefined);
  await context.setOffline(false);
  await until("all is saved", async () => (await words(tab)) === "all saved");
  const sent = proxy.uploads.map((items) => [items[0].value, items.length]);
  assert.deepEqual(sent, [[1, 50], [51, 50], [51, 50], [51, 50], [101, 20]]);
  assert.deepEqual((await all()).map(({ version, value }) => [version, value.at]), [[40, 120], [40, 118], [40, 119]]);
});

/** A browser of our own, which can be killed. */
async function launch() {
  const port = path.join(profile, "DevToolsActivePort");
  await rm(port, { force: true });
  const args = [...ARGS, "--headless", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
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
  await context.close();
  const first = await launch();
  [context] = first.browser.contexts();
  const tab = await openTab();
  await until("it has begun", async () => (await words(tab)) === "all saved");
  await context.setOffline(true);
  for (const text of ["one", "two", "three"]) await add(tab, text);
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  await first.browser.close().catch(() => undefined);
  for (const name of ["SingletonLock", "SingletonCookie", "SingletonSocket"]) await rm(path.join(profile, name), { force: true });
  assert.equal((await all()).length, 0);
  context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, headless: true, args: ARGS });
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
  await context.setOffline(true);
  await tab.fill("li .edit", "mine");
  await tab.press("li .edit", "Tab");
  await until("it is pending", async () => (await words(tab)) === "offline, 1 edit stored here");
  const later = { id: 1, key, field: "text", value: "theirs", ts: Date.now() + 1000 };
  const response = await fetch(`${server.url}/sync`, { method: "POST", body: JSON.stringify({ client: "other", items: [later] }) });
  assert.equal((await response.json()).results[0].status, "applied");
  await context.setOffline(false);
  await until("the other one is shown", async () => (await texts(tab)).join() === "theirs");
  assert.match(await tab.textContent("#notices"), /"mine".*"theirs"/);
  await add(tab, "bread");
  await add(tab, "a parcel for the neighbours, which must be there before Friday");
  await tab.check("li:nth-child(2) .done");
  await until("it is done on the server, too", async () => (await all()).some(({ value }) => value.done));
  await until("all is saved", async () => (await words(tab)) === "all saved");
  await context.setOffline(true);
  await add(tab, "written on a train");
  await until("it says so", async () => /^offline, 1 edit/.test(await words(tab)));
  if (process.env.SCREENSHOT) await tab.screenshot({ path: process.env.SCREENSHOT });
});

// The to-do page in a real Chromium, with a server behind a proxy, for tests.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, afterEach, before, beforeEach } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { Keystead } from "../dist/index.js";
import { Proxy, Server } from "./server.mjs";

export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const SERVE = fileURLToPath(new URL("../examples/todo/serve.mjs", import.meta.url));

/** What the present test has: { server, proxy, pageUrl, profile, context }. */
export const world = {};

let page;

/** A server and a page for the tests of a file, and a browser without a past for each of them. */
export function useTodoPage() {
  before(async () => {
    world.server = await Server.start(["--durability", "commit", "--shards", "2"]);
    world.proxy = await Proxy.start(world.server.url);
    page = spawn(process.execPath, [SERVE, world.proxy.url, "0"], { stdio: ["ignore", "pipe", "inherit"] });
    world.pageUrl = await new Promise((resolve) => page.stdout.on("data", (data) => resolve(/http:\S+/.exec(data)[0])));
  });
  after(async () => {
    page?.kill();
    world.proxy?.stop();
    await world.server?.stop();
  });
  beforeEach(async () => {
    world.proxy.rule = () => undefined;
    world.profile = await mkdtemp(path.join(os.tmpdir(), "keystead-chromium-"));
    await launch();
    const documents = new Keystead({ url: world.server.url }).documents();
    for (const { key } of await all()) await documents.delete(key);
    world.proxy.requests.length = 0;
  });
  afterEach(async () => {
    await world.context?.close();
    await rm(world.profile, { recursive: true, force: true });
  });
}

/** Starts the browser with the profile of the test. */
export async function launch() {
  const options = { executablePath: CHROMIUM, headless: true, args: ARGS, viewport: { width: 760, height: 620 } };
  world.context = await chromium.launchPersistentContext(world.profile, options);
}

/** The documents on the server. */
export async function all() {
  const response = await fetch(`${world.server.url}/kv?prefix=todo:&values=true`);
  return (await response.json()).sort((a, b) => (a.key < b.key ? -1 : 1));
}

export async function openTab() {
  const tab = await world.context.newPage();
  tab.on("pageerror", (error) => console.error("page:", error.message));
  await tab.goto(world.pageUrl);
  await tab.waitForFunction(() => globalThis.sync !== undefined);
  return tab;
}

export async function add(tab, text) {
  await tab.fill("#text", text);
  await tab.press("#text", "Enter");
  await tab.waitForFunction((text) => [...document.querySelectorAll(".edit")].some((edit) => edit.value === text), text);
}

/** Types over the text of an item. */
export async function rename(tab, item, text) {
  await tab.fill(`${item} .edit`, text);
  await tab.press(`${item} .edit`, "Tab");
}

export const texts = (tab) => tab.$$eval(".edit", (edits) => edits.map((edit) => edit.value));
export const words = (tab) => tab.textContent("#words");
export const leads = (tab) => tab.evaluate(async () => (await sync.status()).leads);

/** Another device changes the text of an item, a second after now. */
export async function writeElsewhere(key, value) {
  const item = { id: Date.now(), key, field: "text", value, ts: Date.now() + 1000 };
  const response = await fetch(`${world.server.url}/sync`, { method: "POST", body: JSON.stringify({ client: "other", items: [item] }) });
  const [{ status }] = (await response.json()).results;
  if (status !== "applied") throw new Error(`the other device's edit is ${status}`);
}

/** Kills the process of a tab. */
export async function crash(tab) {
  const crashed = new Promise((resolve) => tab.once("crash", resolve));
  await tab.goto("chrome://crash").catch(() => undefined);
  await crashed;
}

// The client inside a Worker (workerd, by Miniflare): no IndexedDB, no locks, timers only while a request is handled.

import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Miniflare } from "miniflare";

import { Keystead } from "../dist/index.js";
import { Server } from "./server.mjs";

const ROOT = fileURLToPath(new URL("../dist/", import.meta.url));

const WORKER = `
import { Keystead } from "./index.js";
export default {
  async fetch(request, env) {
    const keystead = new Keystead({ url: env.SERVER });
    const sync = await keystead.sync({ prefix: "worker:", live: false });
    const { settled } = await sync.put("worker:doc", { from: "a worker" });
    const pending = await sync.get("worker:doc");
    await sync.flush();
    const { status } = await settled;
    await sync.close();
    const limit = await keystead.limits.check("none", "k").catch((error) => error.code);
    return Response.json({ pending, status, limit });
  },
};
`;

test("a worker queues, sends, and reads", async () => {
  const server = await Server.start(["--durability", "memory"]);
  const all = await readdir(ROOT, { recursive: true });
  // There is no IndexedDB in a Worker, so its file is not loaded.
  const files = all.filter((name) => name.endsWith(".js") && !name.endsWith("indexeddb.js"));
  const modules = [
    { type: "ESModule", path: path.join(ROOT, "worker.js"), contents: WORKER },
    ...files.map((name) => ({ type: "ESModule", path: path.join(ROOT, name) })),
  ];
  const worker = new Miniflare({ modulesRoot: ROOT, modules, bindings: { SERVER: server.url }, compatibilityDate: "2025-01-01" });
  try {
    const response = await worker.dispatchFetch("http://worker/");
    assert.deepEqual(await response.json(), { pending: { from: "a worker" }, status: "applied", limit: "not_found" });
    assert.equal((await new Keystead({ url: server.url }).documents().get("worker:doc")).version, 1);
  } finally {
    await worker.dispose();
    await server.stop();
  }
});

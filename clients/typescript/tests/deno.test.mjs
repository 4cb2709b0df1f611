// The client in Deno, with the permission to reach the server and no other.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Server } from "./server.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

test("Deno queues, sends, reads and listens", async () => {
  const server = await Server.start(["--durability", "memory"]);
  const dir = await mkdtemp(path.join(os.tmpdir(), "keystead-deno-"));
  try {
    const imports = { "@keystead/client": new URL("../dist/index.js", import.meta.url), idb: new URL("../node_modules/idb/build/index.js", import.meta.url) };
    const config = path.join(dir, "deno.json");
    await writeFile(config, JSON.stringify({ imports }));
    const args = ["run", "--no-remote", "--no-npm", "--no-lock", "--no-prompt", `--allow-net=127.0.0.1:${server.port}`, "--config", config];
    const env = { PATH: process.env.PATH, HOME: dir, DENO_DIR: path.join(dir, "cache"), NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
    const deno = promisify(execFile)(here("../node_modules/deno/bin.cjs"), [...args, here("deno.mjs"), server.url], { env, timeout: 60_000 });
    const { stdout } = await deno;
    assert.deepEqual(JSON.parse(stdout), {
      pending: { from: "deno" },
      settled: [["deno:doc", "applied"], ["deno:conflict", "conflict"]],
      stored: { key: "deno:doc", value: { from: "deno" }, version: 1 },
      limit: "not_found",
      // So the queue is in memory.
      unused: ["undefined", "undefined"],
    });
  } finally {
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
});

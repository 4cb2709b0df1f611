// A client with a token of its own.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { Keystead } from "../dist/index.js";
import { Backoff } from "../dist/sync/backoff.js";
import { Server } from "./server.mjs";

const SECRET = "a secret that nobody knows, of more than 32 bytes";

test("a token that expired is replaced, and the queue goes on", async () => {
  const server = await Server.start(["--durability", "memory", "--token", "s3cret"], { KEYSTEAD_SYNC_SECRET: SECRET });
  const token = (expires) =>
    execFileSync(process.env.KEYSTEAD_BINARY, ["sync", "token", "--client", "phone", "--prefix", "todo:", "--expires", expires], {
      env: { KEYSTEAD_SYNC_SECRET: SECRET },
      cwd: server.dir,
      encoding: "utf8",
    }).trim();
  const keystead = new Keystead({ url: server.url, token: token("1ms") });
  const sync = await keystead.sync({ prefix: "todo:", client: "phone", backoff: new Backoff(10, 100) });
  const { settled } = await sync.put("todo:1", { text: "milk" });
  while ((await sync.status()).error === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal((await sync.status()).error.status, 401);
  keystead.setToken(token("1h"));
  assert.equal((await settled).status, "applied");
  await sync.close();
  await server.stop();
});

// The package as npm packs it: it contains what it names, and a program in another folder installs, imports and type-checks it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);

const PROGRAM = `
import { Keystead, KeysteadError, MemoryStore, Sync } from "@keystead/client";
const keystead = new Keystead({ url: "http://127.0.0.1:9" });
const sync = await keystead.sync({ prefix: "a:", store: new MemoryStore(), live: false });
await sync.put("a:1", { n: 1 });
const value = await sync.get("a:1");
await sync.close();
// It is found, and its own file of IndexedDB finds idb.
const idb = await import("idb");
await import(new URL("sync/indexeddb.js", import.meta.resolve("@keystead/client")));
console.log(JSON.stringify([value, sync instanceof Sync, typeof KeysteadError, typeof idb.openDB]));
`;

const TYPED = `
import { Keystead, type Settled, type Store } from "@keystead/client";
const todos = await new Keystead({ url: "http://127.0.0.1:9" }).sync<{ text: string; done: boolean }>({
  prefix: "todo:",
  onSettled: ({ edit, result }: Settled, isOwn: boolean) => console.log(edit.key, result.status, isOwn),
});
await todos.set("todo:1", "done", true);
// @ts-expect-error: it is a boolean
await todos.set("todo:1", "done", "yes");
export let store: Store | undefined;
`;

test("the packed package is whole, installs, imports and has its types", async () => {
  const dir = await mkdtemp(path.join(os.tmpdir(), "keystead-package-"));
  try {
    // Nothing is fetched: its only dependency is a file, too.
    const env = { PATH: process.env.PATH, HOME: dir, npm_config_cache: path.join(dir, "cache"), npm_config_offline: "true", npm_config_audit: "false" };
    const pack = async (folder) => {
      const { stdout } = await run("npm", ["pack", folder, "--json", "--ignore-scripts", "--pack-destination", dir], { cwd: dir, env });
      return JSON.parse(stdout)[0];
    };
    const packed = await pack(ROOT);
    const files = packed.files.map(({ path }) => path).sort();
    const manifest = JSON.parse(await readFile(path.join(ROOT, "package.json"), "utf8"));
    const named = [manifest.types, ...Object.values(manifest.exports["."])].map((name) => path.normalize(name));
    assert.deepEqual(named.filter((name) => !files.includes(name)), [], "all that it names is in it");
    const sources = (await readdir(path.join(ROOT, "src"), { recursive: true })).filter((name) => name.endsWith(".ts"));
    const expected = sources.flatMap((name) => {
      const stem = name.replace(/\.ts$/, "");
      return [`src/${name}`, `dist/${stem}.js`, `dist/${stem}.js.map`, `dist/${stem}.d.ts`];
    });
    assert.deepEqual(files, ["README.md", "package.json", ...expected].sort(), "and nothing else");

    const idb = await pack(folderOf("idb"));
    const app = path.join(dir, "app");
    await mkdir(app);
    const tarball = (one) => `file:../${one.filename}`;
    const dependencies = { "@keystead/client": tarball(packed), idb: tarball(idb) };
    await writeFile(path.join(app, "package.json"), JSON.stringify({ name: "app", type: "module", private: true, dependencies }));
    await run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts"], { cwd: app, env });
    await writeFile(path.join(app, "program.mjs"), PROGRAM);
    const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: app, env });
    assert.deepEqual(JSON.parse(stdout), [{ n: 1 }, true, "function", "function"]);

    await writeFile(path.join(app, "typed.ts"), TYPED);
    const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2023,dom", "--types", "", "typed.ts"];
    await run(process.execPath, [path.join(folderOf("typescript"), "bin/tsc"), ...options], { cwd: app, env }).catch((error) => {
      throw new Error(error.stdout);
    });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

/** The folder of an installed package. */
function folderOf(name) {
  return path.join(ROOT, "node_modules", name);
}

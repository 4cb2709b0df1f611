// How long ping, get and set take: the server itself, split mode, and the worker, with a network delay between all of them, in one run.
//
//   cargo build --release && KEYSTEAD_BIN=target/release/keystead MEOWDIS=target/peers/meowdis NODE_PATH=target/peers/node_modules node edge/tests/latency.cjs
//
// A hop is a TCP proxy that holds every packet for half of the delay, each way. The peer is meowdis, which is not on npm: MEOWDIS is a directory with its
// worker (github.com/zion-off/meowdis, the folder meowdis), which is built here and served by the same workerd. Without it, it is not in the table.
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { performance } = require("node:perf_hooks");
const http = require("node:http");
const { started } = require("./split.cjs");

const HOP_MS = Number(process.env.HOP_MS ?? 20);
const TIMES = Number(process.env.TIMES ?? 40);
const BUILD = path.join(__dirname, "..", "build", "index.js");
const STORAGE_TOKEN = "the-token-of-storage";

// A proxy in front of a URL; a round trip takes HOP_MS longer.
function hop(url) {
  const { port } = new URL(url);
  const late = (from, to) => {
    from.on("data", (data) => setTimeout(() => to.writable && to.write(data), HOP_MS / 2));
    from.on("close", () => setTimeout(() => to.destroy(), HOP_MS / 2));
    from.on("error", () => to.destroy());
  };
  const listener = net.createServer((client) => {
    const server = net.connect(port, "127.0.0.1");
    for (const socket of [client, server]) socket.setNoDelay(true);
    late(client, server);
    late(server, client);
  });
  return new Promise((resolve) => listener.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${listener.address().port}`, stop: () => listener.close() })));
}

function client(url, token) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  return (command) =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify(command);
      const headers = { "content-length": Buffer.byteLength(body), ...(token ? { authorization: `Bearer ${token}` } : {}) };
      const request = http.request(url, { method: "POST", agent, headers }, (response) => {
        let text = "";
        response.on("data", (data) => (text += data));
        response.on("end", () => {
          const isResult = response.statusCode === 200 && "result" in JSON.parse(text);
          return isResult ? resolve(JSON.parse(text).result) : reject(new Error(text));
        });
      });
      request.on("error", reject);
      request.end(body);
    });
}

async function median(run) {
  const all = [];
  for (let n = 0; n < TIMES; n++) {
    const began = performance.now();
    await run(n);
    all.push(performance.now() - began);
  }
  return all.sort((a, b) => a - b)[TIMES >> 1];
}

// What a storage service has counted: requests, rows that it returned, rows that it changed.
const ofStorage = (url) => async () => {
  const text = await (await fetch(`${url}/metrics`)).text();
  const one = (name) => Number(new RegExp(`keystead_storage_${name}_total (\\d+)`).exec(text)[1]);
  return ["requests", "rows_returned", "rows_changed"].map(one);
};

// What a counted worker has counted: SQL statements, rows read, rows written.
const ofWorker = (url) => async () => (await fetch(`${url}/counts`)).json();

// A main module around a worker that counts the SQL statements of its Durable Object, whose class this is, and their rows as the platform bills them.
const counted = (from, object) => `
  import worker, { ${object} as One } from ${JSON.stringify(from)};
  export * from ${JSON.stringify(from)};
  const total = [0, 0, 0];
  let cursors = [];
  export class ${object} extends One {
    constructor(state, env) {
      const { sql } = state.storage;
      const exec = sql.exec.bind(sql);
      sql.exec = (...all) => {
        const cursor = exec(...all);
        cursors.push(cursor);
        return cursor;
      };
      super(state, env);
    }
  }
  export default {
    fetch(request, env, context) {
      if (new URL(request.url).pathname !== "/counts") return typeof worker === "function" ? new worker(context, env).fetch(request) : worker.fetch(request, env, context);
      for (const cursor of cursors) [1, cursor.rowsRead, cursor.rowsWritten].forEach((count, n) => (total[n] += count));
      cursors = [];
      return Response.json(total);
    },
  };`;

// Meowdis under workerd.
async function meowdis(source, directory) {
  const { buildSync } = require("esbuild");
  const { Miniflare } = require("miniflare");
  const contents = counted("./src/index.ts", "StorageDurableObject");
  const built = buildSync({ stdin: { contents, resolveDir: path.resolve(source) }, bundle: true, format: "esm", external: ["cloudflare:workers"], write: false });
  const miniflare = new Miniflare({
    modules: [{ type: "ESModule", path: "meowdis.mjs", contents: built.outputFiles[0].text }],
    compatibilityDate: "2026-01-01",
    durableObjects: { STORAGE: { className: "StorageDurableObject", useSQLite: true } },
    durableObjectsPersist: directory,
    bindings: { AUTH_TOKEN: STORAGE_TOKEN },
    host: "127.0.0.1",
  });
  return { url: (await miniflare.ready).origin, stop: () => miniflare.dispose() };
}

const KINDS = [
  ["ping", () => ["PING"], () => ["PING"]],
  ["get", (n) => ["GET", `cold:${n}`], () => ["GET", "warm"]],
  ["set", (n) => ["SET", `new:${n}`, "v"], () => ["SET", "warm", "v"]],
  ["incr", (n) => ["INCR", `count:${n}`], () => ["INCR", "count"]],
  ["hget of 100", (n) => ["HGET", `hash:${n}`, "f1"], () => ["HGET", "hash:warm", "f1"]],
];

async function seed(send, kinds = KINDS) {
  const hasHashes = kinds.some(([kind]) => kind.startsWith("hget"));
  await send(["SET", "warm", "v"]);
  await send(["SET", "count", "1"]);
  const fields = Array.from({ length: 100 }, (_, n) => [`f${n}`, "v"]).flat();
  if (hasHashes) await send(["HSET", "hash:warm", ...fields]);
  for (let n = 0; n < TIMES; n++) {
    await send(["SET", `cold:${n}`, "v"]);
    await send(["SET", `count:${n}`, "1"]);
    if (hasHashes) await send(["HSET", `hash:${n}`, ...fields]);
  }
}

async function row(name, send, counts, kinds = KINDS) {
  for (const [kind, cold, warm] of kinds) {
    const before = await counts?.();
    const coldMs = await median((n) => send(cold(n)));
    const between = await counts?.();
    await send(warm());
    const middle = await counts?.();
    const warmMs = await median(() => send(warm()));
    const after = await counts?.();
    const each = (from, to) => (counts ? to.map((count, n) => ((count - from[n]) / TIMES).toFixed(1)).join(" / ") : "");
    console.log(`| ${name} | ${kind} | ${coldMs.toFixed(1)} | ${warmMs.toFixed(1)} | ${each(before, between)} | ${each(middle, after)} |`);
  }
}

async function main() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "keystead-latency-"));
  const stops = [];
  const keep = (one) => (stops.push(() => one.stop()), one);
  console.log(`median ms of ${TIMES} requests, one after the other; ${HOP_MS} ms a round trip per hop\n`);
  console.log("| | command | cold ms | warm ms | cold: requests of the storage service, or SQL statements of the object / rows read / rows written | warm |\n|---|---|---|---|---|---|");
  try {
    const server = keep(await started(["serve", "--data", path.join(directory, "server"), "--http", "127.0.0.1:0", "--resp", "off"]));
    await seed(client(server.url));
    await row("server, one hop", client(keep(await hop(server.url)).url));
    const storage = keep(await started(["storage", path.join(directory, "rows"), "--http", "127.0.0.1:0"]));
    const compute = async (url) => keep(await started(["serve", "--storage", url, "--http", "127.0.0.1:0"], { KEYSTEAD_STORAGE_TOKEN: STORAGE_TOKEN }));
    await seed(client((await compute(storage.url)).url));
    for (const [name, url] of [["split over loopback, one hop", storage.url], ["split over HTTP, two hops", keep(await hop(storage.url)).url]]) {
      const service = await compute(url);
      const send = client(keep(await hop(service.url)).url);
      await send(["GET", "absent"]);
      await row(name, send, ofStorage(storage.url));
      await client(service.url)(["DEL", ...Array.from({ length: TIMES }, (_, n) => `new:${n}`)]);
    }
    if (!fs.existsSync(BUILD)) return console.log("\nthe worker is not built (./test edge): its rows are left out");
    const { Edge, TOKEN } = require("./harness.cjs");
    const options = { directory: path.join(directory, "edge"), bindings: { KEYSTEAD_STORAGE_TOKEN: STORAGE_TOKEN } };
    let edge = await Edge.start({ ...options, main: { name: "counted.mjs", contents: counted("./index.js", "Database") } });
    keep({ stop: () => edge.stop() });
    await seed(client(edge.url, TOKEN));
    // Cold is a key that is not in memory: the object wakes.
    edge = await edge.restart();
    await row("unified: the worker, one hop", client(keep(await hop(edge.url)).url, TOKEN), ofWorker(edge.url));
    await client(edge.url, TOKEN)(["DEL", ...Array.from({ length: TIMES }, (_, n) => `new:${n}`)]);
    const service = await compute(keep(await hop(edge.url)).url);
    const send = client(keep(await hop(service.url)).url);
    await send(["GET", "absent"]);
    await row("split in front of the worker, two hops", send, ofWorker(edge.url));
    if (!process.env.MEOWDIS) return console.log("\nMEOWDIS names no directory: its rows are left out");
    const peer = keep(await meowdis(process.env.MEOWDIS, path.join(directory, "meowdis")));
    await client(peer.url, STORAGE_TOKEN)(["INIT"]);
    const kinds = KINDS.filter(([kind]) => !kind.startsWith("hget"));
    await seed(client(peer.url, STORAGE_TOKEN), kinds);
    await row("meowdis, one hop", client(keep(await hop(peer.url)).url, STORAGE_TOKEN), ofWorker(peer.url), kinds);
  } finally {
    for (const stop of stops.reverse()) await stop();
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

main();

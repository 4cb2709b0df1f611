// How long ping, get and set take: the server itself, split mode, and the worker, with a network delay between all of them, in one run.
//
//   cargo build --release && KEYSTEAD_BIN=target/release/keystead NODE_PATH=target/peers/node_modules node edge/tests/latency.cjs
//
// A hop is a TCP proxy that holds every packet for half of the delay, each way. The peer, meowdis, is not on npm, so it is not in the table.
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
        response.on("end", () => (response.statusCode === 200 ? resolve(JSON.parse(text).result) : reject(new Error(text))));
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

async function counts(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const one = (name) => Number(new RegExp(`keystead_storage_${name}_total (\\d+)`).exec(text)[1]);
  return ["requests", "rows_returned", "rows_changed"].map(one);
}

const KINDS = [
  ["ping", () => ["PING"], () => ["PING"]],
  ["get", (n) => ["GET", `cold:${n}`], () => ["GET", "warm"]],
  ["set", (n) => ["SET", `new:${n}`, "v"], () => ["SET", "warm", "v"]],
  ["incr", (n) => ["INCR", `count:${n}`], () => ["INCR", "count"]],
  ["hget of 100", (n) => ["HGET", `hash:${n}`, "f1"], () => ["HGET", "hash:warm", "f1"]],
];

async function seed(send) {
  await send(["SET", "warm", "v"]);
  await send(["SET", "count", "1"]);
  const fields = Array.from({ length: 100 }, (_, n) => [`f${n}`, "v"]).flat();
  await send(["HSET", "hash:warm", ...fields]);
  for (let n = 0; n < TIMES; n++) {
    await send(["SET", `cold:${n}`, "v"]);
    await send(["SET", `count:${n}`, "1"]);
    await send(["HSET", `hash:${n}`, ...fields]);
  }
}

async function row(name, send, storage) {
  for (const [kind, cold, warm] of KINDS) {
    const before = storage && (await counts(storage));
    const coldMs = await median((n) => send(cold(n)));
    const between = storage && (await counts(storage));
    await send(warm());
    const middle = storage && (await counts(storage));
    const warmMs = await median(() => send(warm()));
    const after = storage && (await counts(storage));
    const each = (from, to) => (storage ? to.map((count, n) => ((count - from[n]) / TIMES).toFixed(1)).join(" / ") : "");
    console.log(`| ${name} | ${kind} | ${coldMs.toFixed(1)} | ${warmMs.toFixed(1)} | ${each(before, between)} | ${each(middle, after)} |`);
  }
}

async function main() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "keystead-latency-"));
  const stops = [];
  const keep = (one) => (stops.push(() => one.stop()), one);
  console.log(`median ms of ${TIMES} requests, one after the other; ${HOP_MS} ms a round trip per hop; meowdis is not on npm\n`);
  console.log("| | command | cold ms | warm ms | cold: requests / rows read / written | warm |\n|---|---|---|---|---|---|");
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
      await row(name, send, storage.url);
      await client(service.url)(["DEL", ...Array.from({ length: TIMES }, (_, n) => `new:${n}`)]);
    }
    if (!fs.existsSync(BUILD)) return console.log("\nthe worker is not built (./test edge): its rows are left out");
    const { Edge, TOKEN } = require("./harness.cjs");
    const edge = keep(await Edge.start({ directory: path.join(directory, "edge"), bindings: { KEYSTEAD_STORAGE_TOKEN: STORAGE_TOKEN } }));
    await seed(client(edge.url, TOKEN));
    await row("unified: the worker, one hop", client(keep(await hop(edge.url)).url, TOKEN));
    await client(edge.url, TOKEN)(["DEL", ...Array.from({ length: TIMES }, (_, n) => `new:${n}`)]);
    const service = await compute(keep(await hop(edge.url)).url);
    const send = client(keep(await hop(service.url)).url);
    await send(["GET", "absent"]);
    await row("split in front of the worker, two hops", send);
  } finally {
    for (const stop of stops.reverse()) await stop();
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

main();

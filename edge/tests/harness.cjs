// What the tests of the edge share: the worker under workerd, requests, and named cases. Ports are free ones, processes are stopped by their id.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFileSync } = require("node:child_process");
const { Miniflare } = require("miniflare");

const BUILD = path.join(__dirname, "..", "build");

exports.TOKEN = "s3cret";
exports.READ_ONLY_TOKEN = "look";
const LIMITS = JSON.stringify({
  login: { kind: "gcra", limit: 5, periodMs: 60000 },
  window: { kind: "slidingWindow", limit: 3, windowMs: 60000 },
});

// A module of the worker.
const part = (name, contents = fs.readFileSync(path.join(BUILD, name))) => ({
  type: name.endsWith(".wasm") ? "CompiledWasm" : "ESModule",
  path: path.join(BUILD, name),
  contents,
});

// A worker with a database, which is in `directory` if there is one.
exports.Edge = class Edge {
  static async start(options = {}) {
    const { directory, port = 0, bindings = {}, withoutToken = false, withoutStores = false, main, more = {} } = options;
    const edge = new Edge();
    edge.options = options;
    edge.miniflare = new Miniflare({
      // The first one is the main module: the worker itself, or what a test puts around it.
      modules: [...(main ? [part(main.name, main.contents)] : []), ...modules().map((name) => part(name))],
      modulesRoot: BUILD,
      compatibilityDate: "2026-01-01",
      durableObjects: { DATABASE: { className: "Database", useSQLite: true }, RECORDS: { className: "Records", useSQLite: true } },
      durableObjectsPersist: directory ?? false,
      ...(withoutStores ? {} : { d1Databases: ["D1"], kvNamespaces: ["KV"] }),
      d1Persist: directory ? path.join(directory, "d1") : false,
      kvPersist: directory ? path.join(directory, "kv") : false,
      bindings: {
        ...(withoutToken ? {} : { KEYSTEAD_TOKEN: exports.TOKEN, KEYSTEAD_READ_ONLY_TOKEN: exports.READ_ONLY_TOKEN }),
        LIMITS,
        ...bindings,
      },
      ...more,
      host: "127.0.0.1",
      port,
      log: undefined,
      handleRuntimeStdio(stdout, stderr) {
        edge.said = "";
        for (const stream of [stdout, stderr]) stream.on("data", (data) => (edge.said = (edge.said + data).slice(-20000)));
      },
    });
    const before = children();
    edge.url = (await edge.miniflare.ready).origin;
    edge.processes = children().filter((id) => !before.includes(id));
    return edge;
  }

  // Sends a request and returns its status, headers and body.
  async ask(method, target, { body, headers = {}, token = exports.TOKEN } = {}) {
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(this.url + target, { method, body, headers: { ...authorization, ...headers } });
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString();
    let json;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    return { status: response.status, headers: response.headers, bytes, text, json };
  }

  // Runs a command and returns its result; an error is thrown with its text.
  async run(...command) {
    const { json, status, text } = await this.ask("POST", "/", { body: JSON.stringify(command) });
    if (json === undefined || "error" in json) throw new Error(`${status} ${json?.error ?? text}`);
    return json.result;
  }

  // The rows that a command reads and writes.
  async rows(...command) {
    const { headers, json } = await this.ask("POST", "/", { body: JSON.stringify(command) });
    const number = (name) => Number(headers.get(name));
    return { read: number("keystead-rows-read"), written: number("keystead-rows-written"), result: json.result };
  }

  async stop() {
    await this.miniflare.dispose();
  }

  // Ends workerd as a crash would, and starts another one on the same rows.
  async crash() {
    const killed = this.processes.filter((id) => {
      try {
        return process.kill(id, "SIGKILL");
      } catch {
        return false;
      }
    });
    // Otherwise it would be a clean stop, which tests nothing.
    assert.notEqual(killed.length, 0, "no process of workerd was there to be killed");
    await this.miniflare.dispose().catch(() => {});
    return exports.Edge.start(this.options);
  }

  // The object wakes with nothing in memory.
  async restart() {
    await this.stop();
    return exports.Edge.start(this.options);
  }
};

// The modules of the build, the entry first.
function modules() {
  const names = fs.readdirSync(BUILD, { recursive: true }).filter((name) => /\.(js|wasm)$/.test(name) && name !== "index.js");
  return ["index.js", ...names];
}

// The processes that this one has started.
function children() {
  try {
    return execFileSync("pgrep", ["-P", String(process.pid), "workerd"]).toString().trim().split("\n").map(Number);
  } catch {
    return [];
  }
}

// The events of a stream, each as its lines. Comments, which show that the connection is alive, are left out.
exports.events = async (edge, target) => {
  const controller = new AbortController();
  const response = await fetch(edge.url + target, { headers: { authorization: `Bearer ${exports.TOKEN}` }, signal: controller.signal });
  assert.deepEqual([response.status, response.headers.get("content-type")], [200, "text/event-stream"]);
  const reader = response.body.getReader();
  let text = "";
  return {
    // The next event; nothing at the end of the stream.
    async next() {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end >= 0) {
          const lines = text.slice(0, end).split("\n");
          text = text.slice(end + 2);
          const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
          if (data.length > 0) return data;
          continue;
        }
        const { done, value } = await reader.read();
        if (done) return undefined;
        text += Buffer.from(value).toString();
      }
    },
    close: () => controller.abort(),
  };
};

exports.inDirectory = async (act) => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "keystead-edge-"));
  try {
    return await act(directory);
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
};

// The rows of the table of differences in docs/edge.md, by their first cells without the marks of Markdown.
exports.rows = (() => {
  const page = fs.readFileSync(path.join(__dirname, "..", "..", "docs", "edge.md"), "utf8");
  const section = page.split("\n## What is different\n")[1].split("\n## ")[0];
  const cells = section.split("\n").filter((line) => line.startsWith("| "));
  return cells.map((line) => line.slice(2).split(" | ")[0].replaceAll("`", "")).filter((cell) => !cell.startsWith("|"));
})();

// Names the row that a case shows.
exports.differs = (row) => assert.ok(exports.rows.includes(row), `docs/edge.md has no row '${row}'`);

exports.sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until something holds, and fails when it does not in time.
exports.until = async (what, holds, ms = 30000) => {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    if (await holds()) return;
    await exports.sleep(100);
  }
  assert.fail(`not in time: ${what}`);
};

// Runs cases one after the other, and counts them as Rust's tests are counted.
exports.main = async (cases) => {
  const count = { ok: 0, FAILED: 0, ignored: 0 };
  const only = process.argv.slice(2);
  for (const [name, check] of Object.entries(cases)) {
    if (only.length > 0 && !only.some((part) => name.includes(part))) continue;
    let end = "ok";
    try {
      const skipped = await check();
      if (typeof skipped === "string") {
        const required = (process.env.REQUIRE ?? "").split(",");
        assert.ok(!required.includes("edge") && !required.includes("all"), `REQUIRE=${process.env.REQUIRE}: ${skipped}`);
        end = "ignored";
        console.log(`[skipped: ${skipped}]`);
      }
    } catch (error) {
      end = "FAILED";
      console.log(error);
    }
    count[end] += 1;
    console.log(`test edge::${name.replaceAll(" ", "_")} ... ${end}`);
  }
  console.log(`test result: ${count.FAILED ? "FAILED" : "ok"}. ${count.ok} passed; ${count.FAILED} failed; ${count.ignored} ignored`);
  process.exit(count.FAILED ? 1 : 0);
};

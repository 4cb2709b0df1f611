// The worker as a storage service, with compute services (the server's binary) in front of it.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { Edge, TOKEN, inDirectory, until } = require("./harness.cjs");

const SERVER = process.env.KEYSTEAD_BIN ?? path.join(__dirname, "..", "..", "target", "debug", "keystead");
const STORAGE_TOKEN = "the-token-of-storage";
const bindings = { KEYSTEAD_STORAGE_TOKEN: STORAGE_TOKEN };

// A process of the binary, and the address that it prints.
async function started(args, env = {}) {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KEYSTEAD_")));
  const child = spawn(SERVER, args, { env: { ...clean, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  await until(`it is ready: ${said}`, () => /\n {2}try /.test(said) || child.exitCode !== null);
  assert.equal(child.exitCode, null, said);
  const url = /\n {2}http +(\S+)/.exec(said)[1];
  return { url, child, stop: () => new Promise((resolve) => { child.on("exit", resolve); child.kill(); }) };
}
exports.started = started;

const compute = (edge) => started(["serve", "--storage", edge.url, "--http", "127.0.0.1:0"], { KEYSTEAD_STORAGE_TOKEN: STORAGE_TOKEN });

async function ask(service, target, body) {
  const response = await fetch(service.url + target, { method: "POST", body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}

async function run(service, ...command) {
  const { status, json } = await ask(service, "/", command);
  assert.equal(status, 200, JSON.stringify([command, json]));
  return json.result;
}

const statements = (edge, body, token = STORAGE_TOKEN) => edge.ask("POST", "/statements", { body: JSON.stringify(body), token });

// A worker on disk with compute services in front of it.
const split = (count, check, options = { bindings }) => () =>
  fs.existsSync(SERVER)
    ? inDirectory(async (directory) => {
        const held = { edge: await Edge.start({ directory, ...options }) };
        const services = [];
        try {
          for (let n = 0; n < count; n++) services.push(await compute(held.edge));
          await check(held, services);
        } finally {
          for (const service of services) await service.stop();
          await held.edge.stop();
        }
      })
    : "the server is not built (cargo build)";

exports.cases = {
  "split::the worker executes statements for its own token only": () =>
    inDirectory(async (directory) => {
      const edge = await Edge.start({ directory, bindings });
      try {
        const select = { statements: [{ sql: "SELECT ?1, ?2, ?3, ?4, ?5", params: [1, { int: "9007199254740993" }, { real: "0.5" }, "t", { blob: "AP8=" }] }] };
        for (const token of [null, TOKEN, "wrong"]) assert.equal((await statements(edge, select, token)).status, 401);
        const { status, json } = await statements(edge, select);
        // A bound number that no double holds is text until it reaches a column.
        assert.deepEqual([status, json.results[0].rows], [200, [[1, "9007199254740993", { real: "0.5" }, "t", { blob: "AP8=" }]]]);
        assert.equal((await edge.ask("GET", "/statements", { token: STORAGE_TOKEN })).status, 405);
        for (const [sql, status, code, words] of [
          ...["ATTACH 'x' AS y", "PRAGMA writable_schema = on", "VACUUM INTO 'x'", "SELECT 1; DELETE FROM keys", "BEGIN", "DROP TABLE keys", "CREATE TABLE t (a)", "SELECT load_extension('x')"].map(
            (sql) => [sql, 403, "forbidden", /a statement may only read and write rows of this database/],
          ),
          ["", 400, "bad_request", /a statement is empty/],
          ["SELEC 1", 403, "forbidden", /may only read and write/],
          ["SELECT FROM", 400, "bad_request", /syntax error/],
          ["SELECT * FROM _cf_KV", 400, "bad_request", /no such table: _cf_KV/],
          ["DELETE FROM sqlite_master", 400, "bad_request", /may not be modified/],
          ["SELECT * FROM none", 400, "bad_request", /no such table: none/],
          ["INSERT INTO keys (id) VALUES (1)", 400, "bad_request", /NOT NULL constraint failed/],
        ]) {
          const refused = await statements(edge, { statements: [{ sql }] });
          assert.deepEqual([refused.status, refused.json.error.code], [status, code], `${sql}: ${refused.text}`);
          assert.match(refused.json.error.message, words);
        }
        const guarded = (rows) => ({ expect: [{ sql: "SELECT count(*) FROM keys", rows, otherwise: [{ sql: "SELECT 7" }] }], statements: [{ sql: "SELECT 1" }] });
        assert.equal((await statements(edge, guarded([[0]]))).status, 200);
        const conflict = await statements(edge, guarded([[1]]));
        assert.equal(conflict.status, 409);
        assert.deepEqual(conflict.json.conflict[0].rows, [[0]]);
        assert.deepEqual(conflict.json.conflict[0].otherwise[0].rows, [[7]]);
      } finally {
        await edge.stop();
      }
      const without = await Edge.start({ directory });
      try {
        assert.equal((await statements(without, { statements: [] })).status, 401);
      } finally {
        await without.stop();
      }
    }),

  "split::commands of compute services and of the worker see each other": split(2, async (held, [one, other]) => {
    const { edge } = held;
    assert.equal(await run(one, "SET", "a", "1"), "OK");
    assert.equal(await edge.run("INCR", "a"), 2);
    assert.equal(await run(other, "INCR", "a"), 3);
    assert.equal(await run(one, "GET", "a"), "3");
    assert.equal(await run(one, "HSET", "h", "f", "9007199254740993"), 1);
    assert.equal(await edge.run("HGET", "h", "f"), "9007199254740993");
    await edge.run("SET", "b", "of the worker");
    assert.equal(await run(other, "RPUSH", "list", "x", "y"), 2);
    // In small sets zero has no sign, as in Redis; a long member makes a large one of it.
    const zero = "z".repeat(65);
    assert.equal(await run(other, "ZADD", "z", "1.5", "m", "-0", zero), 2);
    assert.deepEqual(await edge.run("ZRANGE", "z", "0", "-1", "WITHSCORES"), [zero, "-0", "m", "1.5"]);
    assert.equal(await edge.run("DBSIZE"), 5);
    assert.equal(await run(one, "DBSIZE"), 5);
    held.edge = await edge.restart();
    assert.deepEqual(await held.edge.run("LRANGE", "list", "0", "-1"), ["x", "y"]);
    assert.equal(await held.edge.run("FLUSHALL"), "OK");
    assert.equal(await held.edge.run("DBSIZE"), 0);
  }),

  "split::200 increments through two compute services are 200": split(2, async ({ edge }, services) => {
    await Promise.all(
      Array.from({ length: 200 }, (_, n) => run(services[n % 2], "INCR", "n")),
    );
    assert.equal(await edge.run("GET", "n"), "200");
  }),

  "split::what a compute service writes reaches the sinks of the worker, within their bound": split(1, async ({ edge }, [service]) => {
    const database = await edge.miniflare.getD1Database("DB");
    await database.exec("CREATE TABLE users (id TEXT PRIMARY KEY, value TEXT, keystead_version INTEGER NOT NULL DEFAULT 0, keystead_batch INTEGER NOT NULL DEFAULT 0)");
    // Strings are JSON in a column for whole values.
    const found = async () => (await database.prepare("SELECT id, value FROM users ORDER BY id").all()).results.map(({ id, value }) => `${id}=${JSON.parse(value)}`).join();
    // No request reaches the worker but those of the compute service: the alarm that they set writes the rows.
    assert.equal(await run(service, "SET", "user:ada", "1"), "OK");
    await until("the row of the first key", async () => (await found()) === "ada=1");
    assert.equal(await run(service, "SET", "user:ada", "2"), "OK");
    assert.equal(await run(service, "SET", "user:bob", "3"), "OK");
    await until("the second change, and another key", async () => (await found()) === "ada=2,bob=3");
    assert.equal(await run(service, "DEL", "user:ada"), 1);
    await until("the deletion", async () => (await found()) === "bob=3");
    const sql = `INSERT INTO keys (name, type, version, revision, value) SELECT CAST('user:' || n AS BLOB), 'string', 1, 1, x'31'
      FROM (WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 100001) SELECT n FROM count)`;
    const refused = await statements(edge, { statements: [{ sql }] });
    assert.deepEqual([refused.status, refused.json.error.code], [507, "out_of_memory"], refused.text);
    assert.match(refused.json.error.message, /100000 keys wait for D1/);
    assert.equal(await edge.run("DBSIZE"), 1);
    assert.equal((await edge.ask("GET", "/sinks")).json.sinks[0].pending, 0);
  }, {
    bindings: { ...bindings, SINKS: '{"users":{"prefix":"user:","key":"id","stripPrefix":true,"flushEvery":"100ms"}}' },
    more: { d1Databases: { DB: "00000000-0000-0000-0000-000000000001" } },
  }),

  "split::what expires through a compute service is reclaimed by the alarm": split(1, async ({ edge }, [service]) => {
    for (let n = 0; n < 20; n++) await run(service, "SET", `soon:${n}`, "v", "PX", "200");
    await run(service, "SET", "stays", "v");
    await until("expired keys are gone from the rows", async () => (await edge.run("DBSIZE")) === 1, 40000);
  }),
};

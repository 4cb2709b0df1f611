// Write-behind to D1: what is acknowledged arrives, once in effect, whatever fails in between.
const assert = require("node:assert/strict");
const { Edge, differs, inDirectory, until } = require("./harness.cjs");

const USERS = "CREATE TABLE users (id TEXT PRIMARY KEY, name TEXT, age INTEGER CHECK (age < 1000), keystead_version INTEGER NOT NULL DEFAULT 0, keystead_batch INTEGER NOT NULL DEFAULT 0)";
const TABLE = { prefix: "user:", table: "users", key: "id", stripPrefix: true, columns: { name: "name", age: "age" } };

// A worker with a sink in a directory. `change` is what the sink has otherwise.
const withSink = (check, change = {}, bindings = {}) => () =>
  inDirectory(async (directory) => {
    const options = {
      directory,
      bindings: { SINKS: JSON.stringify({ users: { ...TABLE, ...change } }), FAULTS: "1", ...bindings },
      more: { d1Databases: { DB: "00000000-0000-0000-0000-000000000001" }, d1Persist: `${directory}/d1` },
    };
    const held = { edge: await Edge.start(options) };
    try {
      await (await d1(held)).exec(USERS);
      await check(held);
    } finally {
      await held.edge.stop();
    }
  });

const d1 = (held) => held.edge.miniflare.getD1Database("DB");
const rows = async (held, sql = "SELECT id, name, age FROM users ORDER BY id") => (await (await d1(held)).prepare(sql).all()).results;
const sink = async (held) => (await held.edge.ask("GET", "/sinks")).json.sinks[0];
const put = async (held, id, value) => {
  const { status, text } = await held.edge.ask("PUT", `/kv/user:${id}`, { body: JSON.stringify(value) });
  assert.ok(status < 300, `${status} ${text}`);
};
const post = async (held, target) => (await held.edge.ask("POST", target, { body: "" })).json;
// Every row with its batch: if it is equal later, nothing was written in between.
const everything = async (held) => JSON.stringify([await rows(held, "SELECT * FROM users ORDER BY id"), await rows(held, "SELECT sink, batch FROM keystead_sinks")]);

const LATER = { flushEvery: "1h" };

module.exports = {
  "buffer::a hundred updates of a key are one row": withSink(async (held) => {
    differs("sinks");
    for (let n = 1; n <= 100; n++) await put(held, "ada", { name: "Ada", age: n });
    const waiting = await sink(held);
    assert.deepEqual([waiting.pending, waiting.rows, waiting.batches], [1, 0, 0]);
    assert.deepEqual(await rows(held), []);
    const flushed = await post(held, "/sinks/users/flush");
    assert.deepEqual([flushed.pending, flushed.rows, flushed.batches], [0, 1, 1], JSON.stringify(flushed));
    assert.deepEqual(await rows(held), [{ id: "ada", name: "Ada", age: 100 }]);
    assert.deepEqual(await rows(held, "SELECT keystead_version AS v FROM users"), [{ v: 100 }]);
  }, LATER),

  "buffer::changes follow by alarm, deletions and expiries too": withSink(async (held) => {
    await put(held, "ada", { name: "Ada", age: 1 });
    await put(held, "bob", { name: "Bob" });
    await held.edge.run("HSET", "user:hash", "name", "Hash", "age", "7");
    await held.edge.run("SET", "other:1", "x");
    await until("three rows", async () => (await rows(held)).length === 3);
    assert.deepEqual(await rows(held), [{ id: "ada", name: "Ada", age: 1 }, { id: "bob", name: "Bob", age: null }, { id: "hash", name: "Hash", age: 7 }]);
    await held.edge.run("DEL", "user:ada");
    await held.edge.run("RENAME", "user:bob", "user:eve");
    await held.edge.run("PEXPIRE", "user:hash", "300");
    await until("the deleted, renamed and expired keys have followed", async () => {
      const all = await rows(held);
      return all.length === 1 && all[0].id === "eve" && all[0].name === "Bob";
    });
    await held.edge.run("SET", "user:new", '{"name":"New"}');
    await held.edge.ask("POST", "/multi-exec", { body: JSON.stringify([["FLUSHALL"], ["DBSIZE"], ["SET", "user:last", '{"name":"Last"}']]) });
    await until("one row after FLUSHALL", async () => JSON.stringify(await rows(held)) === '[{"id":"last","name":"Last","age":null}]');
  }, { flushEvery: "100ms" }),

  "buffer::what waits when the object is evicted is written once": withSink(async (held) => {
    for (let n = 0; n < 20; n++) await put(held, `u${n}`, { name: `n${n}`, age: n });
    assert.equal((await sink(held)).pending, 20);
    assert.deepEqual(await rows(held), []);
    // Before its alarm: once as a crash, once as an eviction. No request wakes it: only the alarm does.
    held.edge = await held.edge.crash();
    held.edge = await held.edge.restart();
    await until("the alarm has written all", async () => (await rows(held)).length === 20, 60000);
    const state = await sink(held);
    assert.deepEqual([state.pending, state.rows, state.batches], [0, 20, 1], JSON.stringify(state));
    const before = await everything(held);
    await post(held, "/sinks/users/flush");
    assert.equal(await everything(held), before);
  }, { flushEvery: "4s" }),

  "buffer::a batch whose reply is lost is recognised, also by the next life of the object": withSink(async (held) => {
    for (const crash of [false, true]) {
      for (let n = 0; n < 10; n++) await put(held, `u${n}`, { name: `n${n}`, age: crash ? 1 : 0 });
      const batch = (await sink(held)).batches;
      await post(held, "/fault/reply");
      const lost = await held.edge.ask("POST", "/sinks/users/flush", { body: "" });
      assert.equal(lost.status, 503);
      // D1 has it, and the object does not know.
      const before = await everything(held);
      assert.equal((await rows(held, "SELECT batch FROM keystead_sinks"))[0].batch, batch + 1);
      const state = await sink(held);
      assert.deepEqual([state.pending, state.batches], [10, batch], JSON.stringify(state));
      // One of them changes meanwhile.
      await put(held, "u3", { name: "later", age: 3 });
      if (crash) held.edge = await held.edge.crash();
      const flushed = await post(held, "/sinks/users/flush");
      assert.deepEqual([flushed.pending, flushed.batches], [0, batch + 2], JSON.stringify(flushed));
      const after = JSON.parse(await everything(held));
      const [old] = JSON.parse(before);
      assert.deepEqual(after[0].filter((row) => row.id !== "u3"), old.filter((row) => row.id !== "u3"));
      assert.deepEqual([after[0][3].name, after[0][3].keystead_batch], ["later", batch + 2]);
    }
  }, LATER),

  "buffer::a repeated and a late batch change nothing": withSink(async (held) => {
    await put(held, "ada", { name: "one" });
    await post(held, "/fault/reply");
    await held.edge.ask("POST", "/sinks/users/flush", { body: "" });
    const before = await everything(held);
    const state = await post(held, "/sinks/users/flush");
    assert.deepEqual([state.pending, state.batches], [0, 1]);
    assert.equal(await everything(held), before);
    // As a batch would that comes late: with the position before.
    const database = await d1(held);
    const late = database.batch([
      database.prepare("INSERT INTO keystead_sinks (sink, database_id, revisions, batch) VALUES ('users', 'x', '[]', CASE WHEN EXISTS (SELECT 1 FROM keystead_sinks WHERE sink = 'users' AND batch = 0) THEN 1 END) ON CONFLICT (sink) DO UPDATE SET batch = excluded.batch"),
      database.prepare("UPDATE users SET name = 'late'"),
    ]);
    await assert.rejects(late, /NOT NULL constraint failed: keystead_sinks.batch/);
    assert.equal(await everything(held), before);
  }, LATER),

  "buffer::what is acknowledged while D1 fails arrives later": withSink(async (held) => {
    await put(held, "ada", { name: "first" });
    await until("the first row", async () => (await rows(held)).length === 1);
    await (await d1(held)).exec("ALTER TABLE users RENAME TO away");
    for (let n = 0; n < 30; n++) await put(held, `u${n}`, { name: `n${n}` });
    await until("the failure is visible", async () => (await sink(held)).problem !== null);
    const failing = await sink(held);
    assert.match(failing.problem.message, /users/);
    assert.equal(failing.pending, 30);
    await held.edge.run("DEL", "user:u0", "user:ada");
    await (await d1(held)).exec("ALTER TABLE away RENAME TO users");
    await until("all have arrived", async () => (await rows(held)).length === 29);
    await until("nothing waits", async () => (await sink(held)).pending === 0);
    assert.equal((await sink(held)).problem, null);
  }, { flushEvery: "100ms" }),

  "buffer::a batch of more than 100 parameters is several statements in one transaction": withSink(async (held) => {
    const values = Array.from({ length: 450 }, (_, n) => [`user:k${String(n).padStart(3, "0")}`, JSON.stringify({ name: "n", age: n })]);
    await held.edge.run("MSET", ...values.flat());
    const flushed = await post(held, "/sinks/users/flush");
    assert.deepEqual([flushed.pending, flushed.rows, flushed.batches], [0, 450, 1]);
    assert.deepEqual(await rows(held, "SELECT count(*) AS n, sum(age) AS sum, max(keystead_batch) AS batch FROM users"), [{ n: 450, sum: (449 * 450) / 2, batch: 1 }]);
    await held.edge.run("DEL", ...values.slice(0, 250).map(([key]) => key));
    assert.deepEqual((await post(held, "/sinks/users/flush")).batches, 2);
    assert.equal((await rows(held)).length, 200);
  }, LATER),

  "buffer::a row that D1 rejects delays no other, and is visible": withSink(async (held) => {
    for (let n = 0; n < 40; n++) await put(held, `u${n}`, { name: `n${n}`, age: n === 17 ? 5000 : n });
    await held.edge.run("XADD", "user:stream", "*", "f", "v");
    await put(held, "text", { name: "t", age: "no number" });
    const state = await post(held, "/sinks/users/flush");
    assert.deepEqual([state.pending, state.quarantined], [0, 3], JSON.stringify(state));
    assert.equal((await rows(held)).length, 39);
    const { keys } = (await held.edge.ask("GET", "/sinks/users/quarantine")).json;
    const reasons = Object.fromEntries(keys.map((one) => [one.key, one.reason]));
    assert.deepEqual(Object.keys(reasons).sort(), ["user:stream", "user:text", "user:u17"]);
    assert.match(reasons["user:u17"], /CHECK constraint failed/);
    assert.match(reasons["user:text"], /does not fit the column age/);
    // It is tried again when it changes, or on request.
    await put(held, "u17", { name: "n17", age: 17 });
    assert.deepEqual((await post(held, "/sinks/users/flush")).quarantined, 2);
    assert.equal((await rows(held)).length, 40);
    assert.deepEqual(await post(held, "/sinks/users/retry"), { keys: 2 });
    const again = await post(held, "/sinks/users/flush");
    assert.deepEqual([again.pending, again.quarantined], [0, 2]);
  }, LATER),

  "buffer::keys that were there before the sink follow, and rows without a key go": () =>
    inDirectory(async (directory) => {
      const more = { d1Databases: { DB: "00000000-0000-0000-0000-000000000001" }, d1Persist: `${directory}/d1` };
      const bindings = { SINKS: JSON.stringify({ users: { ...TABLE, flushEvery: "100ms" } }) };
      const held = { edge: await Edge.start({ directory, more }) };
      try {
        await (await d1(held)).exec(USERS);
        await held.edge.run("MSET", "user:a", '{"name":"A"}', "user:b", '{"name":"B"}', "uses", "x");
        held.edge.options = { directory, more, bindings };
        held.edge = await held.edge.restart();
        assert.equal((await sink(held)).problem, null);
        await until("both rows", async () => (await rows(held)).length === 2);
        // Without the sink nothing is noted.
        held.edge.options = { directory, more };
        held.edge = await held.edge.restart();
        await held.edge.run("DEL", "user:a");
        await held.edge.run("SET", "user:c", '{"name":"C"}');
        assert.deepEqual((await held.edge.ask("GET", "/sinks")).json, { sinks: [] });
        held.edge.options = { directory, more, bindings };
        held.edge = await held.edge.restart();
        await held.edge.run("PING");
        await until("D1 is as the keys are", async () => JSON.stringify((await rows(held)).map((row) => row.id)) === '["b","c"]');
        // Another database follows only if it is told to.
        await (await d1(held)).exec("UPDATE keystead_sinks SET database_id = 'another', batch = 70");
        await held.edge.run("SET", "user:d", '{"name":"D"}');
        await until("it is kept out", async () => /resync/.test((await sink(held)).problem?.message));
        assert.equal((await rows(held)).length, 2);
        await post(held, "/sinks/users/resync");
        await until("it has taken over", async () => (await rows(held)).length === 3 && (await sink(held)).problem === null);
        assert.ok((await sink(held)).batches > 70);
      } finally {
        await held.edge.stop();
      }
    }),

  "buffer::more keys than may wait are rejected, and nothing that waits is lost": async () => {
    const edge = await Edge.start({ bindings: { SINKS: '{"users":{"prefix":"user:","flushEvery":"1h"}}' } });
    try {
      const waiting = async () => (await edge.ask("GET", "/sinks/users")).json.pending;
      for (let n = 0; n < 100000; n += 4000) {
        const pairs = Array.from({ length: 4000 }, (_, m) => [`user:${n + m}`, "v"]);
        await edge.run("MSET", ...pairs.flat());
      }
      assert.equal(await waiting(), 100000);
      await assert.rejects(edge.run("SET", "user:new", "v"), /507 .*100000 keys wait for D1/);
      await assert.rejects(edge.run("MSET", "other", "v", "user:new", "v"), /keys wait/);
      assert.deepEqual(await edge.run("MGET", "other", "user:new"), [null, null]);
      // Of those that wait, and of others, any may change.
      assert.equal(await edge.run("SET", "user:7", "w"), "OK");
      assert.equal(await edge.run("DEL", "user:8"), 1);
      assert.equal(await edge.run("SET", "other", "v"), "OK");
      assert.equal(await waiting(), 100000);
    } finally {
      await edge.stop();
    }
  },

  "buffer::what is configured wrongly says so": async () => {
    for (const [SINKS, words] of [
      ["{", /the variable SINKS: .*write \{"users"/],
      ['{"users":{}}', /missing field `prefix`/],
      ['{"users":{"prefix":"u","target":"postgres://x"}}', /target is d1:BINDING/],
      ['{"a":{"prefix":"u","table":"t"},"b":{"prefix":"v","table":"t"}}', /the same table as a/],
    ]) {
      const edge = await Edge.start({ bindings: { SINKS } });
      try {
        const { status, json } = await edge.ask("GET", "/sinks");
        assert.equal(status, 500);
        assert.match(json.error.message, words);
      } finally {
        await edge.stop();
      }
    }
    const edge = await Edge.start({ bindings: { SINKS: '{"users":{"prefix":"user:"}}' } });
    try {
      await edge.run("SET", "user:1", "x");
      const { status, json } = await edge.ask("POST", "/sinks/users/flush", { body: "" });
      assert.equal(status, 503);
      assert.match(json.error.message, /no D1 database with the binding 'DB'/);
      assert.equal((await edge.ask("POST", "/sinks/users/flush", { body: "", token: "look" })).status, 403);
      assert.equal((await edge.ask("GET", "/sinks/none")).status, 404);
    } finally {
      await edge.stop();
    }
  },
};

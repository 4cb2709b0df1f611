// Whatever fails, what was acknowledged is there, nothing is half done, and the next request works.
const assert = require("node:assert/strict");
const { Edge, events, inDirectory, until } = require("./harness.cjs");

const PANIC =
  "the module has panicked, and its transaction was undone: it works again at the next request. Look what is there before you send this one again";

const onEdge = (check, options) => async () => {
  const edge = await Edge.start(options);
  try {
    await check(edge);
  } finally {
    await edge.stop();
  }
};

module.exports = {
  "faults::200 concurrent increments are 200": onEdge(async (edge) => {
    const counts = await Promise.all(Array.from({ length: 200 }, () => edge.run("INCR", "count")));
    assert.deepEqual(counts.sort((a, b) => a - b), Array.from({ length: 200 }, (_, n) => n + 1));
    assert.equal(await edge.run("GET", "count"), "200");
  }),

  "faults::a crash of workerd loses nothing that was acknowledged": () =>
    inDirectory(async (directory) => {
      let edge = await Edge.start({ directory });
      const acknowledged = new Map();
      for (let round = 0; round < 3; round++) {
        let running = true;
        const writers = Array.from({ length: 8 }, async (_, writer) => {
          for (let n = 0; running; n++) {
            const key = `k:${round}:${writer}:${n}`;
            try {
              await edge.run("SET", key, String(n));
              acknowledged.set(key, String(n));
              const replies = await edge.ask("POST", "/multi-exec", { body: JSON.stringify([["INCR", `a:${writer}`], ["INCR", `b:${writer}`]]) });
              assert.equal(replies.status, 200);
            } catch {
              return;
            }
          }
        });
        await until("enough was written", () => acknowledged.size >= 60 * (round + 1), 60000);
        const next = edge.crash();
        running = false;
        await Promise.allSettled(writers);
        edge = await next;
        const keys = [...acknowledged.keys()];
        for (let at = 0; at < keys.length; at += 500) {
          const part = keys.slice(at, at + 500);
          assert.deepEqual(await edge.run("MGET", ...part), part.map((key) => acknowledged.get(key)));
        }
        for (let writer = 0; writer < 8; writer++) {
          const [a, b] = await edge.run("MGET", `a:${writer}`, `b:${writer}`);
          assert.equal(a, b, "a transaction is whole or not at all");
        }
      }
      console.log(`${acknowledged.size} acknowledged writes are there after 3 crashes`);
      await edge.stop();
    }),

  "faults::a panic undoes its transaction, and the object works at the next request": onEdge(
    async (edge) => {
      await edge.run("SET", "a", "0");
      for (let round = 1; round <= 3; round++) {
        const stream = await events(edge, "/subscribe/news");
        assert.deepEqual(await stream.next(), ["subscribe,news,1"]);
        const failed = await edge.ask("POST", "/fault/panic");
        assert.deepEqual([failed.status, failed.json], [500, { error: `ERR ${PANIC}` }]);
        assert.equal(await edge.run("GET", "fault"), null);
        assert.equal(await edge.run("INCR", "a"), round);
        // A stream of the module that has ended would be silent for ever.
        assert.equal(await stream.next(), undefined);
        assert.equal(await edge.run("PUBLISH", "news", "x"), 0);
      }
      assert.equal((await edge.ask("PUT", "/kv/doc", { body: "1" })).status, 201);
    },
    { bindings: { FAULTS: "1" } },
  ),

  "faults::all that a panic interrupts gets an error at once": onEdge(
    async (edge) => {
      await edge.run("SET", "a", "1");
      const requests = Array.from({ length: 60 }, (_, n) => {
        if (n % 10 === 5) return edge.ask("POST", "/fault/panic");
        return n % 2 ? edge.ask("GET", "/kv/a") : edge.ask("POST", "/", { body: '["INCR","n"]' });
      });
      let acknowledged = 0;
      for (const { status, json, text } of await Promise.all(requests)) {
        if (status === 500) {
          const words = json.error.message ?? json.error;
          assert.ok(words.endsWith(PANIC), text);
          if (json.error.message) assert.deepEqual([json.error.code, json.error.outcome], ["internal", "unknown"]);
        } else {
          assert.equal(status, 200, text);
          acknowledged += typeof json.result === "number" ? 1 : 0;
        }
      }
      const count = Number(await edge.run("GET", "n"));
      assert.ok(count >= acknowledged && count <= 30, `${acknowledged} acknowledged, ${count} counted`);
      assert.equal(await edge.run("GET", "fault"), null);
    },
    { bindings: { FAULTS: "1" } },
  ),

  "faults::a database that is full says so, can be read and emptied, and works again": () =>
    inDirectory(async (directory) => {
      const options = { directory, more: { compatibilityFlags: ["experimental"] } };
      let edge = await Edge.start(options);
      const restart = async (bindings) => {
        edge.options = { ...options, bindings };
        edge = await edge.restart();
      };
      try {
        const large = "x".repeat(100_000);
        for (let n = 0; n < 10; n++) await edge.run("SET", `k${n}`, large);
        await edge.run("HSET", "hash", "f", "v");
        await restart({ FAULTS: "full" });
        const full = /^Error: 507 ERR .*the object's storage is full: delete keys/;
        const all = async () => [await edge.run("MGET", ...Array.from({ length: 10 }, (_, n) => `k${n}`), "new"), await edge.run("HGETALL", "hash"), await edge.run("DBSIZE")];
        const before = await all();
        assert.deepEqual(before, [[...Array(10).fill(large), null], ["f", "v"], 11]);
        await assert.rejects(edge.run("SET", "new", large), full);
        await assert.rejects(edge.run("HSET", "hash", "g", large), full);
        const post = (target, commands) => edge.ask("POST", target, { body: JSON.stringify(commands) });
        const both = await post("/multi-exec", [["SET", "k0", "changed"], ["SET", "new", large]]);
        assert.deepEqual([both.status, Array.isArray(both.json)], [507, false], both.text);
        const each = await post("/pipeline", [["SET", "k0", "changed"], ["SET", "new", large], ["SET", "k1", "changed"]]);
        assert.deepEqual([each.status, Array.isArray(each.json)], [507, false], each.text);
        const put = await edge.ask("PUT", "/kv/doc", { body: JSON.stringify(large) });
        assert.deepEqual([put.status, put.json.error.code, put.json.error.outcome], [507, "out_of_memory", undefined], put.text);
        // Nothing has changed, also after another life, and everything can be read.
        assert.deepEqual(await all(), before);
        await restart({ FAULTS: "full" });
        assert.deepEqual(await all(), before);
        assert.equal((await edge.ask("GET", "/kv/doc")).status, 404);
        // What is deleted makes room.
        assert.equal(await edge.run("DEL", "k0", "k1", "k2"), 3);
        assert.equal(await edge.run("SET", "new", large), "OK");
        assert.equal((await edge.ask("PUT", "/kv/doc", { body: JSON.stringify(large) })).status, 201);
        await assert.rejects(async () => {
          for (let n = 0; n < 10; n++) await edge.run("SET", `more${n}`, large);
        }, full);
        const kept = await edge.run("MGET", "k1", "k3", "new");
        assert.deepEqual(kept, [null, large, large]);
        await restart({});
        assert.equal(await edge.run("SET", "last", large), "OK");
        assert.deepEqual(await edge.run("MGET", "k1", "k3", "new", "last"), [...kept, large]);
      } finally {
        await edge.stop();
      }
    }),

  "faults::faults exist only where a test has switched them on": onEdge(async (edge) => {
    assert.equal((await edge.ask("POST", "/fault/panic")).status, 400);
  }),

  "faults::a value that is too large for a row is an error that changes nothing": onEdge(async (edge) => {
    await edge.run("SET", "a", "1");
    const large = "x".repeat(3 * 1024 * 1024);
    await assert.rejects(edge.run("SET", "a", large), /413 .*2 MB/);
    await assert.rejects(edge.run("HSET", "h", "f", large), /413 .*2 MB/);
    const both = await edge.ask("POST", "/multi-exec", { body: JSON.stringify([["SET", "b", "1"], ["SET", "a", large]]) });
    assert.equal(both.status, 413);
    assert.deepEqual(await edge.run("MGET", "a", "b"), ["1", null]);
    assert.equal(await edge.run("EXISTS", "h"), 0);
    assert.equal(await edge.run("INCR", "a"), 2);
  }),

  "faults::a body over the bound is rejected": onEdge(async (edge) => {
    const { status, json } = await edge.ask("POST", "/set/k", { body: "x".repeat(10 * 1024 * 1024 + 1) });
    assert.equal(status, 413);
    assert.match(json.error, /max request size exceeded/);
  }),

  "faults::without a token nothing is served": onEdge(
    async (edge) => {
      for (const token of [null, "", "s3cret", "undefined"]) {
        const { status, json } = await edge.ask("POST", "/", { body: '["GET","a"]', token });
        assert.equal(status, 500);
        assert.match(json.error, /KEYSTEAD_TOKEN is not set/);
      }
      assert.equal((await edge.ask("GET", "/healthz", { token: null })).status, 200);
    },
    { withoutToken: true },
  ),

  "faults::a wrong token is rejected, and a read-only one may only read": onEdge(async (edge) => {
    await edge.run("SET", "a", "1");
    for (const token of [null, "", "s3cre", "s3crets"]) {
      const { status, json } = await edge.ask("GET", "/get/a", { token });
      assert.deepEqual([status, json], [401, { error: "WRONGPASS invalid or missing auth token" }]);
      assert.equal((await edge.ask("GET", "/kv/a", { token })).status, 401);
    }
    assert.equal((await edge.ask("GET", "/get/a?_token=look", { token: null })).json.result, "1");
    assert.equal((await edge.ask("GET", "/get/a", { token: "look" })).json.result, "1");
    const denied = await edge.ask("GET", "/set/a/2", { token: "look" });
    assert.match(denied.json.error, /^NOPERM/);
    assert.equal((await edge.ask("PUT", "/kv/a", { body: "1", token: "look" })).status, 403);
    assert.equal(await edge.run("GET", "a"), "1");
  }),

  "faults::a script that does not end is stopped, and leaves nothing": onEdge(async (edge) => {
    const script = "redis.call('set', KEYS[1], 'x') while true do end";
    await assert.rejects(edge.run("EVAL", script, "1", "k"), /ERR|BUSY|UNKILLABLE/);
    assert.equal(await edge.run("GET", "k"), null);
  }),
};

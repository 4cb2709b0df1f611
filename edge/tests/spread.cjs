// A database of several objects: one for users, each key in one object for ever.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { Edge, TOKEN, differs, inDirectory } = require("./harness.cjs");

const OBJECTS = 4;

const onEdge = (check, options = {}) => async () => {
  const edge = await Edge.start({ bindings: { OBJECTS: String(OBJECTS) }, ...options });
  try {
    return await check(edge);
  } finally {
    await edge.stop();
  }
};

const PEERS = path.join(__dirname, "..", "..", "target", "peers", "node_modules");
const KEYS = Array.from({ length: 60 }, (_, n) => `key:${n}`);
// Redis's CRC16 of the tag.
function slot(key) {
  const tag = /\{([^}]+)\}/.exec(key)?.[1] ?? key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16384;
}
const owner = (key) => (slot(key) * OBJECTS) >> 14;
const elsewhere = (key) => KEYS.find((other) => owner(other) !== owner(key));

const post = async (edge, target, body, headers) => (await edge.ask("POST", target, { body: JSON.stringify(body), headers })).json;

async function scan(edge, ...options) {
  const found = [];
  let [cursor, calls] = ["0", 0];
  do {
    const [next, keys] = await edge.run("SCAN", cursor, ...options);
    found.push(...keys);
    cursor = next;
    assert.ok(++calls < 1000);
  } while (cursor !== "0");
  return found.sort();
}

module.exports = {
  "spread::keys are in all objects, and commands about all keys see them": onEdge(async (edge) => {
    const owners = new Set(KEYS.map(owner));
    assert.equal(owners.size, OBJECTS);
    for (const key of KEYS) await edge.run("SET", key, `v:${key}`);
    for (const key of KEYS) assert.equal(await edge.run("GET", key), `v:${key}`);
    assert.equal(await edge.run("DBSIZE"), KEYS.length);
    assert.deepEqual((await edge.run("KEYS", "*")).sort(), [...KEYS].sort());
    assert.deepEqual(await scan(edge, "COUNT", "7"), [...KEYS].sort());
    assert.deepEqual(await scan(edge, "MATCH", "key:1*"), KEYS.filter((key) => key.startsWith("key:1")).sort());
    assert.ok(KEYS.includes(await edge.run("RANDOMKEY")));
    // Each object has its own share, and no other.
    const namespace = await edge.miniflare.getDurableObjectNamespace("DATABASE");
    for (let n = 0; n < OBJECTS; n++) {
      const stub = namespace.get(namespace.idFromName(String(n)));
      const reply = await stub.fetch("http://edge/", { method: "POST", body: '["KEYS","*"]', headers: { authorization: "Bearer s3cret" } });
      assert.deepEqual((await reply.json()).result.sort(), KEYS.filter((key) => owner(key) === n).sort());
    }
    // The pages of documents, too.
    const listed = [];
    for (let cursor = ""; ; ) {
      const page = await edge.ask("GET", `/kv?limit=7${cursor && `&cursor=${cursor}`}`);
      assert.equal(page.status, 200);
      listed.push(...page.json);
      cursor = page.headers.get("keystead-cursor");
      if (!cursor) break;
    }
    assert.deepEqual(listed.sort(), [...KEYS].sort());
    assert.equal(await edge.run("FLUSHALL"), "OK");
    assert.equal(await edge.run("DBSIZE"), 0);
    assert.equal(await edge.run("RANDOMKEY"), null);
  }),

  "spread::a pipeline is split and its replies are in order": onEdge(async (edge) => {
    differs("several objects: pipelines over several");
    const commands = KEYS.flatMap((key) => [["SET", key, key], ["APPEND", key, "!"], ["GET", key]]);
    commands.push(["PING"], ["DBSIZE"], ["NOPE"], ["INCR", KEYS[0]], ["SET", KEYS[1], "last"], ["MGET", ...KEYS.slice(0, 3)], ["RENAME", KEYS[0], elsewhere(KEYS[0])]);
    const replies = await post(edge, "/pipeline", commands);
    assert.equal(replies.length, commands.length);
    KEYS.forEach((key, n) => assert.deepEqual(replies.slice(3 * n, 3 * n + 3), [{ result: "OK" }, { result: key.length + 1 }, { result: `${key}!` }]));
    const rest = replies.slice(3 * KEYS.length);
    assert.deepEqual([rest[0], rest[1]], [{ result: "PONG" }, { result: KEYS.length }]);
    assert.match(rest[2].error, /^ERR unknown command 'NOPE'/);
    assert.match(rest[3].error, /not an integer/);
    assert.deepEqual(rest[5], { result: [`${KEYS[0]}!`, "last", `${KEYS[2]}!`] });
    assert.match(rest[6].error, /^CROSSSLOT/);
    const encoded = await post(edge, "/pipeline", [["GET", KEYS[1]], ["MGET", ...KEYS.slice(1, 3)], ["SCAN", "0", "COUNT", "1000"]], { "upstash-encoding": "base64" });
    const plain = (text) => Buffer.from(text, "base64").toString();
    assert.equal(plain(encoded[0].result), "last");
    assert.deepEqual(encoded[1].result.map(plain), ["last", `${KEYS[2]}!`]);
    assert.equal(plain(encoded[2].result[0]), "1", "the first object is done, the second is next");
    assert.match((await post(edge, "/pipeline", [["GET", KEYS[0]], ["GET", elsewhere(KEYS[0])]], { "upstash-response-format": "resp2" })).error, /as JSON only/);
    assert.match((await post(edge, "/pipeline", [["INCR", "n"], ["GET", elsewhere("n")]], { "idempotency-key": "x" })).error, /Idempotency-Key/);
  }),

  "spread::keys of several objects are split where that needs no atomicity, else an error": onEdge(async (edge) => {
    differs("several shards");
    differs("several objects: scripts without keys");
    for (const key of KEYS) await edge.run("SET", key, key);
    assert.deepEqual(await edge.run("MGET", ...KEYS, "none", KEYS[0]), [...KEYS, null, KEYS[0]]);
    assert.equal(await edge.run("EXISTS", ...KEYS, "none", KEYS[0]), KEYS.length + 1);
    assert.equal(await edge.run("TOUCH", ...KEYS), KEYS.length);
    assert.equal(await edge.run("DEL", ...KEYS.slice(0, 20)), 20);
    assert.equal(await edge.run("UNLINK", ...KEYS), 40);
    const [a, b] = ["key:0", elsewhere("key:0")];
    for (const command of [["MSET", a, "1", b, "2"], ["SINTER", a, b], ["EVAL", "return 1", "2", a, b]]) await assert.rejects(edge.run(...command), /400 CROSSSLOT/);
    await assert.rejects(edge.run("EVAL", "return 1", "0"), /several objects/);
    assert.equal(await edge.run("MSET", "{t}a", "1", "{t}b", "2"), "OK");
    assert.equal(await edge.run("EVAL", "return redis.call('incr', KEYS[1]) + redis.call('get', KEYS[2])", "2", "{t}a", "{t}b"), 4);
    // A script that reaches for a key of another object would not find it there.
    await assert.rejects(edge.run("EVAL", "return redis.call('get', ARGV[1])", "1", a, b), /attempted to access a non local key/);
    await assert.rejects(edge.run("EVAL", "return redis.call('dbsize')", "1", b), /attempted to access a non local key/);
    assert.equal(await edge.run("EVAL", "return redis.call('set', KEYS[1], 'x').ok", "1", b), "OK");
    await edge.run("DEL", b);
    const sha = await edge.run("SCRIPT", "LOAD", "return redis.call('incr', KEYS[1])");
    for (const key of KEYS.slice(0, 12)) assert.equal(await edge.run("EVALSHA", sha, "1", key), 1);
    assert.deepEqual(await edge.run("SCRIPT", "EXISTS", sha, "0".repeat(40)), [1, 0]);
  }),

  "spread::a transaction is of one object": onEdge(async (edge) => {
    assert.deepEqual(await post(edge, "/multi-exec", [["SET", "{t}a", "1"], ["INCR", "{t}a"], ["PING"]]), [{ result: "OK" }, { result: 2 }, { result: "PONG" }]);
    assert.match((await post(edge, "/multi-exec", [["SET", "key:0", "1"], ["SET", elsewhere("key:0"), "1"]])).error, /^CROSSSLOT/);
    assert.match((await post(edge, "/multi-exec", [["SET", "key:0", "1"], ["DBSIZE"]])).error, /about all objects/);
    assert.equal(await edge.run("DBSIZE"), 1);
  }),

  "spread::documents, limits and messages": onEdge(async (edge) => {
    differs("several objects: messages, /monitor and INFO");
    for (const key of KEYS) assert.equal((await edge.ask("PUT", `/kv/${key}`, { body: JSON.stringify({ key }) })).status, 201);
    for (const key of KEYS) assert.deepEqual((await edge.ask("GET", `/kv/${key}`)).json.value, { key });
    for (const key of KEYS.slice(0, 8)) {
      const statuses = [];
      for (let n = 0; n < 6; n++) statuses.push((await edge.ask("POST", "/limit/login?status=429", { body: JSON.stringify({ key }) })).status);
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
      assert.equal((await edge.ask("GET", `/limit/login/${key}`)).json.remaining, 0);
      assert.deepEqual((await edge.ask("DELETE", `/limit/login/${key}`)).json, { reset: true });
    }
    const controller = new AbortController();
    const response = await fetch(`${edge.url}/subscribe/news`, { method: "POST", headers: { authorization: "Bearer s3cret" }, body: "[]", signal: controller.signal });
    const reader = response.body.getReader();
    const read = async () => Buffer.from((await reader.read()).value).toString();
    assert.equal(await read(), "data: subscribe,news,1\n\n");
    assert.equal(await edge.run("PUBLISH", "news", "hello"), 1);
    assert.equal(await read(), "data: message,news,hello\n\n");
    controller.abort();
    assert.equal((await edge.ask("GET", "/get/key:1", { token: "wrong" })).status, 401);
    assert.match((await edge.ask("GET", "/set/key:1/x", { token: "look" })).json.error, /^NOPERM/);
    const { headers } = await edge.ask("POST", "/", { body: '["DBSIZE"]' });
    assert.ok(Number(headers.get("upstash-sync-token")) > 0 && headers.has("keystead-rows-read"));
  }),

  "spread::the limiter of the SDK works with a tag": onEdge(async (edge) => {
    if (!fs.existsSync(path.join(PEERS, "@upstash", "ratelimit"))) return "@upstash/ratelimit is not installed";
    const { Redis } = require("@upstash/redis");
    const { Ratelimit } = require("@upstash/ratelimit");
    const redis = new Redis({ url: edge.url, token: TOKEN });
    for (const [n, limiter] of [Ratelimit.slidingWindow(3, "600 s"), Ratelimit.fixedWindow(3, "600 s"), Ratelimit.tokenBucket(1, "600 s", 3)].entries()) {
      const limit = new Ratelimit({ redis, limiter, prefix: `{limits:${n}}` });
      for (const user of ["ada", "bob", "eve"]) {
        const allowed = [];
        for (let m = 0; m < 4; m++) allowed.push((await limit.limit(user)).success);
        assert.deepEqual(allowed, [true, true, true, false]);
      }
    }
  }),

  "spread::sinks and compute services are for one object": async () => {
    differs("several objects: SINKS, POST /statements");
    const statements = { body: '{"statements":[]}', token: "storage" };
    const edge = await Edge.start({ bindings: { OBJECTS: "4", KEYSTEAD_STORAGE_TOKEN: "storage" } });
    try {
      const { status, json } = await edge.ask("POST", "/statements", statements);
      assert.deepEqual([status, json.error.code], [501, "unsupported"]);
    } finally {
      await edge.stop();
    }
    const wrong = await Edge.start({ bindings: { OBJECTS: "4", SINKS: '{"users":{"prefix":"user:"}}' } });
    try {
      await assert.rejects(wrong.run("SET", "k", "v"), /500 .*a database of several objects \(OBJECTS\) has no sinks/);
    } finally {
      await wrong.stop();
    }
  },

  "spread::another number of objects is refused": () =>
    inDirectory(async (directory) => {
      const at = async (OBJECTS, check) => {
        const edge = await Edge.start({ directory, bindings: OBJECTS ? { OBJECTS } : {} });
        try {
          await check(edge);
        } finally {
          await edge.stop();
        }
      };
      await at("4", async (edge) => {
        for (const key of KEYS) await edge.run("SET", key, "v");
      });
      for (const other of ["8", "2", "1", undefined]) {
        await at(other, async (edge) => {
          for (const key of KEYS.slice(0, 12)) {
            const { status, json } = await edge.ask("POST", "/", { body: JSON.stringify(["SET", key, "w"]) });
            assert.equal(status, 500);
            assert.match(json.error, /this database has 4 objects, and OBJECTS says \d: set it to 4/);
          }
          assert.match((await edge.ask("GET", "/kv/a")).json.error.message, /has 4 objects/);
        });
      }
      await at("4", async (edge) => {
        assert.equal(await edge.run("DBSIZE"), KEYS.length);
        assert.deepEqual(new Set(await edge.run("MGET", ...KEYS)), new Set(["v"]));
      });
      for (const wrong of ["0", "65", "four"]) {
        await at(wrong, async (edge) => {
          const { status, json } = await edge.ask("GET", "/get/a");
          assert.deepEqual([status, /OBJECTS is a number from 1 to 64/.test(json.error)], [500, true]);
        });
      }
    }),

  "spread::a database of one object is not spread later": () =>
    inDirectory(async (directory) => {
      let edge = await Edge.start({ directory });
      await edge.run("SET", "a", "1");
      await edge.stop();
      edge = await Edge.start({ directory, bindings: { OBJECTS: "4" } });
      await assert.rejects(edge.run("GET", "a"), /this database has 1 objects/);
      await edge.stop();
    }),
};

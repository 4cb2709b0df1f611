// What is in rows is what was written, and a request reads only the rows that it needs.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { Edge, inDirectory, until } = require("./harness.cjs");

// The table of costs in docs/edge.md: of each command the rows read the first time and again, and written.
const promised = () => {
  const page = fs.readFileSync(path.join(__dirname, "..", "..", "docs", "edge.md"), "utf8");
  const [, table] = /\| Command \| Rows read, first time.*\n\|[-|]+\n((?:\|.*\n)+)/.exec(page);
  return table.trim().split("\n").map((row) => row.split("|").slice(1, -1).map((cell) => cell.trim()));
};

const onDisk = (check) => () =>
  inDirectory(async (directory) => {
    const held = { edge: await Edge.start({ directory }) };
    try {
      await check(held);
    } finally {
      await held.edge.stop();
    }
  });

module.exports = {
  "rows::values of every type survive a restart unchanged": onDisk(async (held) => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
    const { edge } = held;
    await edge.ask("POST", "/set/binary", { body: bytes });
    for (const command of [
      ["SET", "empty", ""],
      ["SET", "big", "9223372036854775807"],
      ["SET", "odd", "9007199254740993"],
      ["INCR", "odd"],
      ["PEXPIREAT", "odd", "9007199254740993123"],
      ["HSET", "hash", "", "", "f", "9007199254740993"],
      ["HSET", "expiring", "soon", "1", "later", "2"],
      ["HPEXPIREAT", "expiring", "70000000000001", "FIELDS", "1", "later"],
      ["RPUSH", "list", "a", "", "b"],
      ["LPUSH", "list", "first"],
      ["SADD", "set", "", "m"],
      // In small sets zero has no sign, as in Redis; a long member makes a large one of it.
      ["ZADD", "zset", "-0", "z".repeat(65), "inf", "inf", "-inf", "-inf", "9007199254740993", "large", "1.1", "real", "1e300", "huge"],
      ["XADD", "stream", "18446744073709551614-18446744073709551613", "f", ""],
      ["XGROUP", "CREATE", "stream", "g", "0"],
      ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "stream", ">"],
      ["JSON.SET", "json", "$", '{"n":9007199254740993,"x":1.10}'],
    ]) {
      await edge.run(...command);
    }
    const questions = [
      ["GET", "empty"], ["GET", "big"], ["GET", "odd"], ["PEXPIRETIME", "odd"], ["HGETALL", "hash"], ["HGETALL", "expiring"],
      ["HPEXPIRETIME", "expiring", "FIELDS", "2", "soon", "later"], ["LRANGE", "list", "0", "-1"], ["SMEMBERS", "set"],
      ["ZRANGE", "zset", "0", "-1", "WITHSCORES"], ["XRANGE", "stream", "-", "+"], ["XINFO", "STREAM", "stream"],
      ["XPENDING", "stream", "g"], ["JSON.GET", "json"], ["DBSIZE"],
    ];
    const answers = async (edge) => {
      const all = [];
      for (const question of questions) {
        const { text } = await edge.ask("POST", "/", { body: JSON.stringify(question) });
        all.push(text);
      }
      const { bytes } = await edge.ask("POST", "/", { body: '["GET","binary"]', headers: { "upstash-response-format": "resp2" } });
      return [...all, bytes.toString("hex")];
    };
    const before = await answers(edge);
    assert.equal(before.at(-1), Buffer.concat([Buffer.from("$256\r\n"), bytes, Buffer.from("\r\n")]).toString("hex"));
    assert.equal(JSON.parse(before[2]).result, "9007199254740994");
    assert.match(before[9], /"z{65}","-0"/);
    held.edge = await edge.restart();
    const after = await answers(held.edge);
    // Sets have no order.
    const sorted = (text) => [...text].sort().join("");
    for (const n of [4, 5, 8]) assert.equal(sorted(after[n]), sorted(before[n]));
    const rest = (all) => all.filter((_, n) => ![4, 5, 8].includes(n));
    assert.deepEqual(rest(after), rest(before));
  }),

  "rows::a woken object reads a handful of rows": onDisk(async (held) => {
    const { edge } = held;
    for (let n = 0; n < 20; n++) {
      const pairs = Array.from({ length: 500 }, (_, m) => [`key:${n * 500 + m}`, "v"]).flat();
      await edge.run("MSET", ...pairs);
    }
    held.edge = await edge.restart();
    const get = await held.edge.rows("GET", "key:7777");
    assert.equal(get.result, "v");
    console.log(`a woken object of 10000 keys reads ${get.read} rows and writes ${get.written} for one GET`);
    assert.deepEqual([get.read, get.written], [5, 0]);
    const again = await held.edge.rows("GET", "key:7777");
    assert.deepEqual([again.read, again.written], [0, 0]);
    assert.equal(await held.edge.run("DBSIZE"), 10000);
  }),

  "rows::what commands cost": onDisk(async (held) => {
    const { edge } = held;
    await edge.run("SET", "warm", "v");
    const pairs = (count, make) => Array.from({ length: count }, (_, n) => make(n)).flat();
    await edge.run("HSET", "hash100", ...pairs(100, (n) => [`f${n}`, "v"]));
    await edge.run("ZADD", "zset100", ...pairs(100, (n) => [String(n), `m${n}`]));
    held.edge = await edge.restart();
    await held.edge.run("PING");
    const commands = [
      ["`GET` of a string", "GET", "warm"],
      ["`GET` of an absent key", "GET", "absent"],
      ["`SET` of a new key", "SET", "new", "v"],
      ["`SET` of an old key", "SET", "warm", "w"],
      ["`SET` with an expiry", "SET", "soon", "v", "EX", "100"],
      ["`INCR`", "INCR", "count"],
      ["`HSET` of a field in a new hash", "HSET", "small", "f", "v"],
      ["`HGET` in a hash of 100 fields", "HGET", "hash100", "f1"],
      ["`HSET` of a field in a hash that is held", "HSET", "hash100", "f1", "w"],
      ["`ZADD` of a member in a set of 100", "ZADD", "zset100", "5", "m1"],
      ["`LPUSH` of a new key", "LPUSH", "list", "v"],
      ["`SADD` of a new key", "SADD", "set", "m"],
      ["`DEL` of a string", "DEL", "new"],
    ];
    const measured = [];
    for (const [label, ...command] of commands) {
      const first = await held.edge.rows(...command);
      const again = await held.edge.rows(...command);
      measured.push([label, first.read, again.read, first.written].map(String));
    }
    console.log(measured.map((row) => `| ${row.join(" | ")} |`).join("\n"));
    assert.deepEqual(measured, promised());
  }),

  "rows::alarms reclaim what is expired": onDisk(async ({ edge }) => {
    await edge.run("SET", "stays", "v");
    for (let n = 0; n < 20; n++) await edge.run("SET", `soon:${n}`, "v", "PX", "200");
    await edge.run("HSET", "hash", "f", "v", "g", "v");
    await edge.run("HPEXPIRE", "hash", "200", "FIELDS", "1", "f");
    assert.equal(await edge.run("DBSIZE"), 22);
    await until("expired keys are gone from the rows", async () => (await edge.run("DBSIZE")) === 2, 40000);
    assert.deepEqual(await edge.run("HGETALL", "hash"), ["g", "v"]);
  }),

  // Another life of the object does not know the alarm, and would set one for a year later in its place.
  "rows::an alarm survives an eviction and a later expiry": onDisk(async (held) => {
    await held.edge.run("SET", "soon", "v", "PX", "200");
    held.edge = await held.edge.restart();
    await held.edge.run("SET", "later", "v", "EX", "31536000");
    await until("the expired key is gone from the rows", async () => (await held.edge.run("DBSIZE")) === 1, 40000);
    await held.edge.run("SET", "soon", "v", "PX", "200");
    held.edge = await held.edge.crash();
    await held.edge.run("SET", "even later", "v", "EX", "31536001");
    await until("also after a crash", async () => (await held.edge.run("DBSIZE")) === 2, 40000);
  }),

  // One slice of a thousand keys in ten seconds would take two minutes.
  "rows::slices that reclaim follow at once": onDisk(async ({ edge }) => {
    for (let n = 0; n < 12; n++) {
      const commands = Array.from({ length: 1000 }, (_, m) => ["SET", `soon:${n}:${m}`, "v", "PX", "100"]);
      assert.equal((await edge.ask("POST", "/multi-exec", { body: JSON.stringify(commands) })).status, 200);
    }
    await edge.run("SET", "stays", "v");
    await until("12000 expired keys are gone from the rows", async () => (await edge.run("DBSIZE")) === 1, 60000);
  }),
};

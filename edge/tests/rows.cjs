// What is in rows is what was written, and a request reads only the rows that it needs.
const assert = require("node:assert/strict");
const { Edge, inDirectory, until } = require("./harness.cjs");

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
      ["ZADD", "zset", "-0", "zero", "inf", "inf", "-inf", "-inf", "9007199254740993", "large", "1.1", "real", "1e300", "huge"],
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
    assert.ok(get.read <= 12 && get.written === 0, JSON.stringify(get));
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
    console.log("| command | rows read, first | again | rows written |");
    console.log("|---|---|---|---|");
    for (const command of [
      ["GET", "warm"], ["GET", "absent"], ["SET", "new", "v"], ["SET", "warm", "w"], ["SET", "soon", "v", "EX", "100"], ["INCR", "count"],
      ["HSET", "small", "f", "v"], ["HGET", "hash100", "f1"], ["HSET", "hash100", "f1", "w"], ["ZADD", "zset100", "5", "m1"],
      ["LPUSH", "list", "v"], ["SADD", "set", "m"], ["DEL", "new"], ["DBSIZE"], ["SCAN", "0"],
    ]) {
      const first = await held.edge.rows(...command);
      const again = await held.edge.rows(...command);
      console.log(`| \`${command.join(" ")}\` | ${first.read} | ${again.read} | ${first.written} |`);
    }
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
};

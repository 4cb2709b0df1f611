// @upstash/redis: every method that sends a command, family by family. The last case finds methods that no case has called.
const assert = require("node:assert/strict");
const { Redis } = require("@upstash/redis");
const { url, token, run } = require("./upstash.cjs");

// Families that only Upstash has; a method that is neither here nor called fails the last case.
const NOT_THERE = {
  arrays: /^ar[a-z]+$/,
  "search and vectors": /^(search|vector)$/,
  "no command of their own": /^(use|addTelemetry|autoPipeline|pipeline|multi|createScript|exec|readYourWritesSyncToken)$/,
  "in another test": /^(subscribe|psubscribe)$/,
  "about a connection, which REST has not": /^clientSetinfo$/,
};

const called = new Set();
const noting = (target, prefix) =>
  new Proxy(target, {
    get(object, name) {
      const value = object[name];
      if (typeof name !== "string") return value;
      if (name === "json" || name === "functions") return noting(value, `${name}.`);
      if (typeof value === "function") called.add(prefix + name);
      return value;
    },
  });

const real = Redis.fromEnv();
const r = noting(real, "");
// BITFIELD is built step by step, which the SDK cannot do while it collects calls.
const single = noting(new Redis({ url, token, enableAutoPipelining: false }), "");
const eq = async (got, expected) => assert.deepEqual(await got, expected);
const sorted = async (got) => (await got).sort();
const near = async (got, expected, slack = 2) => {
  const value = await got;
  assert.ok(value <= expected && value >= expected - slack, `${value} is not just below ${expected}`);
};
const now = () => Math.floor(Date.now() / 1000);

const cases = {
  async strings() {
    await eq(r.set("s", "v"), "OK");
    await eq(r.get("s"), "v");
    await eq(r.get("none"), null);
    await eq(r.set("s", "w", { get: true, ex: 100 }), "v");
    await near(r.ttl("s"), 100);
    await eq(r.set("s", "x", { nx: true }), null);
    await eq(r.set("s", "x", { xx: true, keepTtl: true }), "OK");
    await near(r.ttl("s"), 100);
    await eq(r.set("s", "x", { pxat: Date.now() + 50_000 }), "OK");
    await near(r.pttl("s"), 50_000, 2000);
    await eq(r.append("s", "yz"), 3);
    await eq(r.strlen("s"), 3);
    await eq(r.getrange("s", 1, -1), "yz");
    await eq(r.setrange("s", 1, "--"), 3);
    await eq(r.getset("s", "new"), "x--");
    await eq(r.getex("s", { ex: 50 }), "new");
    await near(r.ttl("s"), 50);
    await eq(r.getex("s", { persist: true }), "new");
    await eq(r.ttl("s"), -1);
    await eq(r.getdel("s"), "new");
    await eq(r.exists("s"), 0);
    await eq(r.setnx("s", 1), 1);
    await eq(r.setnx("s", 2), 0);
    await eq(r.incr("s"), 2);
    await eq(r.incrby("s", 5), 7);
    await eq(r.decr("s"), 6);
    await eq(r.decrby("s", 3), 3);
    await eq(r.incrbyfloat("s", 0.5), 3.5);
    await eq(r.setex("s", 60, "e"), "OK");
    await near(r.ttl("s"), 60);
    await eq(r.psetex("s", 60_000, "e"), "OK");
    await near(r.pttl("s"), 60_000, 2000);
    await eq(r.mset({ a: 1, b: { deep: [1, "two", null] } }), "OK");
    await eq(r.mget("a", "b", "none"), [1, { deep: [1, "two", null] }, null]);
    await eq(r.msetnx({ a: 2, c: 3 }), 0);
    await eq(r.msetnx({ c: 3, d: 4 }), 1);
    await eq(r.get("c"), 3);
  },

  async bits() {
    await eq(r.setbit("bits", 7, 1), 0);
    await eq(r.setbit("bits", 7, 1), 1);
    await eq(r.getbit("bits", 7), 1);
    await eq(r.getbit("bits", 6), 0);
    await eq(r.bitcount("bits", 0, -1), 1);
    await eq(r.bitpos("bits", 1), 7);
    await eq(r.bitpos("bits", 0, 0, -1), 0);
    await r.setbit("other", 0, 1);
    await eq(r.bitop("or", "both", "bits", "other"), 1);
    await eq(r.bitcount("both", 0, 0), 2);
    await eq(r.bitop("not", "inverse", "both"), 1);
    await eq(r.bitcount("inverse", 0, 0), 6);
    await eq(r.bitop("diff", "only", "both", "other"), 1);
    await eq(r.bitpos("only", 1), 7);
    await eq(r.bitop("diff1", "only1", "other", "bits"), 1);
    await eq(r.bitcount("only1", 0, 0), 1);
    await eq(r.bitop("andor", "andor", "both", "bits", "other"), 1);
    await eq(r.bitcount("andor", 0, 0), 2);
    await eq(r.bitop("one", "one", "both", "other"), 1);
    await eq(r.bitcount("one", 0, 0), 1);
    const field = single.bitfield("field").set("u8", 0, 250).get("u8", 0).incrby("u8", 0, 9).overflow("SAT").incrby("u8", 0, 999);
    await eq(field.exec(), [0, 250, 3, 255]);
  },

  async keys() {
    await r.flushall();
    await r.mset({ k1: 1, k2: 2, k3: 3 });
    await eq(r.dbsize(), 3);
    await eq(r.exists("k1", "k2", "none"), 2);
    await eq(sorted(r.keys("k?")), ["k1", "k2", "k3"]);
    await eq(r.touch("k1", "none"), 1);
    await eq(r.type("k1"), "string");
    await eq(r.type("none"), "none");
    await eq(r.expire("k1", 100), 1);
    await eq(r.expire("k1", 50, "GT"), 0);
    await near(r.ttl("k1"), 100);
    await eq(r.persist("k1"), 1);
    await eq(r.ttl("k1"), -1);
    await eq(r.ttl("none"), -2);
    await eq(r.pexpire("k1", 100_000), 1);
    await near(r.pttl("k1"), 100_000, 2000);
    await eq(r.expireat("k1", now() + 30), 1);
    await near(r.ttl("k1"), 30);
    await eq(r.pexpireat("k1", Date.now() + 40_000), 1);
    await near(r.ttl("k1"), 40);
    await eq(r.rename("k1", "k9"), "OK");
    await eq(r.renamenx("k9", "k2"), 0);
    await eq(r.renamenx("k9", "k1"), 1);
    await eq(r.copy("k1", "copy"), "COPIED");
    await eq(r.copy("k1", "copy"), "NOT_COPIED");
    await eq(r.copy("k2", "copy", { replace: true }), "COPIED");
    await eq(r.get("copy"), 2);
    assert.ok(["k1", "k2", "k3", "copy"].includes(await r.randomkey()));
    await eq(r.del("k1", "none"), 1);
    await eq(r.unlink("k2", "k3"), 2);
    await eq(r.dbsize(), 1);
    await r.mset(Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`many:${n}`, n])));
    await r.lpush("many:list", 1);
    const seen = new Set();
    let cursor = "0";
    do {
      const [next, found] = await r.scan(cursor, { match: "many:*", count: 40 });
      found.forEach((key) => seen.add(key));
      cursor = next;
    } while (cursor !== "0");
    assert.equal(seen.size, 301);
    const typed = [];
    do {
      const [next, found] = await r.scan(cursor, { match: "many:l*", withType: true, count: 100 });
      typed.push(...found);
      cursor = next;
    } while (cursor !== "0");
    assert.deepEqual(typed, [{ key: "many:list", type: "list" }]);
    await eq(r.flushdb(), "OK");
    await eq(r.dbsize(), 0);
  },

  async hashes() {
    await eq(r.hset("h", { a: 1, b: "two", c: { x: [1] } }), 3);
    await eq(r.hget("h", "b"), "two");
    await eq(r.hget("h", "c"), { x: [1] });
    await eq(r.hget("h", "none"), null);
    await eq(r.hgetall("h"), { a: 1, b: "two", c: { x: [1] } });
    await eq(r.hgetall("none"), null);
    await eq(r.hmget("h", "a", "none"), { a: 1, none: null });
    await eq(r.hmset("h", { d: 4 }), "OK");
    await eq(r.hsetnx("h", "d", 5), 0);
    await eq(r.hsetnx("h", "e", 5), 1);
    await eq(r.hexists("h", "e"), 1);
    await eq(r.hlen("h"), 5);
    await eq(r.hstrlen("h", "b"), 3);
    await eq(sorted(r.hkeys("h")), ["a", "b", "c", "d", "e"]);
    await eq(r.hvals("h"), [1, "two", { x: [1] }, 4, 5]);
    await eq(r.hincrby("h", "a", 9), 10);
    await eq(r.hincrbyfloat("h", "a", 0.25), 10.25);
    await eq(r.hdel("h", "c", "d", "none"), 2);
    assert.ok(["a", "b", "e"].includes(await r.hrandfield("h")));
    assert.equal((await r.hrandfield("h", 9)).length, 3);
    await eq(r.hrandfield("h", 9, true), { a: 10.25, b: "two", e: 5 });
    const [cursor, found] = await r.hscan("h", 0, { match: "b" });
    assert.deepEqual([cursor, found], ["0", ["b", "two"]]);
    await eq(r.hexpire("h", "a", 100), [1]);
    await near((await r.httl("h", ["a", "b", "none"]))[0], 100);
    await eq(r.httl("h", ["b", "none"]), [-1, -2]);
    await eq(r.hpexpire("h", ["a"], 90_000), [1]);
    await near((await r.hpttl("h", "a"))[0], 90_000, 2000);
    await eq(r.hexpireat("h", "a", now() + 80), [1]);
    await near((await r.hexpiretime("h", "a"))[0], now() + 80);
    await eq(r.hpexpireat("h", "a", Date.now() + 70_000), [1]);
    await near((await r.hpexpiretime("h", "a"))[0], Date.now() + 70_000, 2000);
    await eq(r.hpersist("h", ["a", "b"]), [1, -1]);
    await eq(r.hsetex("h", { expiration: { ex: 60 } }, { f: 1, g: 2 }), 1);
    await eq(r.hsetex("h", { conditional: "FNX" }, { f: 9 }), 0);
    await near((await r.httl("h", "f"))[0], 60);
    await eq(r.hgetex("h", { ex: 30 }, "f", "g"), { f: 1, g: 2 });
    await near((await r.httl("h", "g"))[0], 30);
    await eq(r.hgetex("h", { persist: true }, "f"), { f: 1 });
    await eq(r.httl("h", "f"), [-1]);
    await eq(r.hgetdel("h", "f", "g"), { f: 1, g: 2 });
    await eq(r.hexists("h", "f"), 0);
  },

  async lists() {
    await eq(r.rpush("l", "a", "b", "c"), 3);
    await eq(r.lpush("l", 0), 4);
    await eq(r.lpushx("none", 1), 0);
    await eq(r.rpushx("l", "d"), 5);
    await eq(r.lrange("l", 0, -1), [0, "a", "b", "c", "d"]);
    await eq(r.lindex("l", 1), "a");
    await eq(r.lindex("l", 99), null);
    await eq(r.linsert("l", "before", "b", "x"), 6);
    await eq(r.llen("l"), 6);
    await eq(r.lpos("l", "x"), 2);
    await eq(r.lset("l", 2, "a"), "OK");
    await eq(r.lpos("l", "a", { count: 0 }), [1, 2]);
    await eq(r.lrem("l", 1, "a"), 1);
    await eq(r.lmove("l", "m", "left", "right"), 0);
    await eq(r.lpop("l"), "a");
    await eq(r.rpop("l"), "d");
    await eq(r.lpop("l", 5), ["b", "c"]);
    await eq(r.lpop("l"), null);
    await eq(r.lmpop(2, ["l", "m"], "LEFT", 1), ["m", [0]]);
    await eq(r.lmpop(1, ["l"], "RIGHT"), null);
    await r.rpush("l", 1, 2, 3, 4);
    await eq(r.ltrim("l", 1, 2), "OK");
    await eq(r.lrange("l", 0, -1), [2, 3]);
  },

  async sets() {
    await eq(r.sadd("x", "a", "b", "c"), 3);
    await r.sadd("y", "b", "c", "d");
    await eq(r.scard("x"), 3);
    await eq(r.sismember("x", "a"), 1);
    await eq(r.smismember("x", ["a", "z"]), [1, 0]);
    await eq(sorted(r.smembers("x")), ["a", "b", "c"]);
    await eq(r.sdiff("x", "y"), ["a"]);
    await eq(r.sdiffstore("z", "x", "y"), 1);
    await eq(sorted(r.sinter("x", "y")), ["b", "c"]);
    await eq(r.sintercard(["x", "y"]), 2);
    await eq(r.sintercard(["x", "y"], { limit: 1 }), 1);
    await eq(r.sinterstore("z", "x", "y"), 2);
    await eq(sorted(r.sunion("x", "y")), ["a", "b", "c", "d"]);
    await eq(r.sunionstore("z", "x", "y"), 4);
    await eq(r.smove("x", "y", "a"), 1);
    await eq(r.smove("x", "y", "a"), 0);
    await eq(r.srem("y", "a", "none"), 1);
    assert.ok(["b", "c"].includes(await r.srandmember("x")));
    assert.equal((await r.srandmember("z", 3)).length, 3);
    const [cursor, found] = await r.sscan("z", 0, { count: 100 });
    assert.deepEqual([cursor, found.sort()], ["0", ["a", "b", "c", "d"]]);
    assert.ok(["b", "c"].includes(await r.spop("x")));
    assert.equal((await r.spop("z", 9)).length, 4);
  },

  async "sorted sets"() {
    await eq(r.zadd("z1", { score: 1, member: "a" }, { score: 2.5, member: "b" }, { score: 3, member: "c" }), 3);
    await eq(r.zadd("z1", { xx: true, ch: true }, { score: 4, member: "c" }, { score: 9, member: "new" }), 1);
    await eq(r.zadd("z1", { incr: true }, { score: 1, member: "c" }), 5);
    await eq(r.zadd("z1", { gt: true, ch: true }, { score: 1, member: "c" }), 0);
    await eq(r.zcard("z1"), 3);
    await eq(r.zcount("z1", "(1", "+inf"), 2);
    await eq(r.zscore("z1", "b"), 2.5);
    await eq(r.zscore("z1", "none"), null);
    await eq(r.zmscore("z1", ["a", "none"]), [1, null]);
    await eq(r.zincrby("z1", -0.5, "b"), 2);
    await eq(r.zrank("z1", "c"), 2);
    await eq(r.zrevrank("z1", "c"), 0);
    await eq(r.zrange("z1", 0, -1), ["a", "b", "c"]);
    await eq(r.zrange("z1", 0, -1, { withScores: true, rev: true }), ["c", 5, "b", 2, "a", 1]);
    await eq(r.zrange("z1", "(1", "+inf", { byScore: true, offset: 1, count: 5 }), ["c"]);
    await eq(r.zrange("z1", "-", "[b", { byLex: true }), ["a", "b"]);
    await r.zadd("z2", { score: 10, member: "b" }, { score: 20, member: "d" });
    await eq(r.zdiffstore("zd", 2, "z1", "z2"), 2);
    await eq(r.zinterstore("zi", 2, ["z1", "z2"], { weights: [2, 1], aggregate: "max" }), 1);
    await eq(r.zscore("zi", "b"), 10);
    await eq(r.zunionstore("zu", 2, ["z1", "z2"]), 4);
    await eq(r.zunion(2, ["z1", "z2"], { withScores: true }), ["a", 1, "c", 5, "b", 12, "d", 20]);
    await eq(r.zlexcount("z1", "-", "+"), 3);
    const [cursor, found] = await r.zscan("z1", 0, { match: "a" });
    assert.deepEqual([cursor, found], ["0", ["a", 1]]);
    await eq(r.zpopmin("z1"), ["a", 1]);
    await eq(r.zpopmax("z1", 2), ["c", 5, "b", 2]);
    await eq(r.zrem("zu", "a", "none"), 1);
    await eq(r.zremrangebyscore("zu", 5, "(12"), 1);
    await eq(r.zremrangebyrank("zu", 0, 0), 1);
    await r.zadd("lex", { score: 0, member: "a" }, { score: 0, member: "b" });
    await eq(r.zremrangebylex("lex", "[a", "(b"), 1);
  },

  async "geo and hyperloglog"() {
    const palermo = { longitude: 13.361389, latitude: 38.115556, member: "Palermo" };
    const catania = { longitude: 15.087269, latitude: 37.502669, member: "Catania" };
    await eq(r.geoadd("geo", palermo, catania), 2);
    await near(r.geodist("geo", "Palermo", "Catania", "KM"), 167, 1);
    await eq(r.geohash("geo", "Palermo"), ["sqc8b49rny0"]);
    const [at] = await r.geopos("geo", "Palermo", "none");
    assert.ok(Math.abs(at.lng - 13.361389) < 1e-5 && Math.abs(at.lat - 38.115556) < 1e-5);
    const from = { type: "FROMLONLAT", coordinate: { lon: 15, lat: 37 } };
    const within = { type: "BYRADIUS", radius: 200, radiusType: "KM" };
    await eq(r.geosearch("geo", from, within, "ASC"), [{ member: "Catania" }, { member: "Palermo" }]);
    const [first] = await r.geosearch("geo", from, within, "ASC", { withDist: true, withCoord: true, withHash: true, count: { limit: 1 } });
    assert.deepEqual([first.member, Math.round(first.dist), Math.round(first.coord.long)], ["Catania", 56, 15]);
    const box = { type: "BYBOX", rect: { width: 400, height: 400 }, rectType: "KM" };
    await eq(r.geosearchstore("found", "geo", { type: "FROMMEMBER", member: "Palermo" }, box, "ASC"), 2);
    await eq(r.zcard("found"), 2);
    await eq(r.pfadd("hll", "a", "b", "c"), 1);
    await eq(r.pfadd("hll", "a"), 0);
    await r.pfadd("hll2", "c", "d");
    await eq(r.pfcount("hll", "hll2"), 4);
    await eq(r.pfmerge("merged", "hll", "hll2"), "OK");
    await eq(r.pfcount("merged"), 4);
  },

  async streams() {
    const id = await r.xadd("st", "*", { field: "value", n: 1 });
    assert.match(id, /^\d+-\d+$/);
    await eq(r.xadd("none", "*", { a: 1 }, { nomkStream: true }), null);
    for (let n = 1; n <= 5; n++) await eq(r.xadd("t", `${n}-0`, { n }), `${n}-0`);
    await eq(r.xlen("t"), 5);
    await eq(r.xrange("t", "-", "+", 2), { "1-0": { n: 1 }, "2-0": { n: 2 } });
    await eq(r.xrevrange("t", "+", "-", 1), { "5-0": { n: 5 } });
    await eq(r.xread("t", "4-0"), [["t", [["5-0", ["n", 5]]]]]);
    await eq(r.xread(["t", "st"], ["5-0", "0-0"], { count: 1 }), [["st", [[id, ["field", "value", "n", 1]]]]]);
    await eq(r.xread("t", "5-0"), null);
    await eq(r.xgroup("t", { type: "CREATE", group: "g", id: "0" }), "OK");
    await assert.rejects(r.xgroup("t", { type: "CREATE", group: "g", id: "0" }), /BUSYGROUP Consumer Group name already exists/);
    await eq(r.xgroup("t", { type: "CREATECONSUMER", group: "g", consumer: "c" }), 1);
    await eq(r.xreadgroup("g", "c", "t", ">", { count: 3 }), [
      ["t", [["1-0", ["n", 1]], ["2-0", ["n", 2]], ["3-0", ["n", 3]]]],
    ]);
    await eq(r.xack("t", "g", "1-0"), 1);
    const pending = await r.xpending("t", "g", "-", "+", 10);
    assert.deepEqual(pending.map(([id, consumer, , count]) => [id, consumer, count]), [["2-0", "c", 1], ["3-0", "c", 1]]);
    await eq(r.xclaim("t", "g", "d", 0, "2-0", { justId: true }), ["2-0"]);
    const [next, claimed] = await r.xautoclaim("t", "g", "e", 0, "0-0", { count: 1 });
    assert.deepEqual([next, claimed], ["3-0", [["2-0", ["n", 2]]]]);
    const groups = await r.xinfo("t", { type: "GROUPS" });
    assert.deepEqual(groups[0].slice(0, 4), ["name", "g", "consumers", 3]);
    const consumers = await r.xinfo("t", { type: "CONSUMERS", group: "g" });
    assert.deepEqual(consumers.map((consumer) => consumer[1]).sort(), ["c", "d", "e"]);
    await eq(r.xackdel("t", "g", "DELREF", "2-0", "9-9"), [1, -1]);
    await eq(r.xdelex("t", "keepref", "3-0", "9-9"), [1, -1]);
    await eq(r.xdel("t", ["1-0", "9-9"]), 1);
    await eq(r.xgroup("t", { type: "SETID", group: "g", id: "$" }), "OK");
    await eq(r.xgroup("t", { type: "DELCONSUMER", group: "g", consumer: "c" }), 1);
    await eq(r.xgroup("t", { type: "DESTROY", group: "g" }), 1);
    await eq(r.xtrim("t", { strategy: "MAXLEN", threshold: 1, exactness: "=" }), 1);
    await eq(r.xtrim("t", { strategy: "MINID", threshold: "9-0" }), 1);
    await eq(r.xadd("t", "10-0", { n: 10 }, { trim: { type: "MAXLEN", threshold: 1, comparison: "=" } }), "10-0");
    await eq(r.xlen("t"), 1);
  },

  async json() {
    const j = r.json;
    await eq(j.set("j", "$", { a: [1, 2], o: { x: 1, s: "text" }, b: true }), "OK");
    await eq(j.set("j", "$.a", 1, { nx: true }), null);
    await eq(j.get("j"), { a: [1, 2], o: { x: 1, s: "text" }, b: true });
    await eq(j.get("j", "$.o.x", "$.b"), { "$.o.x": [1], "$.b": [true] });
    await eq(j.get("none"), null);
    await eq(j.arrappend("j", "$.a", 3, '"four"'), [4]);
    await eq(j.arrindex("j", "$.a", 3), [2]);
    await eq(j.arrinsert("j", "$.a", 0, 0), [5]);
    await eq(j.arrlen("j", "$.a"), [5]);
    await eq(j.arrpop("j", "$.a"), ["four"]);
    await eq(j.arrtrim("j", "$.a", 1, 2), [2]);
    await eq(j.get("j", "$.a"), [[1, 2]]);
    await eq(j.numincrby("j", "$.o.x", 4), [5]);
    await eq(j.nummultby("j", "$.o.x", 2), [10]);
    await eq(j.objkeys("j", "$.o"), [["x", "s"]]);
    await eq(j.objlen("j", "$.o"), [2]);
    await eq(j.strappend("j", "$.o.s", '"!"'), [5]);
    await eq(j.strlen("j", "$.o.s"), [5]);
    await eq(j.toggle("j", "$.b"), [0]);
    await eq(j.type("j", "$.o"), ["object"]);
    await eq(j.merge("j", "$.o", { x: null, y: 2 }), "OK");
    await eq(j.get("j", "$.o"), [{ s: "text!", y: 2 }]);
    await eq(j.mset({ key: "j1", path: "$", value: { n: 1 } }, { key: "j2", path: "$", value: { n: 2 } }), "OK");
    await eq(j.mget(["j1", "j2", "none"], "$.n"), [[1], [2], null]);
    await eq(j.clear("j", "$.a"), 1);
    await eq(j.resp("j1"), ["{", "n", 1]);
    await eq(j.forget("j", "$.a"), 1);
    await eq(j.del("j"), 1);
    await eq(r.exists("j"), 0);
  },

  async scripts() {
    await eq(r.eval("return {KEYS[1], ARGV[1], 7, false}", ["k"], ["v"]), ["k", "v", 7, null]);
    const sha = await r.scriptLoad("return redis.call('SET', KEYS[1], ARGV[1])");
    await eq(r.scriptExists(sha, "0".repeat(40)), [1, 0]);
    await eq(r.evalsha(sha, ["scripted"], ["x"]), "OK");
    await eq(r.get("scripted"), "x");
    await assert.rejects(r.evalsha("0".repeat(40), [], []), /NOSCRIPT No matching script/);
    await eq(r.evalRo("return redis.call('GET', KEYS[1])", ["scripted"], []), "x");
    await assert.rejects(r.evalRo("return redis.call('DEL', KEYS[1])", ["scripted"], []), /Write commands are not allowed from read-only scripts/);
    const reads = await r.scriptLoad("return redis.call('STRLEN', KEYS[1])");
    await eq(r.evalshaRo(reads, ["scripted"], []), 1);
    await assert.rejects(r.eval("return redis.call('INCR', KEYS[1])", ["scripted"], []), /not an integer/);
    await assert.rejects(r.eval("this is not lua", [], []), /ERR Error compiling script/);
    const script = real.createScript("return ARGV[1] .. 'unique-to-this-run'");
    await eq(script.exec([], ["a "]), "a unique-to-this-run");
    await eq(script.exec([], ["b "]), "b unique-to-this-run");
    await eq(r.scriptFlush(), "OK");
    await eq(r.scriptExists(sha), [0]);
    await eq(script.exec([], ["c "]), "c unique-to-this-run");
  },

  async functions() {
    const f = r.functions;
    const code = `#!lua name=mylib
redis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function{function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}`;
    await eq(f.load({ code }), "mylib");
    await assert.rejects(f.load({ code }), /Library 'mylib' already exists/);
    await eq(f.load({ code, replace: true }), "mylib");
    await eq(f.call("put", ["fk"], ["fv"]), "OK");
    await eq(f.callRo("look", ["fk"]), "fv");
    await assert.rejects(f.callRo("put", ["fk"], ["fw"]), /not allowed from read-only|with write flag/);
    const [library] = await f.list({ libraryName: "mylib", withCode: true });
    assert.equal(library.libraryName, "mylib");
    assert.deepEqual(library.functions.map((one) => one.name).sort(), ["look", "put"]);
    assert.equal(library.libraryCode, code);
    await eq(f.stats(), { engines: { LUA: { librariesCount: 1, functionsCount: 2 } } });
    await eq(f.delete("mylib"), "OK");
    await assert.rejects(f.call("put", ["fk"], ["x"]), /Function not found/);
    await eq(f.flush(), "OK");
    await eq(f.list(), []);
  },

  async server() {
    await eq(r.ping(), "PONG");
    await eq(r.ping(["hello"]), "hello");
    await eq(r.echo("grüße 😀"), "grüße 😀");
    await near((await r.time())[0], now() + 1);
    await eq(r.publish("nobody", { x: 1 }), 0);
    await assert.rejects(real.clientSetinfo("LIB-NAME", "x"), /./);
  },

  // What no case has called: a method that a new version brings, or one that was forgotten.
  async "every method was called"() {
    const methods = (object) => Object.keys(object).filter((name) => typeof object[name] === "function");
    const all = [
      ...methods(real),
      ...methods(real.json).map((name) => `json.${name}`),
      ...methods(real.functions).map((name) => `functions.${name}`),
      ...Object.getOwnPropertyNames(Object.getPrototypeOf(real)).filter((name) => !["constructor", "json", "functions"].includes(name)),
    ];
    assert.ok(all.length > 190, `${all.length} methods`);
    const left = all.filter((name) => !called.has(name) && !Object.values(NOT_THERE).some((names) => names.test(name)));
    assert.deepEqual(left, []);
  },
};

run(cases);

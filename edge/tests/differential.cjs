// The same random commands to the server and to the worker: the replies are compared. The server itself is compared with Redis and Valkey.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { Edge, TOKEN, inDirectory, until } = require("./harness.cjs");

const SERVER = path.join(__dirname, "..", "..", "target", "debug", "keystead");
const PER_REQUEST = 25;
const REQUESTS = Number(process.env.KEYSTEAD_EDGE_REQUESTS ?? 160);

// A small generator with a seed, so that a failure can be repeated.
function generator(seed) {
  let state = BigInt(seed);
  return (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(below));
  };
}

const pick = (random, all) => all[random(all.length)];

// Templates: k a key of the family, e an element, n a number, s a score, i an index, o one of the options behind it.
const FAMILIES = {
  str: ["SET k v", "SET k v KEEPTTL", "SET k v EXAT 4102444800", "SET k v NX", "SET k v XX GET", "GET k", "GETSET k v", "APPEND k v", "INCR k", "INCRBY k n", "DECR k", "INCRBYFLOAT k s", "STRLEN k", "GETRANGE k i i", "SETRANGE k n v", "MSET k v k v", "MGET k k", "GETDEL k", "GETEX k PERSIST", "SETBIT k n 1", "BITCOUNT k", "GETBIT k n", "BITPOS k 1", "SETNX k v", "LCS k k LEN"],
  hash: ["HSET k e v e v", "HGET k e", "HDEL k e e", "HGETALL k", "HINCRBY k e n", "HINCRBYFLOAT k e s", "HLEN k", "HKEYS k", "HVALS k", "HMGET k e e", "HEXISTS k e", "HSETNX k e v", "HSTRLEN k e", "HEXPIREAT k 4102444800 FIELDS 1 e", "HEXPIRETIME k FIELDS 1 e", "HPERSIST k FIELDS 1 e"],
  list: ["LPUSH k e e", "RPUSH k e", "LPOP k", "RPOP k n", "LRANGE k i i", "LINDEX k i", "LSET k i e", "LINSERT k BEFORE e e", "LREM k i e", "LTRIM k i i", "LLEN k", "LMOVE k k LEFT RIGHT", "RPOPLPUSH k k", "LPOS k e", "LPUSHX k e"],
  set: ["SADD k e e", "SREM k e", "SMEMBERS k", "SCARD k", "SISMEMBER k e", "SMISMEMBER k e e", "SINTER k k", "SUNION k k", "SDIFF k k", "SINTERSTORE k k k", "SUNIONSTORE k k k", "SMOVE k k e", "SINTERCARD 2 k k"],
  zset: ["ZADD k s e s e", "ZADD k NX s e", "ZADD k GT CH s e", "ZINCRBY k s e", "ZREM k e", "ZRANGE k i i WITHSCORES", "ZRANGE k i i REV", "ZRANGEBYSCORE k -inf s WITHSCORES", "ZCARD k", "ZCOUNT k -inf s", "ZSCORE k e", "ZMSCORE k e e", "ZRANK k e", "ZREVRANK k e", "ZPOPMIN k", "ZPOPMAX k n", "ZUNIONSTORE k 2 k k", "ZINTERSTORE k 2 k k", "ZREMRANGEBYRANK k i i", "ZRANGESTORE k k 0 -1", "ZLEXCOUNT k - +"],
  stream: ["XADD k * f v", "XLEN k", "XRANGE k - +", "XREVRANGE k + -", "XTRIM k MAXLEN n", "XGROUP CREATE k e 0", "XREADGROUP GROUP e e COUNT 2 STREAMS k >", "XPENDING k e", "XACK k e 1-1", "XDEL k 1-1", "XINFO STREAM k"],
};
const GENERIC = ["DEL k", "EXISTS k k", "TYPE k", "RENAME k k", "COPY k k REPLACE", "EXPIREAT k 4102444800", "EXPIREAT k 1", "EXPIRETIME k", "PERSIST k", "OBJECT ENCODING k", "DBSIZE", "KEYS *", "TOUCH k", "SORT k ALPHA"];
const SCRIPTS = [
  ["EVAL", "local n = redis.call('incr', KEYS[1]) redis.call('rpush', KEYS[2], n) return {n, redis.call('llen', KEYS[2])}", "2"],
  ["EVAL", "redis.call('set', KEYS[1], 'x') redis.call('del', KEYS[2]) return redis.call('get', KEYS[1]) .. cjson.encode({1, 2.5})", "2"],
  ["EVAL", "redis.call('zadd', KEYS[1], 1.5, 'm') return redis.call('zscore', KEYS[1], 'm')", "2"],
];
const UNORDERED = new Set(["HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS"]);

function command(random, serial) {
  const family = pick(random, Object.keys(FAMILIES));
  // Now and then the key of another family, for errors of types.
  const key = () => `${random(12) === 0 ? pick(random, Object.keys(FAMILIES)) : family}:${random(4)}`;
  if (random(25) === 0) return [...pick(random, SCRIPTS), key(), key()];
  const words = (random(6) === 0 ? pick(random, GENERIC) : pick(random, FAMILIES[family])).split(" ");
  const word = {
    k: key,
    e: () => `e${random(6)}`,
    v: () => pick(random, ["", "1", "17", "text", "a longer text that is not inline ".repeat(2), "3.25", "9007199254740993", "\u00e9\u0000"]),
    n: () => String(random(20)),
    s: () => pick(random, ["1", "2.5", "-3", "0.1", "-0", "1e10"]),
    i: () => String(random(7) - 3),
    "*": () => (words[0] === "XADD" ? `${serial}-1` : "*"),
  };
  return words.map((one, n) => (n > 0 && one in word ? word[one]() : one));
}

function shown(commands, replies) {
  return replies.map((reply, n) => {
    const unordered = UNORDERED.has(commands[n][0]) && Array.isArray(reply.result);
    return JSON.stringify(unordered ? [...reply.result].sort() : reply);
  });
}

async function serverAt(directory) {
  const port = await new Promise((resolve) => {
    const listener = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
  const child = spawn(SERVER, ["serve", "--http", `127.0.0.1:${port}`, "--data", directory, "--durability", "memory", "--shards", "1"], {
    env: { ...process.env, KEYSTEAD_TOKEN: TOKEN, KEYSTEAD_RESP: "off" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  const url = `http://127.0.0.1:${port}`;
  await until(`the server is ready: ${said}`, () => fetch(`${url}/readyz`).then((response) => response.ok, () => child.exitCode !== null));
  assert.equal(child.exitCode, null, said);
  return { url, stop: () => child.kill() };
}

module.exports = {
  "differential::the worker replies as the server does": () =>
    fs.existsSync(SERVER)
      ? inDirectory((rows) =>
          inDirectory(async (data) => {
            const seed = Number(process.env.KEYSTEAD_SEED ?? Date.now() % 1_000_000);
            const random = generator(seed);
            const server = await serverAt(data);
            let edge = await Edge.start({ directory: rows });
            const ask = async (url, target, commands) => {
              const headers = { authorization: `Bearer ${TOKEN}` };
              const response = await fetch(url + target, { method: "POST", headers, body: JSON.stringify(commands) });
              return response.json();
            };
            let compared = 0;
            try {
              for (let n = 0; n < REQUESTS; n++) {
                const commands = Array.from({ length: PER_REQUEST }, (_, m) => command(random, n * PER_REQUEST + m + 1));
                const target = random(4) === 0 ? "/multi-exec" : "/pipeline";
                const [wanted, found] = [await ask(server.url, target, commands), await ask(edge.url, target, commands)];
                assert.equal(Array.isArray(found), Array.isArray(wanted), JSON.stringify([found, wanted]));
                const [these, those] = Array.isArray(wanted) ? [shown(commands, found), shown(commands, wanted)] : [[JSON.stringify(found)], [JSON.stringify(wanted)]];
                these.forEach((one, m) => assert.equal(one, those[m], `KEYSTEAD_SEED=${seed}, request ${n}: ${JSON.stringify(commands[m])}`));
                compared += these.length;
                // Everything is read from rows again.
                if (n % 40 === 39) edge = await edge.restart();
              }
            } finally {
              await edge.stop();
              server.stop();
            }
            console.log(`${compared} commands compared with the server, seed ${seed}`);
          }),
        )
      : "the server is not built (cargo build)",
};

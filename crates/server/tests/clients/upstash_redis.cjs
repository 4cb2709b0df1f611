// @upstash/redis and the Upstash-compatible REST API: pipelines, transactions, encodings, numbers, errors, tokens, messages.
const assert = require("node:assert/strict");
const { Redis, errors } = require("@upstash/redis");
const { url, token, readOnlyToken, differs, until, run } = require("./upstash.cjs");

const redis = new Redis({ url, token });
const plain = new Redis({ url, token, responseEncoding: false });
const raw = new Redis({ url, token, automaticDeserialization: false });
const unbatched = new Redis({ url, token, enableAutoPipelining: false });

// What was sent over HTTP meanwhile: method, path and body.
async function sent(act) {
  const real = globalThis.fetch;
  const requests = [];
  globalThis.fetch = (target, options) => {
    requests.push({ path: new URL(target).pathname, body: options.body ? JSON.parse(options.body) : null, headers: new Headers(options.headers) });
    return real(target, options);
  };
  try {
    await act();
  } finally {
    globalThis.fetch = real;
  }
  return requests;
}

const listeners = async (channel) => (await raw.eval("return redis.call('PUBSUB', 'NUMSUB', ARGV[1])", [], [channel]))[1];

const cases = {
  async "hundreds of concurrent calls become few requests and keep their results"() {
    const requests = await sent(async () => {
      await Promise.all(Array.from({ length: 500 }, (_, n) => redis.set(`auto:${n}`, `value ${n}`)));
      const values = await Promise.all(Array.from({ length: 500 }, (_, n) => redis.get(`auto:${n}`)));
      assert.deepEqual(values, Array.from({ length: 500 }, (_, n) => `value ${n}`));
      const counts = await Promise.all(Array.from({ length: 300 }, () => redis.incr("auto:count")));
      assert.deepEqual(counts, Array.from({ length: 300 }, (_, n) => n + 1));
    });
    assert.ok(requests.length < 10, `${requests.length} requests`);
    assert.ok(requests.every((request) => request.path === "/pipeline"));
  },

  async "a rejected call among concurrent ones fails alone"() {
    await redis.set("text", "x");
    const ends = await Promise.allSettled([redis.set("fine", 1), redis.incr("text"), redis.get("fine"), redis.lpush("text", 1), redis.incr("fine")]);
    assert.deepEqual(ends.map((end) => end.status), ["fulfilled", "rejected", "fulfilled", "rejected", "fulfilled"]);
    assert.match(ends[1].reason.message, /ERR value is not an integer or out of range/);
    assert.match(ends[3].reason.message, /WRONGTYPE/);
    assert.equal(await redis.get("fine"), 2);
  },

  async "without batching each call is a request"() {
    const requests = await sent(async () => {
      assert.equal(await unbatched.set("single", "v"), "OK");
      assert.equal(await unbatched.get("single"), "v");
    });
    assert.deepEqual(requests.map(({ path, body }) => [path, body]), [["/", ["set", "single", "v"]], ["/", ["get", "single"]]]);
  },

  async "results of a pipeline are in order, with errors among them on request"() {
    const p = redis.pipeline().set("p", 1).incr("p").get("p").hset("ph", { a: 1 }).hgetall("ph").zadd("pz", { score: 1.5, member: "m" }).zscore("pz", "m");
    assert.deepEqual(await p.exec(), ["OK", 2, 2, 1, { a: 1 }, 1, 1.5]);
    const broken = () => redis.pipeline().set("p", "x").incr("p").get("p");
    await assert.rejects(broken().exec(), /Command 2 \[ incr \] failed: ERR value is not an integer or out of range/);
    const kept = await broken().exec({ keepErrors: true });
    assert.deepEqual(kept.map((item) => item.result), ["OK", undefined, "x"]);
    assert.equal(kept[1].error, "ERR value is not an integer or out of range");
    const long = redis.pipeline();
    for (let n = 0; n < 1000; n++) long.rpush("plist", n);
    assert.deepEqual(await long.exec(), Array.from({ length: 1000 }, (_, n) => n + 1));
    assert.deepEqual((await redis.lrange("plist", 0, -1)).slice(-2), [998, 999]);
  },

  async "transactions run whole or not at all"() {
    const requests = await sent(async () => {
      assert.deepEqual(await redis.multi().set("m", 1).incr("m").get("m").exec(), ["OK", 2, 2]);
    });
    assert.deepEqual(requests.map((request) => request.path), ["/multi-exec"]);
    // An error while it runs is its own; the others are done.
    const kept = await redis.multi().set("m", "x").incr("m").set("m", "y").exec({ keepErrors: true });
    assert.equal(kept[1].error, "ERR value is not an integer or out of range");
    assert.equal(await redis.get("m"), "y");
    // What cannot be queued discards all of it, and is one error with words.
    const bad = redis.multi().set("m", "z").hset("mh", {});
    await assert.rejects(bad.exec(), /UpstashError: ERR wrong number of arguments for 'hset' command/);
    assert.equal(await redis.get("m"), "y");
    const sums = await Promise.all(Array.from({ length: 40 }, () => redis.multi().incr("a").incr("b").exec()));
    assert.ok(sums.every(([a, b]) => a === b));
    assert.deepEqual(await redis.mget("a", "b"), [40, 40]);
  },

  async "values of every kind come back as they were, in base64 and in plain JSON"() {
    const values = ["", "text", "grüße 😀", "OK", "PONG", "T0s=", "a\r\nb\u0000c\"\\", { deep: { x: [1, null, true] } }, [1, "2", [3]], true, false, 0, -1.5, 1e21, "x".repeat(100_000)];
    for (const client of [redis, plain, unbatched]) {
      for (const value of values) {
        assert.equal(await client.set("value", value), "OK");
        assert.deepEqual(await client.get("value"), value);
        await client.del("list");
        await client.rpush("list", value, value);
        assert.deepEqual(await client.lrange("list", 0, -1), [value, value]);
        // The SDK leaves numbers that are not safe integers alone when they are in a hash.
        await client.hset("vh", { f: value });
        const field = typeof value === "number" && !Number.isSafeInteger(value) ? String(value) : value;
        assert.deepEqual(await client.hgetall("vh"), { f: field });
      }
    }
    const key = "ключ/🔑 with space?&#%";
    await redis.set(key, 1);
    assert.deepEqual([await plain.get(key), await redis.exists(key), await redis.del(key)], [1, 1, 1]);
  },

  async "bytes that are no text survive"() {
    // The SDK itself speaks text; bytes come in as the body of a path, and leave in base64.
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
    const headers = { authorization: `Bearer ${token}` };
    const set = await fetch(`${url}/set/bytes`, { method: "POST", body: bytes, headers });
    assert.deepEqual(await set.json(), { result: "OK" });
    const got = await fetch(`${url}/get/bytes`, { headers: { ...headers, "Upstash-Encoding": "base64" } });
    assert.deepEqual(Buffer.from((await got.json()).result, "base64"), bytes);
    assert.equal(await redis.strlen("bytes"), 256);
    assert.equal(await redis.bitcount("bytes", 0, -1), 1024);
    // The copy is made by the server, so it is the same to the bit.
    await redis.copy("bytes", "same");
    assert.equal(await redis.bitop("xor", "difference", "bytes", "same"), 256);
    assert.equal(await redis.bitcount("difference", 0, -1), 0);
  },

  async "64-bit integers are not mangled"() {
    const large = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "101600000000150081467"];
    for (const text of large) {
      await raw.set("large", text);
      assert.equal(await raw.get("large"), text);
      await raw.hset("lh", { f: text });
      assert.equal(await raw.hget("lh", "f"), text);
      assert.deepEqual(await raw.mget("large"), [text]);
    }
    await raw.set("large", "9223372036854775806");
    const response = await fetch(`${url}/incr/large`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(await response.text(), '{"result":9223372036854775807}');
    await assert.rejects(raw.incr("large"), /ERR increment or decrement would overflow/);
    // A number in the body keeps its digits.
    const body = '["SET","large",9007199254740993]';
    await fetch(url, { method: "POST", body, headers: { authorization: `Bearer ${token}` } });
    assert.equal(await raw.get("large"), "9007199254740993");
  },

  async "errors are UpstashErrors with Redis's words, and are not tried again"() {
    const requests = await sent(async () => {
      await redis.set("text", "x");
      for (const [call, words] of [
        [() => unbatched.incr("text"), "ERR value is not an integer or out of range"],
        [() => unbatched.lpush("text", 1), "WRONGTYPE Operation against a key holding the wrong kind of value"],
        [() => unbatched.exec(["NOSUCH", "x"]), "ERR unknown command 'NOSUCH', with args beginning with: 'x' "],
        [() => unbatched.exec(["GET"]), "ERR wrong number of arguments for 'get' command"],
        [() => unbatched.exec(["BLPOP", "l", 0]), "ERR Command is not available: 'BLPOP'"],
      ]) {
        await assert.rejects(call(), (error) => error instanceof errors.UpstashError && error.message.startsWith(words));
      }
    });
    assert.equal(requests.length, 6, "each was sent once");
    const stranger = new Redis({ url, token: "wrong" });
    const tries = await sent(() => assert.rejects(stranger.get("text"), (error) => error instanceof errors.UpstashError && /WRONGPASS invalid or missing auth token/.test(error.message)));
    assert.equal(tries.length, 1);
  },

  async "a token that only reads reads"() {
    const reader = new Redis({ url, token: readOnlyToken });
    await redis.set("seen", "v");
    assert.equal(await reader.get("seen"), "v");
    assert.deepEqual(await reader.mget("seen", "none"), ["v", null]);
    for (const call of [() => reader.set("seen", "w"), () => reader.del("seen"), () => reader.keys("*"), () => reader.scan(0), () => reader.flushall(), () => reader.eval("return 1", [], [])]) {
      await assert.rejects(call(), /NOPERM this user has no permissions to run the '.*' command/);
    }
    assert.equal(await redis.get("seen"), "v");
  },

  async "every response has another sync token, which the next request sends"() {
    const client = new Redis({ url, token, enableAutoPipelining: false });
    const seen = new Set();
    const requests = await sent(async () => {
      for (let n = 0; n < 5; n++) {
        await client.set("sync", n);
        assert.equal(await client.get("sync"), n);
        seen.add(client.readYourWritesSyncToken);
      }
      await Promise.all([1, 2, 3].map(async (n) => {
        await client.set("sync", n);
        seen.add(client.readYourWritesSyncToken);
      }));
      await client.pipeline().get("sync").exec();
      seen.add(client.readYourWritesSyncToken);
      await client.multi().get("sync").exec();
      seen.add(client.readYourWritesSyncToken);
      await client.eval("return 1", [], []);
      seen.add(client.readYourWritesSyncToken);
    });
    assert.ok(seen.size >= 9 && !seen.has("") && !seen.has(undefined), [...seen].join());
    const tokens = requests.map((request) => request.headers.get("upstash-sync-token"));
    assert.equal(tokens[0], "");
    assert.ok(tokens.slice(1).every((token) => token !== "" && token !== null));
  },

  async "messages arrive, and nothing is left when a listener goes"() {
    const subscription = redis.subscribe(["news", "more"]);
    const messages = [];
    const subscribed = [];
    subscription.on("subscribe", (count) => subscribed.push(count));
    subscription.on("message", (message) => messages.push(message));
    subscription.on("message:news", (message) => messages.push(message));
    await until("both channels are listened to", async () => (await listeners("news")) === 1 && (await listeners("more")) === 1);
    assert.equal(await redis.publish("news", { x: [1, "a,b"] }), 1);
    assert.equal(await redis.publish("more", "plain, with commas"), 1);
    await until("the messages are there", () => messages.length === 3);
    assert.deepEqual(messages[0], { channel: "news", message: { x: [1, "a,b"] } });
    assert.deepEqual(messages.at(-1), { channel: "more", message: "plain, with commas" });
    assert.deepEqual(subscription.getSubscribedChannels().sort(), ["more", "news"]);
    await subscription.unsubscribe(["more"]);
    const isLate = differs("a subscriber that goes away");
    if (!isLate) await until("one channel is left", async () => (await listeners("more")) === 0);
    assert.equal(await listeners("news"), 1);
    await redis.publish("more", "nobody hears");
    assert.equal(await redis.publish("news", "still heard"), 1);
    await until("one of them is heard", () => messages.length >= 5);
    assert.deepEqual(messages.slice(3), Array(2).fill({ channel: "news", message: "still heard" }));
    await subscription.unsubscribe();
    if (!isLate) await until("no channel is left", async () => (await listeners("news")) === 0);
    const count = await redis.publish("news", "nobody hears");
    assert.ok(isLate || count === 0, `${count}`);
    assert.equal(messages.length, 5);
  },

  async "messages of a pattern name their channel"() {
    const subscription = redis.psubscribe(["user:*"]);
    const messages = [];
    subscription.on("pmessage", (message) => messages.push(message));
    const patterns = () => raw.eval("return redis.call('PUBSUB', 'NUMPAT')", [], []);
    await until("the pattern is listened to", async () => (await patterns()) === 1);
    assert.equal(await redis.publish("user:7", { id: 7 }), 1);
    assert.equal(await redis.publish("other", "x"), 0);
    await until("the message is there", () => messages.length === 1);
    assert.deepEqual(messages, [{ pattern: "user:*", channel: "user:7", message: { id: 7 } }]);
    await subscription.unsubscribe();
    if (!differs("a subscriber that goes away")) await until("no pattern is left", async () => (await patterns()) === 0);
  },

  async "many listeners hear many messages in order"() {
    const all = Array.from({ length: 10 }, () => {
      const heard = [];
      const subscription = redis.subscribe("busy");
      subscription.on("message", ({ message }) => heard.push(message));
      return { subscription, heard };
    });
    await until("all listen", async () => (await listeners("busy")) === 10);
    const counts = await Promise.all(Array.from({ length: 200 }, (_, n) => redis.publish("busy", n)));
    assert.ok(counts.every((count) => count === 10));
    await until("all have heard all", () => all.every(({ heard }) => heard.length === 200));
    all.forEach(({ heard }) => assert.deepEqual(heard, Array.from({ length: 200 }, (_, n) => n)));
    await Promise.all(all.map(({ subscription }) => subscription.unsubscribe()));
    if (!differs("a subscriber that goes away")) await until("all went", async () => (await listeners("busy")) === 0);
  },
};

run(cases);

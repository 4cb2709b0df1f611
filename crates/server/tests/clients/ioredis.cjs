// ioredis, as a program uses it: values, pipelines, transactions, blocking, messages, streams, scans.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function main() {
  const url = process.argv[2];
  const redis = new Redis(url);
  await redis.flushall();

  assert.equal(await redis.set("text", "grüße", "EX", 100), "OK");
  assert.equal(await redis.get("text"), "grüße");
  assert.equal(await redis.get("nothing"), null);
  assert.ok((await redis.ttl("text")) > 90);
  assert.deepEqual(await redis.getBuffer("text"), Buffer.from("grüße"));
  const binary = Buffer.from([0, 255, 13, 10, 36]);
  await redis.set(binary, binary);
  assert.deepEqual(await redis.getBuffer(binary), binary);

  await redis.hset("hash", { a: 1, b: "two" });
  assert.deepEqual(await redis.hgetall("hash"), { a: "1", b: "two" });
  await redis.zadd("zset", 1.5, "x", 0.5, "y");
  assert.deepEqual(await redis.zrange("zset", 0, -1, "WITHSCORES"), ["y", "0.5", "x", "1.5"]);
  await redis.sadd("set", "m", "n");
  assert.deepEqual((await redis.smembers("set")).sort(), ["m", "n"]);

  const replies = await redis.pipeline().set("p", 1).incr("p").get("p").lpush("p", "x").exec();
  assert.deepEqual(replies.slice(0, 3), [[null, "OK"], [null, 2], [null, "2"]]);
  assert.match(replies[3][0].message, /^WRONGTYPE/);

  const done = await redis.multi().incr("count").incr("count").exec();
  assert.deepEqual(done, [[null, 1], [null, 2]]);
  await redis.watch("count");
  const other = redis.duplicate();
  await other.incr("count");
  assert.equal(await redis.multi().incr("count").exec(), null);

  const waiting = other.blpop("queue", 5);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await redis.rpush("queue", "job");
  assert.deepEqual(await waiting, ["queue", "job"]);

  const listener = redis.duplicate();
  const messages = [];
  listener.on("message", (channel, message) => messages.push([channel, message]));
  listener.on("pmessage", (pattern, channel, message) => messages.push([pattern, channel, message]));
  await listener.subscribe("news");
  await listener.psubscribe("n*");
  assert.equal(await redis.publish("news", "hello"), 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(messages, [["news", "hello"], ["n*", "news", "hello"]]);

  const id = await redis.xadd("stream", "*", "field", "value");
  await redis.xgroup("CREATE", "stream", "group", "0");
  const read = await redis.xreadgroup("GROUP", "group", "me", "COUNT", 1, "STREAMS", "stream", ">");
  assert.deepEqual(read, [["stream", [[id, ["field", "value"]]]]]);
  assert.equal(await redis.xack("stream", "group", id), 1);

  for (let n = 0; n < 500; n++) redis.set(`many:${n}`, n);
  const seen = new Set();
  for await (const keys of redis.scanStream({ match: "many:*", count: 50 })) keys.forEach((key) => seen.add(key));
  assert.equal(seen.size, 500);

  await assert.rejects(redis.call("NOSUCH"), /ERR unknown command/);
  assert.match(await redis.info(), /redis_version:/);
  for (const client of [redis, other, listener]) await client.quit();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

// ioredis as for one server, with the argument PORT.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function main() {
  const port = Number(process.argv[2]);
  const client = new Redis({ host: "127.0.0.1", port });
  const keys = Array.from({ length: 200 }, (_, n) => `key:${n}`);
  const values = keys.map((_, n) => `value:${n}`);
  await Promise.all(keys.map((key, n) => client.set(key, `value:${n}`)));
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), values);
  assert.deepEqual(await client.mget(keys), values);
  assert.equal(await client.dbsize(), 200);
  const found = [];
  for await (const page of client.scanStream({ match: "key:*", count: 7 })) found.push(...page);
  assert.deepEqual(found.sort(), keys.slice().sort());
  const pipeline = client.pipeline();
  keys.forEach((key) => pipeline.get(key));
  assert.deepEqual((await pipeline.exec()).map(([, value]) => value), values);
  const done = await client.multi().set("{t}a", 1).incr("{t}a").del("{t}a").exec();
  assert.deepEqual(done, [[null, "OK"], [null, 2], [null, 1]]);
  client.defineCommand("twice", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], 2)" });
  for (let n = 0; n < 20; n++) assert.equal(await client.twice(`s${n}`), 2);
  await assert.rejects(client.mset("a", 1, "b", 2), /CROSSSLOT/);
  const subscriber = client.duplicate();
  const message = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await subscriber.subscribe("channel");
  await client.publish("channel", "hello");
  assert.deepEqual(await message, ["channel", "hello"]);
  const waiting = client.duplicate();
  const popped = waiting.blpop("list", 5);
  await client.rpush("list", "x");
  assert.deepEqual(await popped, ["list", "x"]);
  assert.equal(await client.del(...keys), 200);
  [client, subscriber, waiting].forEach((each) => each.disconnect());
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

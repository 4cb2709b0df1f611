// node-redis, in RESP2 and RESP3, as a program uses it.
const assert = require("node:assert/strict");
const { createClient } = require("redis");

async function run(url, RESP) {
  const client = await createClient({ url, RESP }).connect();
  await client.flushAll();
  assert.equal(await client.set("text", "grüße", { expiration: { type: "EX", value: 100 } }), "OK");
  assert.equal(await client.get("text"), "grüße");
  assert.equal(await client.get("nothing"), null);
  await client.hSet("hash", { a: "1", b: "two" });
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { a: "1", b: "two" });
  await client.zAdd("zset", [{ score: 1.5, value: "x" }, { score: 0.5, value: "y" }]);
  assert.deepEqual(
    (await client.zRangeWithScores("zset", 0, -1)).map(({ value, score }) => [value, score]),
    [["y", 0.5], ["x", 1.5]],
  );
  await client.geoAdd("geo", { longitude: 13.361389, latitude: 38.115556, member: "Palermo" });
  assert.ok((await client.geoDist("geo", "Palermo", "Palermo")) < 0.001);
  assert.deepEqual(await client.multi().incr("n").incr("n").get("n").exec(), [1, 2, "2"]);

  const other = await client.duplicate().connect();
  await client.watch("n");
  await other.incr("n");
  await assert.rejects(client.multi().incr("n").exec(), /watched/i);
  const waiting = other.blPop("queue", 5);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await client.rPush("queue", "job");
  assert.deepEqual({ ...(await waiting) }, { key: "queue", element: "job" });

  const listener = await client.duplicate().connect();
  const messages = [];
  await listener.subscribe("news", (message, channel) => messages.push([channel, message]));
  await listener.pSubscribe("n*", (message, channel) => messages.push([channel, message]));
  assert.equal(await client.publish("news", "hello"), 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(messages, [["news", "hello"], ["news", "hello"]]);
  await listener.unsubscribe();
  await listener.pUnsubscribe();

  const id = await client.xAdd("stream", "*", { field: "value" });
  const [{ name, messages: entries }] = await client.xRead({ key: "stream", id: "0" }, { COUNT: 10 });
  assert.deepEqual([name, entries[0].id, { ...entries[0].message }], ["stream", id, { field: "value" }]);
  await client.hExpire("hash", "a", 100);
  assert.ok((await client.hTTL("hash", "a"))[0] > 90);

  const seen = new Set();
  for (let n = 0; n < 300; n++) await client.set(`many:${n}`, "x");
  for await (const keys of client.scanIterator({ MATCH: "many:*", COUNT: 50 })) [].concat(keys).forEach((k) => seen.add(k));
  assert.equal(seen.size, 300);
  await assert.rejects(client.sendCommand(["NOSUCH"]), /ERR unknown command/);
  for (const each of [listener, other, client]) await each.close();
}

(async () => {
  for (const RESP of [2, 3]) await run(process.argv[2], RESP);
  console.log("ok");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

// ioredis Cluster, with the arguments PORT KEYS. It finds the other nodes and routes by itself.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function main() {
  const [port, count] = process.argv.slice(2).map(Number);
  const cluster = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  const keys = Array.from({ length: count }, (_, n) => `key:${n}`);
  await Promise.all(keys.map((key, n) => cluster.set(key, `value:${n}`)));
  const values = await Promise.all(keys.map((key) => cluster.get(key)));
  assert.deepEqual(values, keys.map((_, n) => `value:${n}`));
  assert.equal(cluster.nodes("master").length, 3);

  const done = await cluster.multi().set("{t}a", 1).incr("{t}a").del("{t}a").exec();
  assert.deepEqual(done, [[null, "OK"], [null, 2], [null, 1]]);
  assert.equal(await cluster.eval("return redis.call('get', KEYS[1])", 1, "key:7"), "value:7");
  await assert.rejects(cluster.mget("key:1", "key:2"), /CROSSSLOT/);
  cluster.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

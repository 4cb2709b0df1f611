// ioredis Cluster with its defaults, with the arguments PORT COUNTERS: increments counters until its input ends, and fails at any error.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

async function main() {
  const [port, count] = process.argv.slice(2).map(Number);
  const cluster = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  const values = Array(count).fill(0);
  let stops = false;
  process.stdin.resume().on("end", () => { stops = true; });
  const increment = async (_, n) => {
    assert.equal(await cluster.incr(`ioredis:${n}`), values[n] + 1);
    values[n] += 1;
  };
  await Promise.all(values.map(increment));
  console.log("started");
  while (!stops) {
    await Promise.all(values.map(increment));
    const [n] = values.keys();
    const done = await cluster.multi().incr(`ioredis:${n}`).get(`ioredis:${n}`).exec();
    values[n] += 1;
    assert.deepEqual(done, [[null, values[n]], [null, `${values[n]}`]]);
  }
  for (const [n, value] of values.entries()) {
    assert.equal(await cluster.get(`ioredis:${n}`), `${value}`);
  }
  const sum = values.reduce((sum, value) => sum + value, 0);
  cluster.disconnect();
  console.log(sum);
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

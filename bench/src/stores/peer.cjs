// Measures rate-limiter-flexible: KIND PORT PASSWORD IN_FLIGHT KEYS MILLISECONDS. Prints checks a second and p50, p99, p99.9 in ms.
const { RateLimiterRedis, RateLimiterPostgres } = require('rate-limiter-flexible');

const [kind, port, password, inFlight, keys, ms] =
  process.argv.slice(1).map((word, i) => (i < 3 ? word : Number(word)));
const limit = { points: 1e9, duration: 86400, keyPrefix: 'peer' };

async function open() {
  if (kind === 'redis') {
    const Redis = require('ioredis');
    const client = new Redis(Number(port), '127.0.0.1', { enableAutoPipelining: true });
    return [new RateLimiterRedis({ ...limit, storeClient: client }), () => client.disconnect()];
  }
  const { Pool } = require('pg');
  const pool = new Pool({ host: '127.0.0.1', port: Number(port), user: 'postgres', password, database: 'postgres', max: 16 });
  const limiter = await new Promise((resolve, reject) => {
    const made = new RateLimiterPostgres({ ...limit, storeClient: pool, tableName: 'peer', clearExpiredByTimeout: false },
      (error) => (error ? reject(error) : resolve(made)));
  });
  return [limiter, () => pool.end()];
}

(async () => {
  const [limiter, close] = await open();
  const name = (key) => `key-${key}`;
  await Promise.all(Array.from({ length: inFlight }, async (_, worker) => {
    for (let key = worker; key < keys; key += inFlight) await limiter.consume(name(key), 1);
  }));
  const took = [];
  const began = performance.now();
  await Promise.all(Array.from({ length: inFlight }, async () => {
    while (performance.now() - began < ms) {
      const each = performance.now();
      await limiter.consume(name(Math.floor(Math.random() * keys)), 1);
      took.push(performance.now() - each);
    }
  }));
  const seconds = (performance.now() - began) / 1000;
  took.sort((a, b) => a - b);
  const at = (part) => took[Math.min(took.length - 1, Math.floor(took.length * part))];
  console.log(took.length / seconds, at(0.5), at(0.99), at(0.999));
  await close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

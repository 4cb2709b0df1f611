// Upstash's SDK with a router: commands about all keys.
const assert = require('node:assert/strict');
const { Redis } = require('@upstash/redis');

async function scanned(redis, options) {
  let cursor = '0';
  const keys = [];
  do {
    const [next, page] = await redis.scan(cursor, options);
    cursor = String(next);
    keys.push(...page);
  } while (cursor !== '0');
  return keys.sort();
}

async function main() {
  const redis = new Redis({ url: process.argv[2], token: 'unused' });
  const keys = Array.from({ length: 200 }, (_, n) => `key:${n}`).sort();
  await Promise.all(keys.map((key, n) => redis.set(key, n)));
  assert.deepEqual(await scanned(redis, { match: 'key:*', count: 17 }), keys);
  assert.deepEqual((await redis.keys('key:*')).sort(), keys);
  assert.equal(await redis.dbsize(), keys.length);
  assert.equal(await redis.get('key:7'), keys.indexOf('key:7'));
  console.log('ok');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

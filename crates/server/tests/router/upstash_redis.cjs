// Upstash's SDK with a router: commands about all keys, and messages.
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

  for (const [subscriber, event] of [
    [redis.subscribe(['a', 'b', 'c']), 'message'],
    [redis.psubscribe(['?']), 'pmessage'],
  ]) {
    const received = [];
    const all = new Promise((resolve) => {
      subscriber.on(event, ({ channel, message }) => {
        received.push(`${channel} ${JSON.stringify(message)}`);
        if (received.length === 3) resolve();
      });
    });
    await new Promise((resolve) => subscriber.on(event === 'message' ? 'subscribe' : 'psubscribe', resolve));
    for (const channel of ['a', 'b', 'c']) await redis.publish(channel, { n: 1 });
    await all;
    assert.deepEqual(received.sort(), ['a {"n":1}', 'b {"n":1}', 'c {"n":1}']);
    await subscriber.unsubscribe();
  }
  console.log('ok');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

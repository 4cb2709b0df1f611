// @upstash/ratelimit: every algorithm admits exactly what it should, one call after the other and many at a time.
const assert = require("node:assert/strict");
const { Redis } = require("@upstash/redis");
const { Ratelimit } = require("@upstash/ratelimit");
const { url, token, sleep, run } = require("./upstash.cjs");

const client = () => new Redis({ url, token });
const redis = client();

// On several shards a limiter's keys must be on one: its prefix then has a hash tag.
const tagged = process.env.SHARDS !== "1";
let limiters = 0;
const newPrefix = () => (tagged ? `{limiter${limiters++}}` : `limiter${limiters++}`);
// A limiter of its own: no other case uses its keys, and nothing is remembered on this side unless a case asks for it.
const make = (limiter, options = {}) =>
  new Ratelimit({ redis: client(), limiter, prefix: newPrefix(), ephemeralCache: false, analytics: false, ...options });

// Windows of a thousand seconds do not end while a case runs.
const LONG = "1000 s";
const LIMIT = 10;
const ALGORITHMS = {
  fixedWindow: () => Ratelimit.fixedWindow(LIMIT, LONG),
  slidingWindow: () => Ratelimit.slidingWindow(LIMIT, LONG),
  tokenBucket: () => Ratelimit.tokenBucket(LIMIT, LONG, LIMIT),
};

// A reset walks through all keys within a script, which is on one shard.
const NO_RESET = /attempted to access a non local key/;

const admitted = (responses) => responses.filter((response) => response.success).length;
const together = (count, call) => Promise.all(Array.from({ length: count }, (_, n) => call(n)));

const cases = {};

for (const [name, algorithm] of Object.entries(ALGORITHMS)) {
  cases[`${name}: one after the other`] = async () => {
    const limiter = make(algorithm());
    for (let n = 1; n <= LIMIT; n++) {
      const response = await limiter.limit("me");
      assert.deepEqual([response.success, response.limit, response.remaining], [true, LIMIT, LIMIT - n]);
      assert.ok(response.reset > Date.now() && response.reset <= Date.now() + 1_000_000, `${response.reset}`);
      assert.equal((await limiter.getRemaining("me")).remaining, LIMIT - n);
    }
    for (let n = 0; n < 3; n++) {
      const response = await limiter.limit("me");
      assert.deepEqual([response.success, response.remaining], [false, 0]);
    }
    assert.deepEqual([(await limiter.limit("other")).remaining, (await limiter.getRemaining("nobody")).remaining], [LIMIT - 1, LIMIT]);
  };

  cases[`${name}: many at a time`] = async () => {
    const limiter = make(algorithm());
    const responses = await together(100, () => limiter.limit("me"));
    assert.equal(admitted(responses), LIMIT);
    const left = responses.filter((response) => response.success).map((response) => response.remaining);
    assert.deepEqual(left.sort((a, b) => b - a), Array.from({ length: LIMIT }, (_, n) => LIMIT - 1 - n), "each place is given once");
  };

  cases[`${name}: many clients at a time`] = async () => {
    const prefix = newPrefix();
    const each = Array.from({ length: 8 }, () => make(algorithm(), { prefix, redis: new Redis({ url, token, enableAutoPipelining: false }) }));
    const responses = await together(160, (n) => each[n % each.length].limit("me"));
    assert.equal(admitted(responses), LIMIT);
  };

  cases[`${name}: a rate of several`] = async () => {
    const limiter = make(algorithm());
    assert.equal((await limiter.limit("me", { rate: 4 })).remaining, LIMIT - 4);
    assert.equal((await limiter.limit("me", { rate: 6 })).remaining, 0);
    assert.equal((await limiter.limit("me", { rate: 1 })).success, false);
    assert.equal((await limiter.limit("other", { rate: LIMIT })).success, true);
    const back = make(algorithm());
    await back.limit("me", { rate: 5 });
    await back.limit("me", { rate: -3 });
    assert.equal((await back.getRemaining("me")).remaining, LIMIT - 2, "some were given back");
  };

  cases[`${name}: a reset gives all of it back`] = async () => {
    const limiter = make(algorithm());
    await together(20, () => limiter.limit("me"));
    await limiter.limit("other");
    assert.equal((await limiter.limit("me")).success, false);
    if (tagged) return assert.rejects(limiter.resetUsedTokens("me"), NO_RESET);
    await limiter.resetUsedTokens("me");
    assert.equal((await limiter.getRemaining("me")).remaining, LIMIT);
    assert.equal((await limiter.limit("me")).remaining, LIMIT - 1);
    assert.equal((await limiter.getRemaining("other")).remaining, LIMIT - 1, "others keep theirs");
  };

  cases[`${name}: a limit that changes`] = async () => {
    const limiter = make(algorithm(), { dynamicLimits: true });
    assert.equal((await limiter.getDynamicLimit()).dynamicLimit, null);
    await limiter.setDynamicLimit({ limit: 3 });
    assert.equal((await limiter.getDynamicLimit()).dynamicLimit, 3);
    const responses = await together(20, () => limiter.limit("me"));
    assert.deepEqual([admitted(responses), responses[0].limit], [3, 3]);
    await limiter.setDynamicLimit({ limit: false });
    assert.equal((await limiter.getRemaining("other")).remaining, LIMIT);
  };
}

Object.assign(cases, {
  async "fixedWindow: the next window starts afresh, and keys go by themselves"() {
    const limiter = make(Ratelimit.fixedWindow(2, "1 s"));
    await sleep(1000 - (Date.now() % 1000) + 20);
    assert.equal(admitted(await together(5, () => limiter.limit("me"))), 2);
    const { reset } = await limiter.limit("me");
    await sleep(reset - Date.now() + 20);
    assert.equal(admitted(await together(5, () => limiter.limit("me"))), 2);
    await sleep(2100);
    assert.deepEqual(await redis.keys(`${limiter.prefix}*`), []);
  },

  async "slidingWindow: the window before weighs on this one"() {
    const limiter = make(Ratelimit.slidingWindow(10, "2 s"));
    await sleep(2000 - (Date.now() % 2000) + 20);
    assert.equal(admitted(await together(30, () => limiter.limit("me"))), 10);
    await sleep(2000 - (Date.now() % 2000) + 1000);
    const admittedNow = admitted(await together(30, () => limiter.limit("me")));
    // Half of the window has passed, so half of the ten before still weigh, give or take the time that it took.
    assert.ok(admittedNow >= 5 && admittedNow <= 8, `${admittedNow}`);
  },

  async "tokenBucket: it fills again at its rate"() {
    const limiter = make(Ratelimit.tokenBucket(2, "1 s", 5));
    assert.equal(admitted(await together(20, () => limiter.limit("me"))), 5);
    await sleep(1050);
    assert.equal(admitted(await together(20, () => limiter.limit("me"))), 2);
    await sleep(2050);
    assert.equal(admitted(await together(20, () => limiter.limit("me"))), 4);
  },

  async "cachedFixedWindow: never more than the limit, and mostly without asking"() {
    const limiter = make(Ratelimit.cachedFixedWindow(LIMIT, LONG), { ephemeralCache: new Map() });
    const responses = [];
    for (let n = 0; n < 20; n++) responses.push(await limiter.limit("me"));
    assert.equal(admitted(responses), LIMIT);
    await Promise.all(responses.map((response) => response.pending));
    const busy = make(Ratelimit.cachedFixedWindow(LIMIT, LONG), { ephemeralCache: new Map() });
    const all = await together(100, () => busy.limit("me"));
    await Promise.all(all.map((response) => response.pending));
    assert.equal(admitted(all), LIMIT);
    assert.equal((await busy.getRemaining("fresh")).remaining, LIMIT);
    if (tagged) return assert.rejects(busy.resetUsedTokens("me"), NO_RESET);
    await busy.resetUsedTokens("me");
    assert.equal((await busy.limit("me")).success, true);
  },

  async "blockUntilReady waits for the next window, and not longer than it may"() {
    const limiter = make(Ratelimit.fixedWindow(3, "1 s"));
    await sleep(1000 - (Date.now() % 1000) + 20);
    const begun = Date.now();
    const responses = await together(6, () => limiter.blockUntilReady("me", 5000));
    assert.equal(admitted(responses), 6);
    assert.ok(Date.now() - begun >= 800 && Date.now() - begun < 4000, `${Date.now() - begun} ms`);
    const slow = make(Ratelimit.fixedWindow(1, LONG));
    await slow.limit("me");
    const denied = await slow.blockUntilReady("me", 300);
    assert.equal(denied.success, false);
    await assert.rejects(slow.blockUntilReady("me", 0), /timeout must be positive/);
  },

  async "with the cache a client that was denied does not ask again"() {
    const limiter = make(Ratelimit.slidingWindow(1, LONG), { ephemeralCache: new Map() });
    assert.equal((await limiter.limit("me")).success, true);
    assert.equal((await limiter.limit("me")).success, false);
    const real = globalThis.fetch;
    let asked = 0;
    globalThis.fetch = (...args) => {
      asked += 1;
      return real(...args);
    };
    try {
      const response = await limiter.limit("me");
      assert.deepEqual([response.success, response.reason, asked], [false, "cacheBlock", 0]);
      assert.equal((await limiter.limit("other")).success, true);
      assert.equal(asked, 1);
    } finally {
      globalThis.fetch = real;
    }
  },

  async "what is on the list is denied"() {
    const limiter = make(Ratelimit.fixedWindow(LIMIT, LONG), { enableProtection: true });
    await redis.sadd(`${limiter.prefix}:denyList:all`, "bad");
    // Disabled, or it would fetch a list of addresses from the internet.
    await redis.set(`${limiter.prefix}:ipDenyListStatus`, "disabled");
    assert.equal((await limiter.limit("good")).success, true);
    const denied = await limiter.limit("me", { country: "bad" });
    assert.deepEqual([denied.success, denied.reason, denied.deniedValue], [false, "denyList", "bad"]);
  },

  async "analytics are recorded"() {
    const limiter = make(Ratelimit.fixedWindow(2, LONG), { analytics: true });
    const responses = await together(3, () => limiter.limit("me"));
    await Promise.all(responses.map((response) => response.pending));
    const [key] = await redis.keys(`${limiter.prefix}:events:*`);
    const counted = await redis.zrange(key, 0, -1, { withScores: true });
    assert.deepEqual([counted[1], counted[3]].sort(), [1, 2], `${counted}`);
  },

  async "scripts that the server has forgotten are sent again"() {
    const limiter = make(Ratelimit.fixedWindow(LIMIT, LONG));
    await limiter.limit("me");
    await redis.scriptFlush();
    assert.equal((await limiter.limit("me")).remaining, LIMIT - 2);
    await redis.scriptFlush();
    assert.equal(admitted(await together(50, () => limiter.limit("me"))), LIMIT - 2);
  },
});

run(cases);

// Rate limits beyond one check, and batches of documents: all or nothing, and as the server does.
const assert = require("node:assert/strict");
const { Edge, inDirectory } = require("./harness.cjs");

const LIMITS = JSON.stringify({
  user: { kind: "gcra", limit: 3, periodMs: 600000 },
  all: { kind: "fixedWindow", limit: 5, windowMs: 600000 },
  tokens: { kind: "fixedWindow", limit: 1000, windowMs: 600000 },
  exports: { kind: "concurrency", limit: 2, leaseMs: 600000 },
});

const onEdge = (check) => () =>
  inDirectory(async (directory) => {
    const held = { edge: await Edge.start({ directory, bindings: { LIMITS } }) };
    try {
      await check(held);
    } finally {
      await held.edge.stop();
    }
  });

const post = (held, target, body, options = {}) => held.edge.ask("POST", target, { body: JSON.stringify(body), ...options });

module.exports = {
  "limits::several policies decide as one, and only what is admitted consumes": onEdge(async (held) => {
    const checks = [{ policy: "user", key: "ada" }, { policy: "all", key: "x", cost: 2 }];
    const first = await post(held, "/limit", { checks });
    assert.equal(first.status, 200);
    assert.deepEqual([first.json.allowed, first.json.policy], [true, "user"]);
    assert.deepEqual(first.json.decisions.map((one) => [one.policy, one.remaining]), [["user", 2], ["all", 3]]);
    await post(held, "/limit", { checks });
    const denied = await post(held, "/limit?status=429", { checks });
    assert.deepEqual([denied.status, denied.json.allowed, denied.json.policy], [429, false, "all"]);
    assert.ok(Number(denied.headers.get("retry-after")) >= 1);
    // The policy that would have admitted it has consumed nothing.
    assert.equal((await held.edge.ask("GET", "/limit/user/ada")).json.remaining, 1);
    assert.equal((await post(held, "/limit", { rule: "any", checks })).json.allowed, true);
    for (const [body, status, words] of [
      [{ checks: [] }, 400, /1 to 64 checks/],
      [{ checks: [{ policy: "none", key: "x" }] }, 404, /no policy 'none'/],
      [{ checks, then: { commands: [["NOPE"]] } }, 400, /unknown command/],
      [{ checks, other: 1 }, 400, /unknown field/],
    ]) {
      const { json, status: found } = await post(held, "/limit", body);
      assert.equal(found, status, JSON.stringify(json));
      assert.match(JSON.stringify(json), words);
    }
    assert.equal((await post(held, "/limit", { checks }, { token: "look" })).status, 403);
  }),

  "limits::a write happens with the decision or not at all": onEdge(async (held) => {
    const body = { checks: [{ policy: "user", key: "eve" }], then: { commands: [["LPUSH", "jobs", "1"], ["LLEN", "jobs"]] } };
    const admitted = await post(held, "/limit", body);
    assert.deepEqual(admitted.json.results, [{ result: 1 }, { result: 1 }]);
    await held.edge.run("SET", "text", "x");
    const failed = await post(held, "/limit", { ...body, then: { commands: [["LPUSH", "jobs", "2"], ["LPUSH", "text", "3"]] } });
    assert.equal(failed.status, 409, failed.text);
    assert.equal((await held.edge.ask("GET", "/limit/user/eve")).json.remaining, 2);
    const operations = [{ op: "put", key: "doc", value: { n: 1 } }];
    assert.equal((await post(held, "/limit", { ...body, then: { operations } })).json.results[0].version, 1);
    await post(held, "/limit", body);
    const denied = await post(held, "/limit", body);
    assert.deepEqual([denied.json.allowed, denied.json.results], [false, undefined]);
    assert.equal(await held.edge.run("LLEN", "jobs"), 2);
    const once = { headers: { "idempotency-key": "k" } };
    const other = { checks: [{ policy: "user", key: "kim" }], then: { commands: [["INCR", "count"]] } };
    const replies = [await post(held, "/limit", other, once), await post(held, "/limit", other, once)];
    assert.equal(replies[0].text, replies[1].text);
    assert.equal(await held.edge.run("GET", "count"), "1");
  }),

  "limits::many keys are checked at one instant": onEdge(async (held) => {
    const keys = [{ key: "a" }, { key: "b", cost: 2 }, { key: "a", cost: 2 }, { key: "a" }];
    const { json } = await post(held, "/limit/user/check", { keys });
    assert.deepEqual(json.decisions.map((one) => one.allowed), [true, true, true, false]);
    assert.equal((await held.edge.ask("GET", "/limit/user/b")).json.remaining, 1);
    assert.equal((await post(held, "/limit/user/check", { keys: Array.from({ length: 10001 }, () => ({ key: "a" })) })).status, 413);
    assert.match((await post(held, "/limit/user/nothing", {})).json.error.message, /no action 'nothing'/);
  }),

  "limits::leases are held until they are released, also by another life of the object": onEdge(async (held) => {
    const acquire = (more = {}) => post(held, "/limit/exports/acquire?status=429", { key: "export", ...more });
    const one = await acquire();
    assert.deepEqual([one.status, one.json.remaining], [200, 1]);
    held.edge = await held.edge.restart();
    const two = await acquire();
    assert.notEqual(two.json.leaseId, one.json.leaseId);
    assert.equal((await acquire()).status, 429);
    assert.equal((await acquire({ leaseId: one.json.leaseId })).status, 200, "a renewal");
    const release = async (leaseId) => (await post(held, "/limit/exports/release", { key: "export", leaseId })).json;
    assert.deepEqual([await release(one.json.leaseId), await release(one.json.leaseId)], [{ released: true }, { released: false }]);
    assert.equal((await acquire()).status, 200);
    assert.match((await post(held, "/limit/user/acquire", { key: "x" })).json.error.message, /no leases/);
    assert.equal((await post(held, "/limit/exports/reserve", { key: "x", cost: 1 })).status, 400);
  }),

  "limits::a reservation is settled once at its cost": onEdge(async (held) => {
    const reserved = await post(held, "/limit/tokens/reserve", { key: "ada", cost: 400 });
    assert.deepEqual([reserved.json.remaining, reserved.json.reservation.cost], [600, 400]);
    held.edge = await held.edge.restart();
    const bill = { key: "ada", id: reserved.json.reservation.id, cost: 150 };
    const settled = await post(held, "/limit/tokens/settle", bill);
    assert.deepEqual([settled.status, settled.json.remaining, settled.json.settled], [200, 850, 150]);
    assert.equal((await post(held, "/limit/tokens/settle", bill)).status, 404);
    assert.equal((await held.edge.ask("GET", "/limit/tokens/ada")).json.remaining, 850);
    assert.match((await post(held, "/limit/tokens/reserve", { key: "a", cost: 1, ttlMs: 0 })).json.error.message, /ttlMs/);
  }),

  "limits::a batch of documents is all or nothing": onEdge(async (held) => {
    const batch = (operations, options) => post(held, "/kv:batch", { operations }, options);
    const done = await batch([{ op: "put", key: "a", value: 1 }, { op: "get", key: "a" }]);
    assert.deepEqual(done.json, { results: [{ key: "a", value: 1, version: 1 }, { key: "a", value: 1, version: 1 }] });
    const failed = await batch([{ op: "put", key: "a", value: 2 }, { op: "put", key: "c", value: 3, ifVersion: 7 }]);
    assert.deepEqual([failed.status, failed.json.error.code, failed.json.error.operation], [409, "conflict", 1]);
    assert.equal((await held.edge.ask("GET", "/kv/a")).json.value, 1);
    assert.equal((await held.edge.ask("GET", "/kv/c")).status, 404);
    assert.equal((await batch([])).status, 400);
    assert.equal((await batch(Array.from({ length: 101 }, () => ({ op: "get", key: "a" })))).status, 413);
    assert.equal((await batch([{ op: "get", key: "a" }], { token: "look" })).status, 403);
  }),
};

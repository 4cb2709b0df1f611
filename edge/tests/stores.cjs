// D1, Workers KV and objects of their own as stores: reads and swaps for other processes, and documents and limits in the worker.
const assert = require("node:assert/strict");
const { Edge, inDirectory, until } = require("./harness.cjs");

const onEdge = (check, options) => async () => {
  const edge = await Edge.start(options);
  try {
    await check(edge);
  } finally {
    await edge.stop();
  }
};

const JSON_TYPE = { "content-type": "application/json" };
const BACKENDS = ["durable-object", "d1", "kv"];
const record = (version, state, nonce = "1f-1") => `${version} - ${nonce}\n${state}`;
const items = (edge, backend, ...list) => edge.ask("POST", `/store/${backend}`, { body: JSON.stringify({ items: list }) });
const results = async (...asked) => {
  const { status, json, text } = await items(...asked);
  assert.equal(status, 200, text);
  return json.results;
};
const read = (key) => ({ read: { key } });
const swap = (key, expected, text, more = {}) => ({ swap: { key, ...(expected === null ? {} : { expected }), record: text, ...more } });

module.exports = {
  "stores::records are read, swapped, and met in a conflict": onEdge(async (edge) => {
    for (const backend of BACKENDS) {
      const at = [edge, `${backend}/a_1`];
      assert.deepEqual(await results(...at, read("k")), [{ record: null }], backend);
      const [first, second] = [record(7, '{"a":"é\\n"}'), record(8, "2", "1f-2,2a-1")];
      assert.deepEqual(await results(...at, swap("k", null, first)), [{ swapped: 7 }]);
      assert.deepEqual(await results(...at, swap("k", null, record(9, "3"))), [{ conflict: { record: first } }]);
      assert.deepEqual(await results(...at, swap("k", 6, record(9, "3"))), [{ conflict: { record: first } }]);
      assert.deepEqual(await results(...at, swap("k", 7, second, { reclaimMs: 300000 })), [{ swapped: 8 }]);
      // The same swap again, whose response was lost.
      assert.deepEqual(await results(...at, swap("k", 7, second, { reclaimMs: 300000 })), [{ swapped: 8 }]);
      assert.deepEqual(await results(...at, read("k"), read("absent"), swap("\u{1f600} %25\0", null, first), read("k")),
        [{ record: second }, { record: null }, { swapped: 7 }, { record: second }]);
      assert.deepEqual(await results(...at, read("\u{1f600} %25\0")), [{ record: first }]);
      assert.deepEqual(await results(edge, backend, read("k")), [{ record: null }], "a store of another name has keys of its own");
      const { headers } = await items(...at, read("k"));
      assert.equal(headers.get("keystead-approximate"), backend === "kv" ? "true" : null);
    }
  }),

  "stores::versions up to 2^53 are exact": onEdge(async (edge) => {
    for (const backend of BACKENDS) {
      let before = null;
      for (const version of [2 ** 53 - 2, 2 ** 53 - 1, 2 ** 53]) {
        assert.deepEqual(await results(edge, backend, swap("k", before, record(version, "1"))), [{ swapped: version }], backend);
        before = version;
      }
      assert.deepEqual(await results(edge, backend, swap("k", 2 ** 53 - 1, record(2 ** 53, "2"))), [{ conflict: { record: record(2 ** 53, "1") } }]);
    }
  }),

  "stores::of many swaps at a time one wins": onEdge(async (edge) => {
    for (const backend of ["durable-object", "d1"]) {
      for (let round = 0; round < 5; round++) {
        const expected = round === 0 ? null : round;
        const all = await Promise.all(Array.from({ length: 50 }, (_, n) => results(edge, backend, swap("k", expected, record(round + 1, n, `${n.toString(16)}a-1`)))));
        assert.equal(all.filter(([one]) => "swapped" in one).length, 1, backend);
      }
    }
  }),

  "stores::what is too large waits for a request of its own or is rejected": onEdge(async (edge) => {
    const large = record(1, JSON.stringify("x".repeat(900 * 1024)));
    for (const backend of BACKENDS) {
      assert.deepEqual(await results(edge, backend, swap("large", null, large)), [{ swapped: 1 }], backend);
      assert.deepEqual(await results(edge, backend, read("large"), read("none")), [{ later: true }, { record: null }]);
      assert.deepEqual(await results(edge, backend, swap("large", 5, record(9, "1")), read("none")), [{ conflict: {} }, { record: null }]);
      assert.deepEqual(await results(edge, backend, read("large")), [{ record: large }]);
      const over = await items(edge, backend, swap("k", null, record(1, JSON.stringify("x".repeat(970 * 1024)))));
      assert.deepEqual([over.status, over.json.error.code], [413, "too_large"]);
      assert.equal((await items(edge, backend, read("k".repeat(backend === "kv" ? 480 : 2049)))).status, 413);
      assert.deepEqual(await results(edge, backend, read("k".repeat(backend === "kv" ? 479 : 2048))), [{ record: null }]);
    }
  }),

  "stores::bad requests change nothing and say what to do": onEdge(async (edge) => {
    for (const backend of BACKENDS) {
      await results(edge, backend, swap("k", null, record(3, "1")));
      for (const list of [
        [], Array(65).fill(read("k")), [{ read: {} }], [{ write: { key: "k" } }], [{ read: { key: "k", more: 1 } }],
        [swap("k", 3, "no record")], [swap("k", 3, record(3, "2"))], [swap("k", 3, record(2, "2"))], [swap("k", 3, record(2 ** 53 + 2, "2"))],
      ]) {
        const { status, json, text } = await items(edge, backend, ...list);
        assert.deepEqual([status, json?.error.code], [400, "bad_request"], text);
      }
      assert.equal((await items(edge, backend, read(""))).status, 413);
      assert.deepEqual(await results(edge, backend, ...Array(64).fill(read("k"))), Array(64).fill({ record: record(3, "1") }));
      assert.equal((await edge.ask("GET", `/store/${backend}`)).status, 405);
      const asked = (token) => edge.ask("POST", `/store/${backend}`, { token, body: JSON.stringify({ items: [read("k")] }) });
      assert.equal((await asked("wrong")).status, 401);
      assert.equal((await asked(null)).status, 401);
      assert.equal((await asked("look")).status, 403);
    }
    for (const target of ["/store", "/store/", "/store/redis", "/store/d1/A", "/store/d1/a/b", "/store/d1/", `/store/kv/${"n".repeat(33)}`]) {
      assert.equal((await edge.ask("POST", target, { body: "{}" })).status, 404, target);
    }
  }),

  "stores::without a binding a store says which one is missing": onEdge(
    async (edge) => {
      for (const [backend, binding] of [["d1", "D1"], ["kv", "KV"]]) {
        const { status, json } = await items(edge, backend, read("k"));
        assert.deepEqual([status, json.error.code], [501, "unsupported"]);
        assert.match(json.error.message, new RegExp(`as ${binding} in wrangler.toml`));
        assert.equal((await edge.ask("GET", `/kv/a?store=${backend}`)).status, 501);
      }
      assert.equal((await edge.ask("GET", "/kv/a")).status, 404);
    },
    { withoutStores: true },
  ),

  "stores::a crash of workerd loses no swap that was acknowledged": () =>
    inDirectory(async (directory) => {
      let edge = await Edge.start({ directory });
      const acknowledged = Object.fromEntries(BACKENDS.map((backend) => [backend, 0]));
      let running = true;
      const writers = BACKENDS.map(async (backend) => {
        while (running) {
          const version = acknowledged[backend] + 1;
          const expected = acknowledged[backend] || null;
          try {
            const { json } = await items(edge, backend, swap("k", expected, record(version, version)));
            if (json?.results?.[0].swapped !== version) return;
            acknowledged[backend] = version;
          } catch {
            return;
          }
        }
      });
      await until("enough was written", () => BACKENDS.every((backend) => acknowledged[backend] >= 20), 60000);
      const next = edge.crash();
      running = false;
      await Promise.allSettled(writers);
      edge = await next;
      // Miniflare's KV is no measure of what Cloudflare's loses.
      for (const backend of ["durable-object", "d1"]) {
        const [{ record: found }] = await results(edge, backend, read("k"));
        const version = Number(found.split(" ")[0]);
        assert.ok(version >= acknowledged[backend] && version <= acknowledged[backend] + 1, `${backend}: ${version} of ${acknowledged[backend]}`);
      }
      await edge.stop();
    }),

  "stores::documents on D1 and Workers KV are as those of the object": onEdge(async (edge) => {
    // The same requests to each; what differs is on which store they are.
    const script = [
      ["PUT", "/kv/a", '{"n": 1.50}'], ["PUT", "/kv/a?ifVersion=1", '{"n":2}'], ["PUT", "/kv/a?ifVersion=1", "0"], ["PATCH", "/kv/a", '{"m":9007199254740993}'],
      ["GET", "/kv/a"], ["GET", "/kv/none"], ["PUT", "/kv/b?ttl=1h", "1"], ["DELETE", "/kv/a?ifVersion=7"], ["DELETE", "/kv/a"], ["DELETE", "/kv/a"], ["GET", "/kv/a"],
      ["PUT", "/kv/c", "{"], ["PUT", "/kv/c?nope=1", "1"], ["PUT", `/kv/${"%C3%A9%00%FF".repeat(3)}`, '"x"'], ["GET", `/kv/${"%C3%A9%00%FF".repeat(3)}`],
    ];
    const run = async (store) => {
      const seen = [];
      for (const [method, target, body] of script) {
        const { status, text, headers } = await edge.ask(method, target + (store && `${target.includes("?") ? "&" : "?"}store=${store}`), { body, headers: JSON_TYPE });
        assert.equal(headers.get("keystead-approximate"), store === "kv" ? "true" : null);
        seen.push([method, target, status, headers.get("etag"), text.replace(/"expiresAt":\d+/, '"expiresAt":0')]);
      }
      return seen;
    };
    const expected = await run("");
    assert.deepEqual(await run("d1"), expected);
    assert.deepEqual(await run("kv"), expected);
    for (const store of ["d1", "kv"]) {
      for (const [method, target, headers] of [["GET", "/kv", {}], ["POST", "/kv:batch", {}], ["GET", "/kv/b?wait=1s", {}], ["PUT", "/kv/b", { "idempotency-key": "one" }]]) {
        const { status, json } = await edge.ask(method, `${target}${target.includes("?") ? "&" : "?"}store=${store}`, { headers, ...(method === "PUT" ? { body: "1" } : {}) });
        assert.deepEqual([status, json?.error.code], [501, "unsupported"], `${method} ${target} ${store}`);
      }
      assert.equal((await edge.ask("PUT", `/kv/x?store=${store}`, { body: "1", token: "look" })).status, 403);
      assert.equal((await edge.ask("GET", `/kv/b?store=${store}`, { token: "look" })).json.value, 1);
    }
    const unknown = await edge.ask("GET", "/kv/a?store=redis");
    assert.deepEqual([unknown.status, unknown.json.error.code], [400, "bad_request"]);
  }),

  "stores::concurrent changes of a document on D1 lose nothing": onEdge(async (edge) => {
    const put = await edge.ask("PUT", "/kv/n?store=d1", { body: "{}" });
    assert.equal(put.status, 201);
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => edge.ask("PATCH", "/kv/n?store=d1", { body: JSON.stringify({ [n]: 1 }), headers: JSON_TYPE })));
    assert.deepEqual(all.map((one) => one.status), Array(20).fill(200));
    const { json } = await edge.ask("GET", "/kv/n?store=d1");
    assert.deepEqual([json.version, Object.keys(json.value).length], [21, 20]);
  }),

  "stores::limits on D1 and Workers KV decide as those of the object": onEdge(async (edge) => {
    for (const store of ["d1", "kv"]) {
      const check = (policy, key, more = {}) => edge.ask("POST", `/limit/${policy}?status=429&store=${store}`, { body: JSON.stringify({ key, ...more }) });
      const statuses = [];
      for (let n = 0; n < 7; n++) statuses.push((await check("login", "ada")).status);
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429], store);
      const denied = await check("login", "ada");
      assert.ok(Number(denied.headers.get("retry-after")) >= 1);
      assert.equal(denied.headers.get("keystead-approximate"), store === "kv" ? "true" : null);
      assert.equal((await edge.ask("GET", `/limit/login/bob?store=${store}`)).json.remaining, 5);
      assert.equal((await check("login", "bob", { cost: 3 })).json.remaining, 2);
      assert.equal((await check("login", "bob", { peek: true })).json.remaining, 2);
      assert.deepEqual((await edge.ask("DELETE", `/limit/login/ada?store=${store}`)).json, { reset: true });
      assert.equal((await check("login", "ada")).status, 200);
      assert.equal((await check("none", "x")).status, 404);
      assert.equal((await edge.ask("POST", `/limit?store=${store}`, { body: "{}" })).status, 501);
      assert.equal((await edge.ask("POST", `/limit/login?store=${store}`, { body: '{"key":"x"}', token: "look" })).status, 403);
    }
    // The object's own counts are others.
    assert.equal((await edge.ask("GET", "/limit/login/bob")).json.remaining, 5);
    const all = await Promise.all(Array.from({ length: 20 }, () => edge.ask("POST", "/limit/window?status=429&store=d1", { body: '{"key":"x"}' })));
    assert.deepEqual(all.map((one) => one.status).sort(), [...Array(3).fill(200), ...Array(17).fill(429)]);
  }),

  "stores::rows that a call reads and writes": onEdge(async (edge) => {
    // As docs/edge.md has them.
    for (const [backend, expected] of [["durable-object", ["0/0", "0/1", "0/2", "1/0", "1/1", "1/2", "1/0"]], ["d1", ["0/0", "1/1", "1/2", "1/0", "2/1", "2/2", "3/0"]]]) {
      const rows = async (one) => {
        const { headers } = await items(edge, backend, one);
        return `${headers.get("keystead-rows-read")}/${headers.get("keystead-rows-written")}`;
      };
      await results(edge, backend, swap("first", null, record(1, "1")));
      const seen = [];
      for (const one of [
        read("k"), swap("k", null, record(1, "1")), swap("e", null, record(1, "1"), { reclaimMs: 400000 }),
        read("k"), swap("k", 1, record(2, "1")), swap("e", 1, record(2, "1"), { reclaimMs: 500000 }), swap("k", 1, record(3, "1")),
      ]) seen.push(await rows(one));
      assert.deepEqual(seen, expected, backend);
    }
  }),

  "stores::what may be reclaimed is deleted": onEdge(async (edge) => {
    // On D1 with a swap, at most once a minute: here with the first one.
    await results(edge, "d1", swap("k", null, record(1, ""), { reclaimMs: 0 }), swap("stays", null, record(1, "")), swap("later", null, record(1, ""), { reclaimMs: 300000 }));
    // In the object by an alarm.
    await results(edge, "durable-object", swap("k", null, record(1, ""), { reclaimMs: 0 }), swap("stays", null, record(1, "")), swap("later", null, record(1, ""), { reclaimMs: 300000 }));
    for (const backend of ["d1", "durable-object"]) {
      await until(`${backend} is swept`, async () => (await results(edge, backend, read("k")))[0].record === null, 60000);
      assert.deepEqual(await results(edge, backend, read("stays"), read("later")), [{ record: record(1, "") }, { record: record(1, "") }]);
    }
  }),
};

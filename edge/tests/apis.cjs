// The REST, documents and limits APIs beside the forms of their responses.
const assert = require("node:assert/strict");
const { Edge, events } = require("./harness.cjs");

const onEdge = (check) => async () => {
  const edge = await Edge.start();
  try {
    await check(edge);
  } finally {
    await edge.stop();
  }
};

module.exports = {
  "apis::forms of requests and responses": onEdge(async (edge) => {
    const post = async (target, body, headers) => {
      const { status, text } = await edge.ask("POST", target, { body, headers });
      return `${status} ${text}`;
    };
    assert.equal(await post("/", '["PING"]'), '200 {"result":"PONG"}');
    assert.equal(await post("/", '["SET","k","v"]', { "upstash-encoding": "base64" }), '200 {"result":"OK"}');
    assert.equal(await post("/", '["GET","k"]', { "upstash-encoding": "base64" }), '200 {"result":"dg=="}');
    assert.equal(await post("/", '["GET","k"]', { "upstash-response-format": "resp2" }), "200 $1\r\nv\r\n");
    assert.equal(await post("/", '["NOPE"]'), "400 {\"error\":\"ERR unknown command 'NOPE', with args beginning with: \"}");
    assert.equal(await post("/", "[]"), '400 {"error":"ERR empty command"}');
    assert.equal(await post("/pipeline", '[["SET","a",1],["INCR","k"],["GET","a"]]'),
      '200 [{"result":"OK"},{"error":"ERR value is not an integer or out of range"},{"result":"1"}]');
    assert.equal(await post("/multi-exec", '[["SET","a",2],["LPUSH","k","x"],["GET","a"]]'),
      '200 [{"result":"OK"},{"error":"WRONGTYPE Operation against a key holding the wrong kind of value"},{"result":"2"}]');
    assert.match(await post("/multi-exec", '[["SET","a",3],["NOPE"]]'), /^400 \{"error":"ERR unknown command/);
    assert.equal(await post("/set/a%2Fb?EX=100", "raw \0 body"), '200 {"result":"OK"}');
    assert.equal((await edge.ask("GET", "/get/a%2Fb")).json.result, "raw \0 body");
    assert.equal((await edge.ask("HEAD", "/get/a%2Fb")).status, 200);
    assert.equal((await edge.ask("DELETE", "/get/a")).status, 405);
    const tokens = await Promise.all(Array.from({ length: 5 }, async () => (await edge.ask("GET", "/ping")).headers.get("upstash-sync-token")));
    assert.equal(new Set(tokens).size, 5);
    const preflight = await edge.ask("OPTIONS", "/get/a", { token: null, headers: { origin: "https://example.com" } });
    assert.deepEqual([preflight.status, preflight.headers.get("access-control-allow-origin")], [204, "*"]);
  }),

  "apis::scripts and functions": onEdge(async (edge) => {
    assert.equal(await edge.run("EVAL", "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])", "1", "k", "v"), "v");
    const sha = await edge.run("SCRIPT", "LOAD", "return ARGV[1]");
    assert.equal(await edge.run("EVALSHA", sha, "0", "x"), "x");
    await assert.rejects(edge.run("EVALSHA", "0".repeat(40), "0"), /NOSCRIPT/);
    await assert.rejects(edge.run("EVAL", "redis.call('set', KEYS[1], 'w') error('no')", "1", "k"), /no/);
  }),

  "apis::messages reach subscribers in other requests": onEdge(async (edge) => {
    const controller = new AbortController();
    const response = await fetch(`${edge.url}/subscribe/news`, { method: "POST", headers: { authorization: "Bearer s3cret" }, body: "[]", signal: controller.signal });
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const reader = response.body.getReader();
    const read = async () => Buffer.from((await reader.read()).value).toString();
    assert.equal(await read(), "data: subscribe,news,1\n\n");
    assert.equal(await edge.run("PUBLISH", "news", "a,b"), 1);
    assert.equal(await read(), "data: message,news,a,b\n\n");
    controller.abort();
  }),

  "apis::patterns of channels": onEdge(async (edge) => {
    const stream = await events(edge, "/psubscribe/news.*/h%3Fllo");
    assert.deepEqual(await stream.next(), ["psubscribe,news.*,1"]);
    assert.deepEqual(await stream.next(), ["psubscribe,h?llo,2"]);
    assert.equal(await edge.run("PUBLISH", "news.a", "first"), 1);
    assert.equal(await edge.run("PUBLISH", "other", "nobody"), 0);
    assert.equal(await edge.run("PUBLISH", "hello", "two\nlines"), 1);
    assert.deepEqual(await stream.next(), ["pmessage,news.*,news.a,first"]);
    assert.deepEqual(await stream.next(), ["pmessage,h?llo,hello,two", "lines"]);
    assert.equal(await edge.run("PUBSUB", "NUMPAT"), 2);
    stream.close();
    const none = await edge.ask("POST", "/psubscribe", { body: "" });
    assert.deepEqual([none.status, none.json.error], [400, "ERR name a channel in the path: /subscribe/CHANNEL"]);
  }),

  "apis::a monitor sees every command, and needs the right to write": onEdge(async (edge) => {
    const denied = await edge.ask("GET", "/monitor", { token: "look" });
    assert.match(denied.json.error, /^NOPERM/);
    const stream = await events(edge, "/monitor");
    assert.deepEqual(await stream.next(), ['"OK"']);
    await edge.run("SET", "k", 'a "b"\n');
    await edge.ask("POST", "/multi-exec", { body: '[["INCR","n"],["GET","k"]]' });
    await edge.ask("GET", "/get/k", { token: "look" });
    const seen = [];
    for (let n = 0; n < 4; n++) seen.push((await stream.next()).join("\n"));
    const commands = seen.map((line) => /^\d+\.\d{6} \[0 .*?\] (.*)$/.exec(line)?.[1] ?? line);
    assert.deepEqual(commands, ['"SET" "k" "a \\"b\\"\\n"', '"INCR" "n"', '"GET" "k"', '"get" "k"']);
    stream.close();
  }),

  "apis::an idempotency key runs a request once": onEdge(async (edge) => {
    const headers = { "idempotency-key": "one" };
    for (let n = 0; n < 3; n++) {
      const { json } = await edge.ask("POST", "/", { body: '["INCR","n"]', headers });
      assert.equal(json.result, 1);
    }
    const other = await edge.ask("POST", "/", { body: '["INCR","m"]', headers });
    assert.equal(other.status, 422);
    assert.equal(await edge.run("GET", "n"), "1");
  }),

  "apis::documents have versions and conditions": onEdge(async (edge) => {
    const put = await edge.ask("PUT", "/kv/a", { body: '{"n": 1}' });
    assert.deepEqual([put.status, put.headers.get("etag"), put.text], [201, '"1"', '{"key":"a","value":{"n":1},"version":1}\n']);
    const patched = await edge.ask("PATCH", "/kv/a?ifVersion=1", { body: '{"m":2}', headers: { "content-type": "application/json" } });
    assert.deepEqual(patched.json, { key: "a", value: { n: 1, m: 2 }, version: 2 });
    const stale = await edge.ask("PUT", "/kv/a?ifVersion=1", { body: "0" });
    assert.deepEqual([stale.status, stale.json.error.code, stale.json.error.current], [409, "conflict", 2]);
    assert.equal((await edge.ask("PUT", "/kv/a", { body: "0", headers: { "if-none-match": "*" } })).status, 412);
    assert.equal((await edge.ask("GET", "/kv/a", { headers: { "if-none-match": '"2"' } })).status, 304);
    await edge.ask("PUT", "/kv/b?ttl=1h", { body: "1" });
    await edge.run("SADD", "set", "m");
    assert.deepEqual((await edge.ask("GET", "/kv")).json, ["a", "b"]);
    assert.equal((await edge.ask("GET", "/kv?prefix=b&values=true")).json[0].value, 1);
    const page = await edge.ask("GET", "/kv?limit=1");
    assert.equal(page.json.length, 1);
    assert.equal((await edge.ask("GET", `/kv?limit=5&cursor=${page.headers.get("keystead-cursor")}`)).json.length, 1);
    assert.equal((await edge.ask("PUT", "/kv/c", { body: "{" })).status, 400);
    assert.equal((await edge.ask("DELETE", "/kv/a")).status, 204);
    assert.equal((await edge.ask("GET", "/kv/a")).status, 404);
    assert.equal((await edge.ask("GET", "/kv/b?wait=1s")).status, 501);
  }),

  "apis::limits decide and report": onEdge(async (edge) => {
    const check = (policy, key) => edge.ask("POST", `/limit/${policy}?status=429`, { body: JSON.stringify({ key }) });
    const statuses = [];
    for (let n = 0; n < 7; n++) statuses.push((await check("login", "ada")).status);
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429]);
    const denied = await check("login", "ada");
    assert.equal(denied.json.allowed, false);
    assert.ok(Number(denied.headers.get("retry-after")) >= 1);
    assert.equal((await edge.ask("GET", "/limit/login/bob")).json.remaining, 5);
    assert.deepEqual((await edge.ask("DELETE", "/limit/login/ada")).json, { reset: true });
    assert.equal((await check("login", "ada")).status, 200);
    const all = await Promise.all(Array.from({ length: 20 }, () => check("window", "x")));
    assert.equal(all.filter((one) => one.status === 200).length, 3);
    assert.equal((await check("none", "x")).status, 404);
    assert.equal((await edge.ask("GET", "/limit")).json.policies.length, 2);
  }),
};

// The official SDKs of Upstash, with the programs that the server is tested with.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { Edge, READ_ONLY_TOKEN, TOKEN, rows } = require("./harness.cjs");

const ROOT = path.join(__dirname, "..", "..");
const PEERS = path.join(ROOT, "target", "peers");
const PROGRAMS = path.join(ROOT, "crates", "server", "tests", "clients");

const runs = (program, runner, installed) => async () => {
  if (!fs.existsSync(path.join(PEERS, installed))) return `${program}: the SDK is not installed`;
  const edge = await Edge.start();
  try {
    const child = spawn(runner, [path.join(PROGRAMS, program)], {
      env: {
        ...process.env,
        NODE_PATH: path.join(PEERS, "node_modules"),
        PYTHONDONTWRITEBYTECODE: "1",
        UPSTASH_REDIS_REST_URL: edge.url,
        UPSTASH_REDIS_REST_TOKEN: TOKEN,
        READ_ONLY_TOKEN,
        SHARDS: "1",
        DIFFERS: rows.join(";"),
      },
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.ok(code === 0 && said.includes("\nok"), `${program} ended with ${code}:\n${said.slice(-12000)}\n${edge.said ?? ""}`);
  } finally {
    await edge.stop();
  }
};

const node = (program, sdk) => runs(program, "node", `node_modules/@upstash/${sdk}/package.json`);
const python = (program) => runs(program, path.join(PEERS, "bin", "python3"), "bin/upstash-is-here");

module.exports = {
  "clients::upstash-redis-js": node("upstash_redis.cjs", "redis"),
  "clients::upstash-redis-js-commands": node("upstash_commands.cjs", "redis"),
  "clients::upstash-ratelimit-js": node("upstash_ratelimit.cjs", "ratelimit"),
  "clients::upstash-redis-py": python("upstash_redis_py.py"),
  "clients::upstash-ratelimit-py": python("upstash_ratelimit_py.py"),
};

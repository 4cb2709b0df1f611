// What a person does with the worker: `npx wrangler dev` serves it on this machine, and `npx wrangler deploy` sends what a free account may have.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { inDirectory, until } = require("./harness.cjs");

const EDGE = path.join(__dirname, "..");
// Most bytes of a worker on a free account, compressed.
const UPLOAD_KIB_MAX = 3 * 1024;

function wrangler() {
  try {
    return path.join(path.dirname(require.resolve("wrangler/package.json")), "bin", "wrangler.js");
  } catch {
    return undefined;
  }
}

// Wrangler's output so far. It talks to nobody but this machine.
function started(directory, args) {
  const env = { ...process.env, HOME: directory, CI: "1", NO_COLOR: "1", WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" };
  const child = spawn(process.execPath, [wrangler(), ...args], { cwd: directory, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const run = { said: "", ended: undefined };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (run.said += data));
  run.end = new Promise((resolve) => child.on("exit", (code) => resolve((run.ended = code ?? "killed"))));
  // With what it has started: it leads a group of its own.
  run.stop = async () => {
    if (run.ended === undefined) process.kill(-child.pid, "SIGTERM");
    await run.end;
  };
  return run;
}

// The settings of a deployment, for the worker that was built already.
const withSettings = (check) => () =>
  wrangler() === undefined
    ? "wrangler is not installed (npm install --prefix target/peers wrangler)"
    : inDirectory(async (directory) => {
        const settings = fs.readFileSync(path.join(EDGE, "wrangler.toml"), "utf8");
        const changed = settings
          .replace('main = "build/index.js"', `main = ${JSON.stringify(path.join(EDGE, "build", "index.js"))}`)
          .replace('[build]\ncommand = "./build.sh"\n', "");
        assert.equal(changed.includes("build.sh") || changed.includes('"build/'), false, "wrangler.toml has changed, and this test must follow");
        fs.writeFileSync(path.join(directory, "wrangler.toml"), changed);
        fs.writeFileSync(path.join(directory, ".dev.vars"), "KEYSTEAD_TOKEN=s3cret\n");
        await check(directory);
      });

module.exports = {
  "wrangler::dev serves the worker, and keeps its rows": withSettings(async (directory) => {
    for (const count of [1, 2]) {
      const run = started(directory, ["dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"]);
      try {
        await until("it is ready", () => /Ready on http:/.test(run.said) || run.ended !== undefined, 120000).catch((error) => assert.fail(`${error}\n${run.said}`));
        assert.equal(run.ended, undefined, run.said);
        const url = /Ready on (http:\S+)/.exec(run.said)[1];
        const post = async (headers) => {
          const response = await fetch(url, { method: "POST", body: '["INCR","n"]', headers });
          return [response.status, await response.json()];
        };
        assert.equal((await post({}))[0], 401);
        assert.deepEqual(await post({ authorization: "Bearer s3cret" }), [200, { result: count }]);
      } finally {
        await run.stop();
      }
    }
  }),

  "wrangler::deploy sends what a free account may have": withSettings(async (directory) => {
    const run = started(directory, ["deploy", "--dry-run", "--outdir", path.join(directory, "out")]);
    await run.end;
    const size = /Total Upload: ([\d.]+) KiB \/ gzip: ([\d.]+) KiB/.exec(run.said);
    assert.ok(run.ended === 0 && size, run.said);
    console.log(`wrangler sends ${size[1]} KiB, ${size[2]} KiB compressed`);
    assert.ok(Number(size[2]) < UPLOAD_KIB_MAX, size[0]);
    assert.match(run.said, /env\.DATABASE/);
  }),
};

// What the tests with Upstash's SDKs share: where the server is, and named cases that all run whatever the others do.
const assert = require("node:assert/strict");

exports.url = process.env.UPSTASH_REDIS_REST_URL;
exports.token = process.env.UPSTASH_REDIS_REST_TOKEN;
exports.readOnlyToken = process.env.READ_ONLY_TOKEN;

exports.sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until something holds, and fails when it does not within two seconds.
exports.until = async (what, holds) => {
  for (let n = 0; n < 400; n++) {
    if (await holds()) return;
    await exports.sleep(5);
  }
  assert.fail(`not within two seconds: ${what}`);
};

// Whether a row of the table of differences in docs/edge.md applies: the tests of the worker set it.
exports.differs = (row) => (process.env.DIFFERS ?? "").split(";").includes(row);

// Runs the cases one after the other and says how each ended; the last line is `ok` when all went well.
exports.run = async (cases) => {
  let failed = 0;
  // Cases that are known to differ on the server that the REST API is in front of.
  const different = (process.env.DIFFERENT ?? "").split(";").filter((name) => name !== "");
  const unknown = different.filter((name) => !(name in cases));
  assert.deepEqual(unknown, [], "known differences that are no cases");
  for (const [name, check] of Object.entries(cases)) {
    if (different.includes(name)) {
      console.log(`case ${name}: not run, known to differ`);
      continue;
    }
    const begun = Date.now();
    try {
      await check();
      console.log(`case ${name}: ok, ${Date.now() - begun} ms`);
    } catch (error) {
      failed += 1;
      console.log(`case ${name}: FAILED`);
      console.error(`${name}:`, error);
    }
  }
  if (failed === 0) console.log("ok");
  process.exit(failed === 0 ? 0 : 1);
};

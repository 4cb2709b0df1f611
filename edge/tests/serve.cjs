// Serves the worker on a port of this machine until it is stopped: KEYSTEAD_TOKEN=... node serve.cjs PORT DIRECTORY. The tests of the stores use it.
// With a third argument, `databases`, it serves many of them, one for each host name: databases.mjs. The server's tests of REST use that.
const fs = require("node:fs");
const path = require("node:path");

// A test kills this process; workerd must not go on without it, on its port.
process.env.WORKERD = require("workerd").default;
process.env.MINIFLARE_WORKERD_PATH = path.join(__dirname, "workerd");
const { Edge } = require("./harness.cjs");

const [port, directory, many] = process.argv.slice(2);

(async () => {
  const edge = await Edge.start({
    port: Number(port),
    directory,
    bindings: { KEYSTEAD_TOKEN: process.env.KEYSTEAD_TOKEN },
    main: many === "databases" ? { name: "databases.mjs", contents: fs.readFileSync(path.join(__dirname, "databases.mjs")) } : undefined,
  });
  const stop = async () => {
    await edge.stop();
    process.exit(0);
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  console.log(`serving ${edge.url}`);
})();

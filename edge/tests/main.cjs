// The worker under workerd itself. `./test edge` builds it and runs this with NODE_PATH=target/peers/node_modules.
const { main } = require("./harness.cjs");

main({
  ...require("./clients.cjs"),
  ...require("./rows.cjs"),
  ...require("./faults.cjs"),
  ...require("./apis.cjs"),
  ...require("./buffer.cjs"),
  ...require("./spread.cjs"),
  ...require("./stores.cjs"),
  ...require("./limits.cjs"),
  ...require("./split.cjs").cases,
  ...require("./wrangler.cjs"),
});

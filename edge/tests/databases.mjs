// Many databases in one workerd, for tests that need one each: the first label of the host name is a database, with variables and secrets of its own.
//
// POST to the host `databases` makes one: {"name": "...", "bindings": {...}}. The worker itself is unchanged; what differs is what it finds in its environment.
import worker, { Database as One, Records } from "./index.js";

export { Records };

const CONTROL = "databases";
const EVICT = "keystead-evict";
const made = new Map();

// The environment of a database: its bindings, and objects whose names begin with its own.
function environment(env, name) {
  const objects = new Proxy(env.DATABASE, {
    get(target, property) {
      if (property === "getByName") return (object) => target.getByName(`${name}/${object}`);
      const found = Reflect.get(target, property);
      return typeof found === "function" && property !== "constructor" ? found.bind(target) : found;
    },
  });
  return { ...env, ...made.get(name), DATABASE: objects };
}

export class Database {
  constructor(state, env) {
    this.state = state;
    this.one = new One(state, environment(env, state.id.name.split("/")[0]));
  }

  fetch(request) {
    if (request.headers.has(EVICT)) this.state.abort("evicted by a test");
    return this.one.fetch(request);
  }

  alarm() {
    return this.one.alarm();
  }
}

// Ends an object, and waits until the next one replies.
async function evict(object, request) {
  await object().fetch(request).catch(() => {});
  for (let isBack = false; !isBack; ) {
    const response = await object().fetch("http://object/healthz").catch(() => undefined);
    isBack = response?.ok ?? false;
  }
}

export default {
  async fetch(request, env, context) {
    const host = new URL(request.url).hostname;
    if (host === CONTROL) {
      const { name, bindings } = await request.json();
      made.set(name, bindings);
      return new Response("made");
    }
    const name = host.split(".")[0];
    if (!made.has(name)) return new Response(`no database ${name}`, { status: 404 });
    if (request.headers.has(EVICT)) {
      for (let n = 0; n < Number(made.get(name).OBJECTS ?? 1); n++) await evict(() => env.DATABASE.getByName(`${name}/${n}`), request);
      return new Response("evicted");
    }
    const own = environment(env, name);
    const response = await (typeof worker === "function" ? new worker(context, own).fetch(request) : worker.fetch(request, own, context));
    // Locally, a body that nobody reads ends the connection, which the tests use again.
    if (!request.bodyUsed) context.waitUntil(request.arrayBuffer().catch(() => {}));
    return response;
  },
};

// The entry of the Worker: passes requests on to the module, and starts the module again after a panic. Cloudflare runs it.
//
// A panic ends the module for all that it was serving at that moment: what they wait for in it never comes. Invariant: each of them gets an error at
// once, and the next request finds a module and objects with nothing in memory. Rows are as the last complete transaction has left them.
import { DurableObject } from "cloudflare:workers";
import * as wasm from "./keystead.js";

const WORDS =
  "the module has panicked, and its transaction was undone: it works again at the next request. Look what is there before you send this one again";

// How long a panic stays unnoticed by what it interrupts, and by a stream of events.
const NOTICED_MS = 50;
const STREAM_NOTICED_MS = 1000;

// The module sets `criticalError` when it panics; `instanceId` is different in each of its lives.
const state = wasm.__worker_init_state();
let isBroken = false;
let panics = 0;
Object.defineProperty(state, "criticalError", { get: () => isBroken, set: (value) => value && breakOff() });

function breakOff() {
  isBroken = true;
  panics++;
}

// What no panic hook sees: a trap, or a stack that is too deep.
const isFatal = (error) => error instanceof WebAssembly.RuntimeError || (error instanceof RangeError && /call stack/.test(error.message));
addEventListener("error", (event) => isFatal(event.error) && breakOff());
addEventListener("unhandledrejection", (event) => isFatal(event.reason) && breakOff());

// What a call of the module returns; nothing if the module panics meanwhile.
async function call(run) {
  if (isBroken) {
    wasm.__wbg_reset_state();
    state.instanceId++;
    isBroken = false;
  }
  const before = panics;
  const panic = nextPanic(NOTICED_MS);
  try {
    const result = await Promise.race([run(), panic.promise]);
    // A call may still return when the module has panicked below it.
    return panics === before ? result : undefined;
  } catch (error) {
    if (isFatal(error)) breakOff();
    if (panics === before) throw error;
    return undefined;
  } finally {
    panic.forget();
  }
}

// The next panic, looked for by a timer: a promise of one request that another one keeps does not wake it.
function nextPanic(everyMs) {
  const before = panics;
  let timer;
  const promise = new Promise((resolve) => (timer = setInterval(() => panics !== before && resolve(), everyMs)));
  return { promise, forget: () => clearInterval(timer) };
}

// The error in the form of the API that the request is for.
function failure(request) {
  const { pathname } = new URL(request.url);
  const isOurs = /^\/(kv|kv:batch|limit|sinks|statements|store)(\/|$)/.test(pathname);
  const body = isOurs ? { error: { code: "internal", message: WORDS, outcome: "unknown" } } : { error: `ERR ${WORDS}` };
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  if (request.headers.has("origin")) headers["access-control-allow-origin"] = "*";
  return new Response(JSON.stringify(body) + (isOurs ? "\n" : ""), { status: 500, headers });
}

// Events that a panic ends: without this their client would wait for the next one for ever.
function untilPanic(response) {
  if (response.headers.get("content-type") !== "text/event-stream" || response.body === null) return response;
  const [reader, panic] = [response.body.getReader(), nextPanic(STREAM_NOTICED_MS)];
  const events = new ReadableStream({
    async pull(controller) {
      const next = await Promise.race([reader.read(), panic.promise]);
      if (next !== undefined && !next.done) return controller.enqueue(next.value);
      panic.forget();
      return controller.close();
    },
    cancel(reason) {
      panic.forget();
      return reader.cancel(reason);
    },
  });
  return new Response(events, response);
}

// The object's class in the module: another one for each life of the module.
const durable = (Class) =>
  class extends DurableObject {
    #object;
    #life;

    #current() {
      if (this.#life !== state.instanceId) {
        this.#object = new Class(this.ctx, this.env);
        this.#life = state.instanceId;
      }
      return this.#object;
    }

    async fetch(request) {
      const response = await call(() => this.#current().fetch(request));
      return response === undefined ? failure(request) : untilPanic(response);
    }

    async alarm() {
      // The platform calls again.
      if ((await call(() => this.#current().alarm())) === undefined) throw new Error(WORDS);
    }
  };

export const Database = durable(wasm.Database);
export const Records = durable(wasm.Records);

export default {
  async fetch(request, env, context) {
    return (await call(() => wasm.fetch(request, env, context))) ?? failure(request);
  },
};

// A real server for tests, and a proxy in front of it that fails as it is asked to.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const BINARY = process.env.KEYSTEAD_BINARY ?? "keystead";

async function freePort() {
  const socket = net.createServer().listen(0, "127.0.0.1");
  await once(socket, "listening");
  const { port } = socket.address();
  socket.close();
  await once(socket, "close");
  return port;
}

/** Waits until something holds. */
export async function until(what, holds, ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Server {
  #process;

  /** A server on a free port with these arguments. */
  static async start(args = [], env = {}) {
    const server = new Server();
    server.dir = await mkdtemp(path.join(os.tmpdir(), "keystead-client-"));
    server.port = await freePort();
    server.url = `http://127.0.0.1:${server.port}`;
    server.args = ["--http", `127.0.0.1:${server.port}`, "--resp", "off", "--data", path.join(server.dir, "data"), ...args];
    server.env = env;
    await server.restart();
    return server;
  }

  async restart() {
    const env = { PATH: process.env.PATH, HOME: this.dir, ...this.env };
    this.#process = spawn(BINARY, this.args, { cwd: this.dir, env, stdio: ["ignore", "ignore", "pipe"] });
    this.log = "";
    this.#process.stderr.on("data", (data) => (this.log += data));
    await until(`the server is ready: ${this.log}`, async () => {
      if (this.#process.exitCode !== null) throw new Error(this.log);
      return (await fetch(`${this.url}/readyz`).catch(() => null))?.status === 200;
    });
  }

  async kill() {
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }

  async stop() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.kill();
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** Forwards requests to a server. `rule(request)` may return "drop" (no response), "lose" (forwarded, the response is lost), or a response. */
export class Proxy {
  requests = [];
  rule = () => undefined;

  static async start(target) {
    const proxy = new Proxy();
    proxy.target = target;
    proxy.server = http.createServer((incoming, outgoing) => void proxy.#forward(incoming, outgoing));
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    proxy.url = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  /** The items of the requests to upload, in the order of their arrival. */
  get uploads() {
    return this.requests.filter((request) => request.method === "POST").map((request) => request.body.items);
  }

  async #forward(incoming, outgoing) {
    const parts = [];
    for await (const part of incoming) parts.push(part);
    const raw = Buffer.concat(parts);
    const body = raw.length > 0 ? JSON.parse(raw) : undefined;
    const request = { method: incoming.method, url: incoming.url, body };
    if (incoming.method !== "OPTIONS") this.requests.push(request);
    const rule = incoming.method === "OPTIONS" ? undefined : this.rule(request);
    if (rule === "drop") return void incoming.socket.destroy();
    if (rule === "hang") return;
    if (rule !== undefined && rule !== "lose") {
      const cors = { "access-control-allow-origin": "*", "content-type": "application/json" };
      return void outgoing.writeHead(rule.status, cors).end(rule.body ?? "");
    }
    const { host: _, ...headers } = incoming.headers;
    const forwarded = http.request(this.target + incoming.url, { method: incoming.method, headers }, (response) => {
      if (rule === "lose") {
        response.resume();
        response.on("end", () => incoming.socket.destroy());
        return;
      }
      outgoing.writeHead(response.statusCode, response.headers);
      response.pipe(outgoing);
      response.on("error", () => outgoing.destroy());
    });
    forwarded.on("error", () => incoming.socket.destroy());
    outgoing.on("close", () => forwarded.destroy());
    forwarded.end(raw);
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

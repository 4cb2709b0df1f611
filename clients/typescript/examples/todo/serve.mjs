// Serves the to-do page on this machine: node examples/todo/serve.mjs [URL OF THE SERVER] [PORT]
//
// The package must have been built (npm install && npm run build).

import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, "../..");
const [url = "http://127.0.0.1:8080", port = "3000"] = process.argv.slice(2);
const FOLDERS = { dist: path.join(root, "dist"), idb: path.join(root, "node_modules/idb/build") };
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".map": "application/json" };

/** The file of a path. Nothing outside of the folders is served. */
function file(pathname) {
  const [first, ...rest] = pathname.slice(1).split("/");
  const [folder, name] = first in FOLDERS ? [FOLDERS[first], rest.join("/")] : [here, pathname.slice(1) || "index.html"];
  const full = path.join(folder, name);
  return full.startsWith(folder + path.sep) && path.extname(full) in TYPES ? full : undefined;
}

const server = http.createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  try {
    if (pathname === "/config.json") {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ url }));
      return;
    }
    const full = file(pathname);
    const body = full && (await readFile(full));
    if (body === undefined) response.writeHead(404).end("not found");
    else response.writeHead(200, { "content-type": TYPES[path.extname(full)] }).end(body);
  } catch {
    response.writeHead(404).end("not found");
  }
});
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`the to-do list: http://127.0.0.1:${server.address().port}   (server: ${url})`);
});

// Run by Deno: the client queues, sends, reads and listens there. Prints what it found as JSON.

import { Keystead } from "@keystead/client";

const keystead = new Keystead({ url: Deno.args[0] });
const settled = [];
const sync = await keystead.sync({ prefix: "deno:", onSettled: ({ edit, result }) => void settled.push([edit.key, result.status]) });
await sync.put("deno:doc", { from: "deno" });
await sync.put("deno:conflict", 1, { ifVersion: 7 });
const pending = await sync.get("deno:doc");
await sync.flush();
// Another's change, by the stream of events.
const documents = keystead.documents();
await documents.put("deno:other", 1);
while ((await sync.get("deno:other")) !== 1) await new Promise((resolve) => setTimeout(resolve, 10));
await sync.close();
const limit = await keystead.limits.check("none", "k").catch((error) => error.code);
const stored = await documents.get("deno:doc");
const unused = [typeof indexedDB, typeof document];
console.log(JSON.stringify({ pending, settled, stored, limit, unused }));

// A to-do list that works offline. One document for each item: { text, done, at }.

import { Keystead } from "@keystead/client";

const config = await (await fetch("config.json")).json();
const $ = (id) => document.getElementById(id);
const PREFIX = "todo:";

const keystead = new Keystead({ url: config.url, token: config.token });
const sync = await keystead.sync({
  prefix: PREFIX,
  // An edit that did not win is shown with what did.
  onSettled({ edit, result }, isOwn) {
    if (!isOwn || result.status === "applied") return;
    const mine = JSON.stringify(edit.delete ? "deleted" : edit.value);
    const theirs = result.winner?.deleted ? "it was deleted" : `it is ${JSON.stringify(result.winner?.value ?? null)}`;
    const why = result.error ? result.error.message : `another device was later: ${theirs}`;
    notice(`Your change (${edit.field ?? "all"}: ${mine}) was not made: ${why}.`);
  },
});
// For the tests of this page, and for whoever opens the console.
globalThis.sync = sync;

sync.watch(() => void render());
addEventListener("online", () => void render());
addEventListener("offline", () => void render());

$("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (text === "") return;
  $("text").value = "";
  await sync.put(PREFIX + crypto.randomUUID(), { text, done: false, at: Date.now() });
});

let isRendering = false;
let again = false;

/** Draws the list. Changes that come meanwhile are drawn afterwards. */
async function render() {
  again = true;
  if (isRendering) return;
  isRendering = true;
  try {
    while (again) {
      again = false;
      const [items, status] = await Promise.all([sync.list(), sync.status()]);
      draw(items.sort((a, b) => a.value.at - b.value.at), status);
    }
  } catch (error) {
    $("status").dataset.state = "failed";
    $("words").textContent = `this device's storage has failed: ${error.message}`;
  } finally {
    isRendering = false;
  }
}

function draw(items, { pending, error }) {
  const isOffline = error !== undefined || !navigator.onLine;
  const edits = pending === 1 ? "1 edit" : `${pending} edits`;
  const state = isOffline ? "offline" : pending > 0 ? "sending" : "saved";
  const words = { offline: pending ? `offline, ${edits} stored here` : "offline", sending: `sending ${edits}`, saved: "all saved" };
  $("status").dataset.state = state;
  $("words").textContent = words[state];
  $("empty").hidden = items.length > 0;
  const old = new Map([...$("items").children].map((node) => [node.dataset.key, node]));
  const nodes = items.map((item) => {
    const node = old.get(item.key) ?? create(item.key);
    const edit = node.querySelector(".edit");
    // What is being typed is not overwritten.
    if (edit !== document.activeElement) edit.value = edit.title = item.value.text ?? "";
    node.querySelector(".done").checked = item.value.done === true;
    node.classList.toggle("is-pending", item.isPending);
    return node;
  });
  for (const [n, node] of nodes.entries()) {
    if ($("items").children[n] !== node) $("items").insertBefore(node, $("items").children[n] ?? null);
  }
  while ($("items").children.length > nodes.length) $("items").lastElementChild.remove();
}

function create(key) {
  const node = $("item").content.firstElementChild.cloneNode(true);
  node.dataset.key = key;
  node.querySelector(".done").addEventListener("change", (event) => sync.set(key, "done", event.target.checked));
  node.querySelector(".edit").addEventListener("change", (event) => sync.set(key, "text", event.target.value));
  node.querySelector(".delete").addEventListener("click", () => sync.delete(key));
  return node;
}

function notice(words) {
  const line = document.createElement("p");
  line.append(words);
  const close = document.createElement("button");
  close.textContent = "Close";
  close.addEventListener("click", () => line.remove());
  line.append(close);
  $("notices").append(line);
}

await render();

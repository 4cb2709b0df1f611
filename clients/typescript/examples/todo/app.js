// A to-do list that works offline. One document for each item: { text, done, at }.

import { Keystead } from "@keystead/client";

const config = await (await fetch("config.json")).json();
const $ = (id) => document.getElementById(id);
const PREFIX = "todo:";

const keystead = new Keystead({ url: config.url, token: config.token });
const sync = await keystead.sync({
  prefix: PREFIX,
  // An edit that did not win is shown with what did, also if the page was reloaded since.
  onSettled({ edit, result }, isOwn) {
    if (isOwn && result.status !== "applied") showLoser(edit, result);
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
  stored(sync.put(PREFIX + crypto.randomUUID(), { text, done: false, at: Date.now() }));
});

/** An edit returns when it is stored on this device. If it cannot be, that is shown. */
function stored(edit) {
  edit.catch((error) => notice(`This change cannot be stored on this device: ${error.message}`));
}

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
  $("status").title = error === undefined ? "" : `The last attempt to reach the server failed: ${error.message}`;
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
  node.querySelector(".done").addEventListener("change", (event) => stored(sync.set(key, "done", event.target.checked)));
  node.querySelector(".edit").addEventListener("change", (event) => stored(sync.set(key, "text", event.target.value)));
  node.querySelector(".delete").addEventListener("click", () => stored(sync.delete(key)));
  return node;
}

/** What a change does, in words. */
function inWords({ field, value, deleted }) {
  if (deleted) return "deleted it";
  if (field === "done") return value ? "marked it as done" : "marked it as not done";
  return `wrote "${field === undefined ? value?.text : value}"`;
}

function showLoser(edit, { winner, error }) {
  const mine = inWords({ ...edit, deleted: edit.delete });
  if (winner === undefined) return notice(`Not saved: you ${mine}. ${error?.message ?? ""}`);
  const theirs = inWords({ field: edit.field, value: winner.value, deleted: winner.deleted });
  const { key, field, value } = edit;
  // The same edit, made now.
  const again = () => (edit.delete ? sync.delete(key) : field === undefined ? sync.put(key, value) : sync.set(key, field, value));
  notice(`Not saved: you ${mine}, but after that another device ${theirs}.`, { label: "Use mine", run: again });
}

/** Shows a line until it is closed. */
function notice(words, action) {
  const line = document.createElement("p");
  const text = document.createElement("span");
  text.textContent = words;
  line.append(text);
  const button = (label, run) => {
    const one = document.createElement("button");
    one.textContent = label;
    one.addEventListener("click", () => {
      line.remove();
      if (run !== undefined) stored(run());
    });
    line.append(one);
  };
  if (action !== undefined) button(action.label, action.run);
  button("Close");
  $("notices").append(line);
}

await render();

// What a server should make of edits: the rule of docs/sync.md, of the edits as a set, with nothing of the server's way to it.

import assert from "node:assert/strict";

/** Which of two edits is the later one. */
function isLater(one, other) {
  if (one.ts !== other.ts) return one.ts > other.ts;
  if (one.client !== other.client) return one.client > other.client;
  return one.id > other.id;
}

const latest = (edits) => edits.reduce((last, edit) => (last === undefined || isLater(edit, last) ? edit : last), undefined);

export class Oracle {
  /** What became of each edit: its client, its id, its status, and the members of it that lost. */
  outcomes = [];
  #known = new Set();
  /** By key. */
  #edits = new Map();

  /** A request and its response, in the order in which they arrived at the server. */
  arrived({ client, items }, { results }) {
    for (const [n, item] of items.entries()) {
      const { id, status, ts, lost = [] } = results[n];
      assert.equal(id, item.id);
      const name = `${client} ${id}`;
      if (this.#known.has(name)) continue;
      this.#known.add(name);
      assert.notEqual(status, "retry");
      const edit = { ...item, client, ts };
      const before = this.#edits.get(item.key) ?? [];
      if (status !== "conflict") {
        const isStale = before.some((other) => (other.field ?? item.field) === item.field && isLater(other, edit));
        assert.equal(status, isStale ? "stale" : "applied", `${name} is ${status} and should be ${isStale ? "stale" : "applied"}`);
        if (status === "applied") assert.deepEqual(lost.toSorted(), lostOf(edit, before));
        this.#edits.set(item.key, [...before, edit]);
      }
      this.outcomes.push(`${name} ${status} ${lost}`);
    }
  }

  /** The documents that all edits make, in any order. */
  documents() {
    const all = [...this.#edits].map(([key, edits]) => [key, documentOf(edits)]);
    return Object.fromEntries(all.filter(([, value]) => value !== undefined));
  }
}

/** The last edit of each member, of those after the last edit of the whole document. */
function members(edits) {
  const whole = latest(edits.filter(({ field }) => field === undefined));
  const names = [...new Set(edits.map(({ field }) => field))].filter((field) => field !== undefined);
  const last = names.map((name) => latest(edits.filter(({ field }) => field === name)));
  return { whole, fields: last.filter((edit) => whole === undefined || isLater(edit, whole)) };
}

function documentOf(edits) {
  const { whole, fields } = members(edits);
  const isThere = whole !== undefined && !whole.delete;
  if (fields.length === 0) return isThere ? whole.value : undefined;
  if (!isThere && fields.every((edit) => edit.delete)) return undefined;
  const document = isThere && typeof whole.value === "object" ? { ...whole.value } : {};
  for (const edit of fields) {
    if (edit.delete) delete document[edit.field];
    else document[edit.field] = edit.value;
  }
  return document;
}

/** Members that later edits had changed before this one of the whole document arrived. */
function lostOf(edit, before) {
  if (edit.field !== undefined) return [];
  const { fields } = members([...before, edit]);
  if (edit.delete && fields.every((field) => field.delete)) return [];
  return fields.map(({ field }) => field).toSorted();
}

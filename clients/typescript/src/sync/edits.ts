// Edits on documents: what a program sees, and what is left when an edit is settled. Pure.

import { KeysteadError } from "../http.js";
import { ID_GAP } from "./bounds.js";
import type { Clock, Edit, Meta, Page, Pending, Row, Settled } from "./types.js";

/** A document after an edit; undefined: there is none. The same as on the server. */
export function edited(value: unknown, edit: Pending): unknown {
  if (edit.field === undefined) return edit.delete ? undefined : edit.value;
  const members = isObject(value) ? { ...value } : {};
  if (edit.delete) {
    if (value === undefined) return undefined;
    delete members[edit.field];
  } else {
    // Not an assignment: a member may be named `__proto__`.
    Object.defineProperty(members, edit.field, { value: edit.value, writable: true, enumerable: true, configurable: true });
  }
  return members;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A document with the pending edits on top. */
export function overlaid(row: Row | undefined, pending: readonly Pending[]): unknown {
  return pending.reduce<unknown>((value, edit) => edited(value, edit), row?.value);
}

/** What is stored at first. */
export function firstMeta(client: string): Meta {
  const zero = { lastId: 0, shift: 0, lastTs: 0, offsetMs: 0, generation: 0, queueEdits: 0, queueBytes: 0 };
  return { client, cursor: "", isAccepted: false, ...zero };
}

/** An edit as JSON has it, with its bytes: what is read from the queue is what the server will have. */
export function asJson(edit: Edit): { edit: Edit; bytes: number } {
  const text = JSON.stringify(edit);
  const copy = JSON.parse(text) as Edit;
  if ("value" in edit && !("value" in copy)) throw new TypeError("a value must be JSON; undefined is none: delete it");
  return { edit: copy, bytes: new TextEncoder().encode(text).length };
}

/** The most that may be queued. */
export interface QueueBounds {
  edits: number;
  bytes: number;
}

/** An edit with its id and time. Ids are never used again, also if the browser's storage was cleared: they begin with the time. */
export function stamped(
  { edit, bytes }: { edit: Edit; bytes: number },
  tab: string,
  meta: Meta,
  row: Row | undefined,
  now: number,
  bounds: QueueBounds,
): Pending {
  if (meta.queueEdits + 1 > bounds.edits || meta.queueBytes + bytes > bounds.bytes) {
    const words = `${meta.queueEdits} edits of ${meta.queueBytes} bytes wait to be sent, and at most ${bounds.edits} of ${bounds.bytes} may`;
    throw new KeysteadError("offline_queue_full", words, 0);
  }
  meta.queueEdits += 1;
  meta.queueBytes += bytes;
  meta.lastId = meta.lastId === 0 ? now : meta.lastId + 1;
  // Never before a time that was seen: a later edit must win over an earlier one, whatever the clock does.
  meta.lastTs = Math.max(now + meta.offsetMs, meta.lastTs);
  const seen = row === undefined ? {} : { seen: row.version };
  return { ...edit, ...seen, id: meta.lastId, ts: meta.lastTs, tab, bytes } as Pending;
}

/** After an edit left the queue. */
export function dequeued(meta: Meta, edit: Pending): void {
  meta.queueEdits -= 1;
  meta.queueBytes -= edit.bytes;
}

/**
 * What of a response is settled. Ids that go back are learned from: later ones are greater. If the server has not accepted any id of this
 * storage, it was cleared, and the ids of an earlier one are ahead: then nothing of what goes back is settled, because it is new, and is
 * sent again. Otherwise it may be an old copy of the storage, and sending it again could undo later edits: then it is reported.
 */
export function accepted(meta: Meta, settled: Settled[]): Settled[] {
  // An edit that is made after it was seen what won wins over that, also if the winner's clock is ahead.
  for (const { result } of settled) meta.lastTs = Math.max(meta.lastTs, (result.winner?.ts ?? 0) + 1);
  const goesBack = ({ edit, result }: Settled) => (result.error?.lastId ?? 0) >= edit.id + meta.shift;
  const back = settled.filter(goesBack);
  const others = settled.filter((one) => !goesBack(one));
  const isNew = !meta.isAccepted;
  meta.isAccepted ||= others.length > 0;
  const last = Math.max(0, ...back.map(({ result }) => result.error?.lastId ?? 0));
  const [first] = back;
  if (first === undefined || last + 2 * ID_GAP > Number.MAX_SAFE_INTEGER) return settled;
  // Above those of all slots: the server knows the last id of each.
  meta.shift = last + ID_GAP - first.edit.id;
  return isNew ? others : settled;
}

/** The document after an edit was settled; null: it was deleted; undefined: it stays as it is. */
export function afterSettled({ edit, result }: Settled, row: Row | undefined, generation: number): Row | null | undefined {
  const current = (value: unknown, version: number | null | undefined) => {
    if (value === undefined || typeof version !== "number") return null;
    // This device knows more already.
    return row !== undefined && row.version >= version ? undefined : { key: edit.key, value, version, generation };
  };
  if (result.status === "applied" && !result.lost) {
    // What others changed at the same time is in the next page.
    return current(edited(row?.value, edit), result.version);
  }
  const winner = result.winner;
  if (winner === undefined || winner.omitted) return undefined;
  if (winner.version === null) return null;
  const isWhole = edit.field === undefined || result.status === "conflict";
  if (isWhole) return current(winner.value, winner.version);
  const { value, deleted } = winner;
  const won = { ...edit, delete: undefined, value, ...(deleted ? { delete: true as const } : {}) } as Pending;
  return current(edited(row?.value, won) ?? {}, winner.version);
}

/** Remembers the clock of the server. */
export function clocked(meta: Meta, { offsetMs, serverTs }: Clock): void {
  // Small differences are the way to the server.
  meta.offsetMs = Math.abs(offsetMs) < 2000 ? 0 : offsetMs;
  // A clock that was ahead must not keep all later edits ahead.
  meta.lastTs = meta.lastTs > serverTs + 60_000 ? serverTs : Math.max(meta.lastTs, serverTs);
}

/** What a page changes. Returns the documents, and those to delete. */
export function paged(meta: Meta, page: Page): { put: Row[]; deleted: string[] } {
  if (page.reset) meta.generation += 1;
  meta.cursor = page.cursor;
  const put: Row[] = [];
  const deleted: string[] = [];
  for (const change of page.changes) {
    if ("deleted" in change) deleted.push(change.key);
    else put.push({ key: change.key, value: change.value, version: change.version, generation: meta.generation });
  }
  return { put, deleted };
}

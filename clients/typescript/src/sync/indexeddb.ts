// A store in IndexedDB, which all tabs of a site share. Every function is one transaction, so tabs do not disturb each other, and a tab
// that is killed leaves all of a step or nothing.

import { openDB, type DBSchema, type IDBPDatabase, type IDBPTransaction } from "idb";

import { REPORTS_MAX } from "./bounds.js";
import { accepted, afterSettled, clocked, dequeued, paged } from "./edits.js";
import type { Chunk, Clock, Meta, Page, Pending, Row, Settled, Store } from "./types.js";

interface Schema extends DBSchema {
  meta: { key: string; value: Meta };
  queue: { key: number; value: Pending; indexes: { key: string } };
  documents: { key: string; value: Row };
  reports: { key: number; value: Settled };
}

type Names = ("meta" | "queue" | "documents" | "reports")[];
type Transaction = IDBPTransaction<Schema, Names, "readwrite">;

const META = "meta";
const ALL: Names = ["meta", "queue", "documents", "reports"];

export class IndexedDbStore implements Store {
  #db: Promise<IDBPDatabase<Schema>> | undefined;
  #isClosed = false;
  /** What to begin with, also if somebody clears the browser's storage later. */
  #first: Meta | undefined;

  constructor(readonly name: string) {}

  #open(): Promise<IDBPDatabase<Schema>> {
    if (this.#isClosed) return Promise.reject(new Error("the store is closed"));
    this.#db ??= openDB<Schema>(this.name, 1, {
      upgrade(db) {
        db.createObjectStore("meta");
        db.createObjectStore("queue", { keyPath: "id" }).createIndex("key", "key");
        db.createObjectStore("documents", { keyPath: "key" });
        db.createObjectStore("reports", { keyPath: "edit.id" });
      },
      // Another tab deletes the database or has a newer version: it is opened again when it is needed.
      blocking: (_current, _blocked, event) => {
        (event.target as IDBDatabase).close();
        this.#db = undefined;
      },
      terminated: () => (this.#db = undefined),
    }).catch((error: unknown) => {
      this.#db = undefined;
      throw error;
    });
    return this.#db;
  }

  async #change<T>(run: (transaction: Transaction, meta: Meta) => Promise<T>): Promise<T> {
    // Strict: what `put` has returned survives a loss of power as far as the browser can promise it.
    const transaction = (await this.#open()).transaction(ALL, "readwrite", { durability: "strict" });
    try {
      const meta = (await transaction.objectStore("meta").get(META)) ?? structuredClone(this.#first);
      if (meta === undefined) throw new Error("the store has not been opened");
      const result = await run(transaction, meta);
      await transaction.objectStore("meta").put(meta, META);
      await transaction.done;
      return result;
    } catch (error) {
      transaction.done.catch(() => undefined);
      try {
        transaction.abort();
      } catch {
        // It has ended already.
      }
      throw error;
    }
  }

  async meta(first: Meta): Promise<Meta> {
    this.#first ??= first;
    const transaction = (await this.#open()).transaction("meta", "readwrite");
    const meta = await transaction.store.get(META);
    if (meta === undefined) await transaction.store.put(first, META);
    await transaction.done;
    this.#first = { ...this.#first, client: (meta ?? first).client };
    return meta ?? first;
  }

  append(key: string, make: (meta: Meta, row: Row | undefined) => Pending): Promise<Pending> {
    return this.#change(async (transaction, meta) => {
      const pending = make(meta, await transaction.objectStore("documents").get(key));
      await transaction.objectStore("queue").put(pending);
      return pending;
    });
  }

  async first(count: number): Promise<Chunk> {
    const transaction = (await this.#open()).transaction(["meta", "queue"]);
    const edits = await transaction.objectStore("queue").getAll(null, count);
    const meta = await transaction.objectStore("meta").get(META);
    return { edits, shift: meta?.shift ?? 0 };
  }

  async queue(key?: string): Promise<Pending[]> {
    const db = await this.#open();
    return key === undefined ? db.getAll("queue") : db.getAllFromIndex("queue", "key", key);
  }

  async row(key: string): Promise<Row | undefined> {
    return (await this.#open()).get("documents", key);
  }

  async rows(prefix: string): Promise<Row[]> {
    const range = prefix === "" ? null : IDBKeyRange.lowerBound(prefix);
    const rows = await (await this.#open()).getAll("documents", range);
    return rows.filter((row) => row.key.startsWith(prefix));
  }

  settle(settled: Settled[], clock?: Clock): Promise<Settled[]> {
    return this.#change(async (transaction, meta) => {
      const [queue, documents] = [transaction.objectStore("queue"), transaction.objectStore("documents")];
      const reports = transaction.objectStore("reports");
      if (clock !== undefined) clocked(meta, clock);
      const done: Settled[] = [];
      for (const one of accepted(meta, settled)) {
        if ((await queue.getKey(one.edit.id)) === undefined) continue;
        await queue.delete(one.edit.id);
        dequeued(meta, one.edit);
        const row = afterSettled(one, await documents.get(one.edit.key), meta.generation);
        if (row === null) await documents.delete(one.edit.key);
        else if (row !== undefined) await documents.put(row);
        await reports.put(one);
        done.push(one);
      }
      const excess = (await reports.count()) - REPORTS_MAX;
      if (excess > 0) for (const id of await reports.getAllKeys(null, excess)) await reports.delete(id);
      return done;
    });
  }

  async reports(): Promise<Settled[]> {
    return (await this.#open()).getAll("reports");
  }

  async reported(ids: number[]): Promise<void> {
    const transaction = (await this.#open()).transaction("reports", "readwrite");
    await Promise.all([...ids.map((id) => transaction.store.delete(id)), transaction.done]);
  }

  page(page: Page): Promise<void> {
    return this.#change(async (transaction, meta) => {
      const documents = transaction.objectStore("documents");
      const { put, deleted } = paged(meta, page);
      for (const row of put) await documents.put(row);
      for (const key of deleted) await documents.delete(key);
      if (!page.complete) return;
      for (let cursor = await documents.openCursor(); cursor !== null; cursor = await cursor.continue()) {
        if (cursor.value.generation < meta.generation) await cursor.delete();
      }
    });
  }

  close(): void {
    this.#isClosed = true;
    void this.#db?.then((db) => db.close()).catch(() => undefined);
  }
}

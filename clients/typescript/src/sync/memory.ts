// A store in memory: for programs without IndexedDB, and for tests. What is queued is lost with the process.

import { afterSettled, clocked, paged } from "./edits.js";
import type { Clock, Meta, Page, Pending, Row, Settled, Store } from "./types.js";

export class MemoryStore implements Store {
  #meta: Meta | undefined;
  readonly #queue = new Map<number, Pending>();
  readonly #rows = new Map<string, Row>();

  async meta(first: Meta): Promise<Meta> {
    this.#meta ??= structuredClone(first);
    return { ...this.#meta };
  }

  async append(key: string, make: (meta: Meta, row: Row | undefined) => Pending): Promise<Pending> {
    const pending = structuredClone(make(this.#open(), this.#rows.get(key)));
    this.#queue.set(pending.id, pending);
    return pending;
  }

  async first(count: number): Promise<Pending[]> {
    return [...this.#queue.values()].sort((a, b) => a.id - b.id).slice(0, count);
  }

  async queue(key?: string): Promise<Pending[]> {
    return (await this.first(Infinity)).filter((edit) => key === undefined || edit.key === key);
  }

  async row(key: string): Promise<Row | undefined> {
    return this.#rows.get(key);
  }

  async rows(prefix: string): Promise<Row[]> {
    return [...this.#rows.values()].filter((row) => row.key.startsWith(prefix));
  }

  async settle(settled: Settled[], clock?: Clock): Promise<void> {
    const meta = this.#open();
    if (clock !== undefined) clocked(meta, clock);
    for (const one of settled) {
      this.#queue.delete(one.edit.id);
      const row = afterSettled(one, this.#rows.get(one.edit.key), meta.generation);
      if (row === null) this.#rows.delete(one.edit.key);
      else if (row !== undefined) this.#rows.set(row.key, row);
    }
  }

  async page(page: Page): Promise<void> {
    const meta = this.#open();
    const { put, deleted } = paged(meta, page);
    for (const row of put) this.#rows.set(row.key, row);
    for (const key of deleted) this.#rows.delete(key);
    if (page.complete) {
      for (const row of this.#rows.values()) if (row.generation < meta.generation) this.#rows.delete(row.key);
    }
  }

  close(): void {}

  #open(): Meta {
    if (this.#meta === undefined) throw new Error("the store has not been opened");
    return this.#meta;
  }
}

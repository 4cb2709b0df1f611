// A store in memory: for programs without IndexedDB, and for tests. What is queued is lost with the process.

import { REPORTS_MAX } from "./bounds.js";
import { accepted, afterSettled, clocked, dequeued, paged } from "./edits.js";
import type { Chunk, Clock, Meta, Page, Pending, Row, Settled, Store } from "./types.js";

export class MemoryStore implements Store {
  #meta: Meta | undefined;
  readonly #queue = new Map<number, Pending>();
  readonly #rows = new Map<string, Row>();
  readonly #reports = new Map<number, Settled>();

  async meta(first: Meta): Promise<Meta> {
    this.#meta ??= structuredClone(first);
    return { ...this.#meta };
  }

  async append(key: string, make: (meta: Meta, row: Row | undefined) => Pending): Promise<Pending> {
    const meta = { ...this.#open() };
    const pending = structuredClone(make(meta, this.#rows.get(key)));
    this.#queue.set(pending.id, pending);
    this.#meta = meta;
    return pending;
  }

  async first(count: number): Promise<Chunk> {
    return { edits: this.#sorted().slice(0, count), shift: this.#open().shift };
  }

  async queue(key?: string): Promise<Pending[]> {
    return this.#sorted().filter((edit) => key === undefined || edit.key === key);
  }

  async row(key: string): Promise<Row | undefined> {
    return this.#rows.get(key);
  }

  async rows(prefix: string): Promise<Row[]> {
    return [...this.#rows.values()].filter((row) => row.key.startsWith(prefix));
  }

  async settle(settled: Settled[], clock?: Clock): Promise<Settled[]> {
    const meta = this.#open();
    if (clock !== undefined) clocked(meta, clock);
    const done = accepted(meta, settled).filter(({ edit }) => this.#queue.delete(edit.id));
    for (const one of done) {
      dequeued(meta, one.edit);
      const row = afterSettled(one, this.#rows.get(one.edit.key), meta.generation);
      if (row === null) this.#rows.delete(one.edit.key);
      else if (row !== undefined) this.#rows.set(row.key, row);
      this.#reports.set(one.edit.id, one);
    }
    for (const id of [...this.#reports.keys()].slice(0, Math.max(0, this.#reports.size - REPORTS_MAX))) this.#reports.delete(id);
    return done;
  }

  async reports(): Promise<Settled[]> {
    return [...this.#reports.values()];
  }

  async reported(ids: number[]): Promise<void> {
    for (const id of ids) this.#reports.delete(id);
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

  #sorted(): Pending[] {
    return [...this.#queue.values()].sort((a, b) => a.id - b.id);
  }

  #open(): Meta {
    if (this.#meta === undefined) throw new Error("the store has not been opened");
    return this.#meta;
  }
}

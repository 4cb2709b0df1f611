// Documents that are here also when the server cannot be reached: reads see the edits that are queued, and edits return when they are
// stored on this device.

import type { Http } from "../http.js";
import { Backoff } from "./backoff.js";
import { QUEUE_BYTES_MAX, QUEUE_EDITS_MAX } from "./bounds.js";
import { asJson, firstMeta, overlaid, stamped, type QueueBounds } from "./edits.js";
import { MemoryStore } from "./memory.js";
import { Reports, shown, type OnSettled } from "./reports.js";
import { Tabs, type Message } from "./tabs.js";
import type { Edit, Meta, Pending, Result, Settled, Store } from "./types.js";
import { Uploader } from "./uploader.js";

export interface SyncOptions {
  /** The prefix of the keys. */
  prefix: string;
  /** The name of this client, if its token is for one. Default: a random one, which is stored. */
  client?: string;
  /** The name of the database on this device, for all tabs of a site. Default: from the prefix and the client. */
  name?: string;
  /** Where it is stored. Default: IndexedDB, or memory where there is none. */
  store?: Store;
  /**
   * An edit was settled: applied, or not, with what won. Called in every tab; `isOwn` in the one that made the edit, or if that is closed,
   * in one that is open. If no tab is open, or it fails, it is called after the next load: at least one time for each edit.
   */
  onSettled?: OnSettled;
  /** Milliseconds between attempts to fetch when nothing else is a reason to. Default: 30 seconds. */
  intervalMs?: number;
  /** Whether the server reports changes as they happen. Default: true. */
  live?: boolean;
  /** How long to wait after a failure, if not as usual. */
  backoff?: Backoff;
  /** The most edits that wait to be sent; the next one is an error (`offline_queue_full`). Default: 10,000. */
  queueEditsMax?: number;
  /** The most bytes of them, as JSON. Default: 32 MiB. */
  queueBytesMax?: number;
}

export interface EditOptions {
  /** The edit only applies to this version of the document; 0: to none. Otherwise it is settled as `conflict`. */
  ifVersion?: number;
}

export interface SyncStatus {
  /** Edits that are not settled. */
  pending: number;
  /** Whether this tab uploads. */
  leads: boolean;
  /** Why the last attempt failed, if it did. */
  error: Error | undefined;
  /** How far this device's clock is off, if that is much. */
  skewMs: number;
}

/** An edit that is stored on this device. */
export interface Queued {
  id: number;
  /** What becomes of it, as long as this tab is open. */
  settled: Promise<Result>;
}

export class Sync<T> {
  readonly client: string;
  readonly prefix: string;
  readonly #store: Store;
  readonly #tabs: Tabs;
  readonly #uploader: Uploader;
  readonly #reports: Reports;
  readonly #bounds: QueueBounds;
  readonly #watchers = new Set<(keys: string[] | null) => void>();
  readonly #listeners: (() => void)[] = [];
  readonly #leading: Promise<void>;
  #leads = false;
  #error: Error | undefined;
  #skewMs = 0;

  static async open<T>(http: Http, options: SyncOptions): Promise<Sync<T>> {
    const name = options.name ?? `keystead ${options.client ?? ""} ${options.prefix}`;
    const isShared = options.store === undefined && typeof indexedDB !== "undefined";
    const store = options.store ?? (isShared ? await shared(name) : new MemoryStore());
    const client = options.client ?? crypto.randomUUID();
    const first = firstMeta(client);
    const meta = await store.meta(first);
    if (options.client !== undefined && meta.client !== client) {
      throw new Error(`the database '${name}' belongs to the client '${meta.client}': use another name`);
    }
    const tabs = await Tabs.join(name, isShared);
    return new Sync<T>(http, options, store, { ...first, client: meta.client }, tabs);
  }

  private constructor(http: Http, options: SyncOptions, store: Store, first: Meta, tabs: Tabs) {
    this.client = first.client;
    this.prefix = options.prefix;
    this.#store = store;
    this.#bounds = { edits: options.queueEditsMax ?? QUEUE_EDITS_MAX, bytes: options.queueBytesMax ?? QUEUE_BYTES_MAX };
    this.#tabs = tabs;
    tabs.onMessage = (message) => this.#receive(message);
    this.#reports = new Reports(store, tabs, options.onSettled);
    const uploader = {
      http,
      store,
      first,
      prefix: options.prefix,
      isLive: options.live ?? true,
      intervalMs: options.intervalMs ?? 30_000,
      backoff: options.backoff ?? new Backoff(),
      onBegin: () => this.#reports.recover(),
      onSettled: (settled: Settled[]) => this.#reports.settled(settled),
      onChanged: (keys: string[] | null) => {
        tabs.send({ type: "changed", keys });
        this.#changed(keys);
      },
      onState: (error: Error | undefined, skewMs: number | undefined) => {
        this.#error = error;
        this.#skewMs = skewMs ?? this.#skewMs;
        this.#changed([]);
      },
    };
    this.#uploader = new Uploader(uploader);
    this.#leading = tabs.lead(async (signal) => {
      if (signal.aborted) return;
      this.#leads = true;
      await this.#uploader.run(signal);
    });
    this.#leading.catch((error: unknown) => (this.#error = error as Error));
    this.#listen();
  }

  /** The document with all edits that are queued, or undefined if there is none. */
  async get(key: string): Promise<T | undefined> {
    // The queue first: an edit that is settled in between is then in both, which changes nothing.
    const queue = await this.#store.queue(key);
    return overlaid(await this.#store.row(key), queue) as T | undefined;
  }

  /** All documents whose keys begin so, with all edits that are queued, in the order of their keys. */
  async list(prefix = this.prefix): Promise<{ key: string; value: T; isPending: boolean }[]> {
    const queue = await this.#store.queue();
    const rows = new Map((await this.#store.rows(prefix)).map((row) => [row.key, row]));
    const edits = new Map<string, Pending[]>();
    for (const edit of queue) {
      if (!edit.key.startsWith(prefix)) continue;
      const mine = edits.get(edit.key);
      if (mine === undefined) edits.set(edit.key, [edit]);
      else mine.push(edit);
    }
    const keys = [...new Set([...rows.keys(), ...edits.keys()])].sort();
    return keys.flatMap((key) => {
      const value = overlaid(rows.get(key), edits.get(key) ?? []) as T | undefined;
      return value === undefined ? [] : [{ key, value, isPending: edits.has(key) }];
    });
  }

  /** The version of the document that this device knows from the server; 0: none. */
  async version(key: string): Promise<number> {
    return (await this.#store.row(key))?.version ?? 0;
  }

  /** Creates or replaces a document. */
  put(key: string, value: T, options: EditOptions = {}): Promise<Queued> {
    return this.#edit({ key, value, ...options });
  }

  /** Changes one member of a document. Edits of different members do not conflict. */
  set<F extends keyof T & string>(key: string, field: F, value: T[F], options: EditOptions = {}): Promise<Queued> {
    return this.#edit({ key, field, value, ...options });
  }

  /** Deletes a document, or one member of it. */
  delete(key: string, options: EditOptions & { field?: keyof T & string } = {}): Promise<Queued> {
    return this.#edit({ key, delete: true, ...options });
  }

  /** Calls back when documents or the status may have changed, with their keys; null: any. Returns how to stop it. */
  watch(callback: (keys: string[] | null) => void): () => void {
    this.#watchers.add(callback);
    return () => this.#watchers.delete(callback);
  }

  async status(): Promise<SyncStatus> {
    const pending = (await this.#store.queue()).length;
    return { pending, leads: this.#leads, error: this.#error, skewMs: this.#skewMs };
  }

  /** Starts an attempt now, and returns when nothing is queued any more. */
  async flush(signal?: AbortSignal): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      if ((await this.#store.first(1)).edits.length === 0) return;
      this.#attempt();
      await new Promise<void>((resolve, reject) => {
        const stop = this.watch(() => done());
        const timer = setTimeout(() => done(), 1000);
        const abort = () => (done(), reject(signal?.reason));
        const done = () => {
          stop();
          clearTimeout(timer);
          signal?.removeEventListener("abort", abort);
          resolve();
        };
        signal?.addEventListener("abort", abort, { once: true });
      });
    }
  }

  /** Stops. What is queued is sent after the next start. */
  async close(): Promise<void> {
    for (const stop of this.#listeners) stop();
    this.#tabs.close();
    await this.#leading.catch(() => undefined);
    this.#leads = false;
    this.#store.close();
  }

  async #edit(edit: Edit): Promise<Queued> {
    if (!edit.key.startsWith(this.prefix)) throw new Error(`the key '${edit.key}' does not begin with '${this.prefix}'`);
    const json = asJson(edit);
    let id: number | undefined;
    let settled!: Promise<Result>;
    try {
      await this.#store.append(edit.key, (meta, row) => {
        const pending = stamped(json, this.#tabs.id, meta, row, Date.now(), this.#bounds);
        // Before it is stored: another tab may send it at once.
        id = pending.id;
        settled = this.#reports.expect(id);
        return pending;
      });
    } catch (error) {
      if (id !== undefined) this.#reports.forget(id);
      throw error;
    }
    this.#changed([edit.key]);
    this.#tabs.send({ type: "queued" });
    this.#tabs.send({ type: "changed", keys: [edit.key] });
    this.#uploader.wake();
    return { id: id as number, settled };
  }

  #attempt(): void {
    this.#uploader.wake();
    this.#tabs.send({ type: "flush" });
  }

  #receive(message: Message): void {
    if (message.type === "changed") this.#changed(message.keys);
    else if (message.type === "settled") this.#reports.receive(message.settled);
    else if (message.type === "reports") this.#reports.receiveOwn(message.settled);
    else this.#uploader.wake();
  }

  #changed(keys: string[] | null): void {
    for (const watcher of this.#watchers) {
      try {
        watcher(keys);
      } catch (error) {
        shown(error);
      }
    }
  }

  /** What is a reason to try now. */
  #listen(): void {
    const on = (target: EventTarget, type: string, run: () => void) => {
      target.addEventListener(type, run);
      this.#listeners.push(() => target.removeEventListener(type, run));
    };
    const scope = globalThis as { addEventListener?: unknown; document?: Document };
    if (typeof scope.addEventListener === "function") on(globalThis as unknown as EventTarget, "online", () => this.#attempt());
    if (typeof document !== "undefined") {
      on(document, "visibilitychange", () => {
        if (document.visibilityState === "visible") this.#attempt();
      });
    }
  }
}

async function shared(name: string): Promise<Store> {
  const { IndexedDbStore } = await import("./indexeddb.js");
  return new IndexedDbStore(name);
}

// Sends the queue and fetches changes, in the tab that leads. One chunk is in flight at a time, with the lowest ids of the queue: that is
// what lets the server detect what it has seen, and keeps the order. A failure of any kind is followed by another attempt.

import { KeysteadError, events, type Http } from "../http.js";
import { Backoff } from "./backoff.js";
import { CHUNK_EDITS_MAX } from "./bounds.js";
import type { Chunk, Meta, Page, Result, Settled, Store } from "./types.js";

/** Statuses after which a request is sent again as it is, besides those of the server's failures. */
const AGAIN = [0, 401, 403, 404, 405, 408, 421, 425, 429];

interface Response {
  results: Result[];
  server_ts: number;
  skew_ms?: number;
}

interface Sent {
  settled: Settled[];
  /** How many edits were in the request. */
  sent: number;
}

export interface UploaderOptions {
  http: Http;
  store: Store;
  /** What the store begins with. */
  first: Meta;
  prefix: string;
  isLive: boolean;
  intervalMs: number;
  backoff: Backoff;
  /** Before each attempt. */
  onBegin: () => Promise<void>;
  onSettled: (settled: Settled[]) => Promise<void>;
  onChanged: (keys: string[] | null) => void;
  onState: (error: Error | undefined, skewMs: number | undefined) => void;
}

export class Uploader {
  readonly #options: UploaderOptions;
  #wake: (() => void) | undefined;
  #isAwake = true;
  #chunk = CHUNK_EDITS_MAX;

  constructor(options: UploaderOptions) {
    this.#options = options;
  }

  /** Starts an attempt now, also if it waits after a failure. */
  wake(): void {
    this.#isAwake = true;
    this.#wake?.();
  }

  /** Uploads and fetches until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { backoff, intervalMs, isLive } = this.#options;
    const off = this.#options.http.onToken(() => this.wake());
    const abort = () => this.wake();
    signal.addEventListener("abort", abort);
    const listening = isLive ? this.#listen(signal) : Promise.resolve();
    try {
      while (!signal.aborted) {
        this.#isAwake = false;
        let waitMs = intervalMs;
        try {
          await this.#options.onBegin();
          const isDone = await this.#upload(signal);
          await this.#fetchAll(signal);
          if (isDone) backoff.reset();
          else waitMs = backoff.next();
          this.#options.onState(undefined, undefined);
        } catch (error) {
          if (signal.aborted) return;
          waitMs = backoff.next();
          this.#options.onState(asError(error), undefined);
        }
        await this.#sleep(waitMs);
      }
    } finally {
      signal.removeEventListener("abort", abort);
      off();
      await listening;
    }
  }

  /** Until it is woken, or for a time. */
  async #sleep(ms: number): Promise<void> {
    if (this.#isAwake) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }

  /** Sends the queue, chunk by chunk. False: some edits have to be sent again later. */
  async #upload(signal: AbortSignal): Promise<boolean> {
    for (;;) {
      const chunk = await this.#options.store.first(this.#chunk);
      if (chunk.edits.length === 0) return true;
      const { settled, sent } = await this.#send(chunk, signal);
      if (settled.length < sent) return false;
      // One that was rejected as a whole is among the next few.
      this.#chunk = Math.min(CHUNK_EDITS_MAX, this.#chunk * 2);
    }
  }

  /** Sends a chunk, and returns what was settled of it. */
  async #send({ edits, shift }: Chunk, signal: AbortSignal): Promise<Sent> {
    const { http, first, store } = this.#options;
    const begin = Date.now();
    const items = edits.map(({ tab: _tab, bytes: _bytes, ...item }) => ({ ...item, id: item.id + shift }));
    let response: Response;
    try {
      const body = { client: first.client, client_ts: begin, items };
      response = await http.json<Response>("/sync", { method: "POST", body, signal });
    } catch (error) {
      return await this.#invalid({ edits, shift }, error, signal);
    }
    const results = new Map(response.results.map((result) => [result.id, result]));
    const answered: Settled[] = [];
    for (const edit of edits) {
      const result = results.get(edit.id + shift);
      if (result !== undefined && result.status !== "retry") answered.push({ edit, result: { ...result, id: edit.id } });
    }
    // The middle of the way to the server and back.
    const offsetMs = response.server_ts - (begin + Date.now()) / 2;
    const settled = await store.settle(answered, { offsetMs: Math.round(offsetMs), serverTs: response.server_ts });
    await this.#report(settled);
    this.#options.onState(undefined, response.skew_ms ?? 0);
    return { settled, sent: edits.length };
  }

  /** A request that the server rejects as a whole: smaller ones find the edit that it is about, so that the others are not held back. */
  async #invalid({ edits, shift }: Chunk, error: unknown, signal: AbortSignal): Promise<Sent> {
    const isInvalid =
      error instanceof KeysteadError && error.status >= 400 && error.status < 500 && !AGAIN.includes(error.status);
    if (!isInvalid) throw error;
    const [only] = edits;
    if (edits.length > 1 || only === undefined) {
      this.#chunk = Math.ceil(edits.length / 2);
      return this.#send({ edits: edits.slice(0, this.#chunk), shift }, signal);
    }
    const reason = { code: error.code, message: error.message };
    const settled = await this.#options.store.settle([{ edit: only, result: { id: only.id, status: "refused", error: reason } }]);
    await this.#report(settled);
    return { settled, sent: 1 };
  }

  async #report(settled: Settled[]): Promise<void> {
    if (settled.length === 0) return;
    await this.#options.onSettled(settled);
    this.#options.onChanged([...new Set(settled.map(({ edit }) => edit.key))]);
  }

  /** Fetches changes until there are no more. */
  async #fetchAll(signal: AbortSignal): Promise<void> {
    const { http, prefix, store } = this.#options;
    for (;;) {
      // Another tab may have led in between, and fetched more.
      const { cursor } = await store.meta(this.#options.first);
      const query = `since=${encodeURIComponent(cursor)}&prefix=${encodeURIComponent(prefix)}`;
      const page = await http.json<Page>(`/sync?${query}`, { signal });
      await store.page(page);
      const isAny = page.changes.length > 0 || page.complete;
      if (isAny) this.#options.onChanged(page.complete ? null : page.changes.map((change) => change.key));
      if (!page.more) return;
    }
  }

  /** Every event of the server's stream is a reason to fetch; what is in it comes with the page. */
  async #listen(signal: AbortSignal): Promise<void> {
    const { http, prefix } = this.#options;
    const backoff = new Backoff(this.#options.backoff.firstMs);
    while (!signal.aborted) {
      try {
        const query = `prefix=${encodeURIComponent(prefix)}`;
        const headers = { accept: "text/event-stream" };
        const response = await http.call(`/sync?${query}`, { headers, streams: true, signal });
        backoff.reset();
        // What changed before the stream began.
        this.wake();
        for await (const _ of events(response)) this.wake();
      } catch {
        // The attempts to fetch report the error.
      }
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const end = () => {
          clearTimeout(timer);
          signal.removeEventListener("abort", end);
          resolve();
        };
        const timer = setTimeout(end, backoff.next());
        signal.addEventListener("abort", end);
      });
    }
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

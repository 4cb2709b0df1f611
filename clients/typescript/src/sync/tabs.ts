// The tabs of a site: one of them uploads, and all of them learn what changed. Where there are no locks or channels (Node, Deno,
// Workers) there is one program, which uploads.

import type { Settled } from "./types.js";

/** What tabs send each other. */
export type Message =
  | { type: "queued" }
  | { type: "flush" }
  | { type: "changed"; keys: string[] | null }
  | { type: "settled"; settled: Settled[] };

export class Tabs {
  readonly #channel: BroadcastChannel | undefined;
  readonly #end = new AbortController();

  constructor(
    readonly name: string,
    isShared: boolean,
    onMessage: (message: Message) => void,
  ) {
    if (!isShared || typeof BroadcastChannel === "undefined") return;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => onMessage(data as Message);
    // In Node, it would keep the process alive.
    (this.#channel as { unref?: () => void }).unref?.();
  }

  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Runs `lead` in one tab at a time. When that is closed or crashes, the browser hands the lock to the next one. */
  async lead(lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const signal = this.#end.signal;
    const locks = this.#channel && typeof navigator !== "undefined" ? navigator.locks : undefined;
    if (locks === undefined) return lead(signal);
    try {
      await locks.request(this.name, { signal }, () => lead(signal));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  close(): void {
    this.#end.abort();
    this.#channel?.close();
  }
}

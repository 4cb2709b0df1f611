// The tabs of a site: one of them uploads, and all of them learn what changed. Where there are no locks or channels (Node, Deno,
// Workers) there is one program, which uploads.

import type { Settled } from "./types.js";

/** What tabs send each other. */
export type Message =
  | { type: "queued" }
  | { type: "flush" }
  | { type: "changed"; keys: string[] | null }
  /** What became of edits. */
  | { type: "settled"; settled: Settled[] }
  /** What became of edits whose tab has perhaps not been reached. */
  | { type: "reports"; settled: Settled[] };

export class Tabs {
  /** Another one after each load of a page. */
  readonly id = crypto.randomUUID();
  readonly #channel: BroadcastChannel | undefined;
  readonly #locks: LockManager | undefined;
  readonly #end = new AbortController();

  private constructor(
    readonly name: string,
    isShared: boolean,
  ) {
    if (!isShared || typeof BroadcastChannel === "undefined") return;
    this.#channel = new BroadcastChannel(name);
    // In Node, it would keep the process alive.
    (this.#channel as { unref?: () => void }).unref?.();
    if (typeof navigator !== "undefined") this.#locks = navigator.locks;
  }

  /** Joins the tabs. As long as it is open, this one has a lock by which the others know. */
  static async join(name: string, isShared: boolean): Promise<Tabs> {
    const tabs = new Tabs(name, isShared);
    const { signal } = tabs.#end;
    const closed = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    await new Promise<void>((resolve) => {
      const held = tabs.#locks?.request(tabs.#lock(tabs.id), () => (resolve(), closed));
      // Without locks nobody knows which tabs are open, and what became of an edit is reported in more than one of them.
      held === undefined ? resolve() : held.catch(() => resolve());
    });
    return tabs;
  }

  #lock(id: string): string {
    return `${this.name} tab ${id}`;
  }

  set onMessage(run: (message: Message) => void) {
    if (this.#channel !== undefined) this.#channel.onmessage = ({ data }) => run(data as Message);
  }

  /** Of these tabs, those that are open. Where that is not known, it is only this one. */
  async open(ids: Iterable<string>): Promise<Set<string>> {
    const { held = [] } = (await this.#locks?.query()) ?? {};
    const names = new Set(held.map(({ name }) => name));
    return new Set([...ids].filter((id) => id === this.id || names.has(this.#lock(id))));
  }

  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Runs `lead` in one tab at a time. When that is closed or crashes, the browser hands the lock to the next one. */
  async lead(lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const signal = this.#end.signal;
    if (this.#locks === undefined) return lead(signal);
    try {
      await this.#locks.request(this.name, { signal }, () => lead(signal));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  close(): void {
    this.#end.abort();
    this.#channel?.close();
  }
}

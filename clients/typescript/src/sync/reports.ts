// What becomes of edits is reported to the tab that made them: by the promise of the edit, and by the program's hook. A result is stored
// in the step that settles the edit, and removed when the hook has run, so that a reload, a crash or a kill in between loses none: then
// the tab that leads has it, as its own.

import type { Tabs } from "./tabs.js";
import type { Result, Settled, Store } from "./types.js";

export type OnSettled = (settled: Settled, isOwn: boolean) => void | Promise<void>;

export class Reports {
  readonly #store: Store;
  readonly #tabs: Tabs;
  readonly #hook: OnSettled | undefined;
  readonly #waiting = new Map<number, (result: Result) => void>();
  /** What the hook had in this tab. If it has failed, the next tab tries. */
  readonly #had = new Set<number>();

  constructor(store: Store, tabs: Tabs, hook: OnSettled | undefined) {
    this.#store = store;
    this.#tabs = tabs;
    this.#hook = hook;
  }

  /** What will become of an edit of this tab. */
  expect(id: number): Promise<Result> {
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** This edit was not queued. */
  forget(id: number): void {
    this.#waiting.delete(id);
  }

  /** In the tab that leads: reports what was settled now. */
  async settled(settled: Settled[]): Promise<void> {
    this.#tabs.send({ type: "settled", settled });
    const open = await this.#open(settled);
    this.#deliver(settled, ({ edit }) => edit.tab === this.#tabs.id || !open.has(edit.tab));
  }

  /** In the other tabs. */
  receive(settled: Settled[]): void {
    this.#deliver(settled, ({ edit }) => edit.tab === this.#tabs.id);
  }

  /** In the other tabs, for what they may have missed. */
  receiveOwn(settled: Settled[]): void {
    this.receive(settled.filter(({ edit }) => edit.tab === this.#tabs.id));
  }

  /** In the tab that leads: reports what no tab has been reached with. */
  async recover(): Promise<void> {
    const settled = (await this.#store.reports()).filter(({ edit }) => !this.#had.has(edit.id));
    if (settled.length === 0) return;
    const open = await this.#open(settled);
    const isElsewhere = ({ edit }: Settled) => edit.tab !== this.#tabs.id && open.has(edit.tab);
    const elsewhere = settled.filter(isElsewhere);
    if (elsewhere.length > 0) this.#tabs.send({ type: "reports", settled: elsewhere });
    this.#deliver(settled.filter((one) => !isElsewhere(one)), () => true);
  }

  #open(settled: Settled[]): Promise<Set<string>> {
    return this.#tabs.open(new Set(settled.map(({ edit }) => edit.tab)));
  }

  #deliver(settled: Settled[], isOwn: (one: Settled) => boolean): void {
    const own: Settled[] = [];
    for (const one of settled) {
      if (!isOwn(one)) void this.#run(one, false);
      else if (!this.#had.has(one.edit.id)) own.push(one);
    }
    if (own.length > 0) void this.#report(own);
  }

  async #report(own: Settled[]): Promise<void> {
    const runs = own.map(async (one) => {
      const { edit, result } = one;
      const isMine = this.#waiting.has(edit.id) || edit.tab === this.#tabs.id;
      this.#waiting.get(edit.id)?.(result);
      this.#waiting.delete(edit.id);
      this.#had.add(edit.id);
      // Without a hook, what another tab has lost waits for a program that has one.
      if (this.#hook === undefined) return isMine || isPlain(result);
      return this.#run(one, true);
    });
    const done = await Promise.all(runs);
    const ids = own.filter((_, n) => done[n]).map(({ edit }) => edit.id);
    try {
      if (ids.length > 0) await this.#store.reported(ids);
    } catch {
      // They are reported again after the next load.
    }
  }

  /** Whether the hook has run. One that fails must not stop the queue. */
  async #run(one: Settled, isOwn: boolean): Promise<boolean> {
    try {
      await this.#hook?.(one, isOwn);
      return true;
    } catch (error) {
      shown(error);
      return false;
    }
  }
}

/** It became what its tab saw already. */
function isPlain({ status, lost }: Result): boolean {
  return status === "applied" && !lost;
}

/** Shows an error of a program's callback. Nothing here depends on it. */
export function shown(error: unknown): void {
  if (typeof reportError === "function") reportError(error);
  else console.error(error);
}

// How long to wait after a failure: twice as long after each, with jitter, so that devices do not all come back at once. It never gives up.

const FIRST_MS = 500;
const MOST_MS = 60_000;

export class Backoff {
  #failures = 0;

  constructor(
    readonly firstMs = FIRST_MS,
    readonly mostMs = MOST_MS,
    readonly random: () => number = Math.random,
  ) {}

  get failures(): number {
    return this.#failures;
  }

  /** The milliseconds to wait after one more failure: between half of it and all of it. */
  next(): number {
    // 2 ** 30 is more than any bound.
    const full = Math.min(this.mostMs, this.firstMs * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return full * (0.5 + this.random() / 2);
  }

  /** After a success. */
  reset(): void {
    this.#failures = 0;
  }
}

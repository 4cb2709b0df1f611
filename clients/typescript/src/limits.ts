// Rate limits: `/limit`.

import type { Http } from "./http.js";

/** The decision of a limit. */
export interface Decision {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** When to try again; 0 if it was allowed. */
  retryAfterMs: number;
  /** When everything is available again, in milliseconds since 1970. */
  resetAt?: number;
}

export interface CheckOptions {
  /** Default: 1. */
  cost?: number;
}

export class Limits {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Checks a limit for a key, and consumes from it if it is allowed. A denial is a decision, not an error. */
  async check(policy: string, key: string, options: CheckOptions = {}): Promise<Decision> {
    const call = { method: "POST", body: { key, ...options } };
    return (await (await this.#http.call(`/limit/${encodeURIComponent(policy)}`, call, [429])).json()) as Decision;
  }
}

// One server, and the clients of its APIs.

import { Documents } from "./documents.js";
import { Http, type KeysteadOptions } from "./http.js";
import { Limits } from "./limits.js";
import { Sync, type SyncOptions } from "./sync/sync.js";

/** A Keystead server. */
export class Keystead {
  readonly #http: Http;

  constructor(options: KeysteadOptions) {
    this.#http = new Http(options);
  }

  /** Versioned documents, read and written on the server. `T` is the type of their values. */
  documents<T = unknown>(): Documents<T> {
    return new Documents<T>(this.#http);
  }

  /** Rate limits. */
  get limits(): Limits {
    return new Limits(this.#http);
  }

  /** Documents that are here also when the server cannot be reached. */
  sync<T = unknown>(options: SyncOptions): Promise<Sync<T>> {
    return Sync.open<T>(this.#http, options);
  }

  /** Uses another token from now on, for example before the last one expires. */
  setToken(token: string | undefined): void {
    this.#http.setToken(token);
  }
}

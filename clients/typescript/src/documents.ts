// Versioned documents on the server: `/kv`.

import { events, type Http } from "./http.js";

/** A document. */
export interface Stored<T> {
  key: string;
  value: T;
  version: number;
  /** When it expires, in milliseconds since 1970. */
  expiresAt?: number;
}

export interface WriteOptions {
  /** The version that it must have; `"absent"`: it must not exist. Otherwise the error is `conflict`, with the current version. */
  ifVersion?: number | "absent";
  /** For example `"30s"`; `"none"`: no expiry. */
  ttl?: string;
  /** Sent again with the same key, the request changes nothing and has the same response. */
  idempotencyKey?: string;
}

/** A change of a document; without a value it was deleted. */
export interface Change<T> {
  key: string;
  value?: T;
  version?: number;
}

export class Documents<T> {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** The document, or null if there is none. */
  async get(key: string): Promise<Stored<T> | null> {
    const response = await this.#http.call(path(key), {}, [404]);
    return response.status === 404 ? null : ((await response.json()) as Stored<T>);
  }

  /** Creates or replaces a document. */
  async put(key: string, value: T, options: WriteOptions = {}): Promise<Stored<T>> {
    return this.#http.json<Stored<T>>(path(key, options), { method: "PUT", body: value, headers: headers(options) });
  }

  /** Merges members into a document (RFC 7396): null deletes one. */
  async patch(key: string, members: object, options: WriteOptions = {}): Promise<Stored<T>> {
    const media = "application/merge-patch+json";
    return this.#http.json(path(key, options), { method: "PATCH", body: members, media, headers: headers(options) });
  }

  /** Deletes a document. False: there was none. */
  async delete(key: string, options: Pick<WriteOptions, "ifVersion" | "idempotencyKey"> = {}): Promise<boolean> {
    const call = { method: "DELETE", headers: headers(options) };
    return (await this.#http.call(path(key, options), call, [404])).status !== 404;
  }

  /** All changes from now on, of the documents whose keys begin with `prefix`. It ends with an error when the connection does. */
  async *watch(prefix: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<Change<T>> {
    const response = await this.#http.call(`/kv?prefix=${encodeURIComponent(prefix)}`, {
      headers: { accept: "text/event-stream" },
      streams: true,
      ...options,
    });
    for await (const { event, data } of events(response)) {
      if (event === "put" || event === "delete") yield JSON.parse(data) as Change<T>;
    }
  }
}

function path(key: string, options: WriteOptions = {}): string {
  const query = new URLSearchParams();
  if (typeof options.ifVersion === "number") query.set("ifVersion", String(options.ifVersion));
  if (options.ttl !== undefined) query.set("ttl", options.ttl);
  const text = query.toString();
  return `/kv/${encodeURIComponent(key)}${text && `?${text}`}`;
}

function headers(options: WriteOptions): Record<string, string> {
  return {
    ...(options.ifVersion === "absent" ? { "if-none-match": "*" } : {}),
    ...(options.idempotencyKey === undefined ? {} : { "idempotency-key": options.idempotencyKey }),
  };
}

// What is stored on this device, and the words of the protocol.

/** A change that a program makes. */
export type Edit =
  | { key: string; value: unknown; ifVersion?: number }
  | { key: string; delete: true; ifVersion?: number }
  | { key: string; field: string; value: unknown; ifVersion?: number }
  | { key: string; field: string; delete: true; ifVersion?: number };

/** An edit in the queue. */
export interface Pending {
  id: number;
  key: string;
  field?: string;
  value?: unknown;
  delete?: true;
  ifVersion?: number;
  /** The version that was known when it was made. */
  seen?: number;
  ts: number;
  /** The tab that made it. It is not sent. */
  tab: string;
}

/** What won instead. */
export interface Winner {
  value?: unknown;
  deleted?: true;
  /** It is large: read it with `documents().get`. */
  omitted?: true;
  version: number | null;
  ts?: number;
  client?: string;
}

/** What became of an edit, as the server says. */
export interface Result {
  id: number;
  status: "applied" | "stale" | "conflict" | "refused" | "retry";
  version?: number | null;
  ts?: number;
  /** This device's clock is far ahead. */
  clamped?: true;
  /** It was settled by an earlier request, whose response was lost. */
  again?: true;
  /** Members that newer edits of others had changed. */
  lost?: string[];
  winner?: Winner;
  error?: { code: string; message: string };
}

/** An edit, and what became of it. */
export interface Settled {
  edit: Pending;
  result: Result;
}

/** A document as the server had it. */
export interface Row {
  key: string;
  value: unknown;
  version: number;
  /** The snapshot that it was in. */
  generation: number;
}

/** What is stored once. */
export interface Meta {
  client: string;
  /** The last id that was given to an edit. */
  lastId: number;
  /** The last time that was given to an edit. */
  lastTs: number;
  /** How far the server's clock is ahead of this device's. */
  offsetMs: number;
  /** Up to where changes are known. */
  cursor: string;
  generation: number;
}

/** What a response says about the time. */
export interface Clock {
  /** How far the server's clock is ahead of this device's. */
  offsetMs: number;
  serverTs: number;
}

/** A page of changes. */
export interface Page {
  changes: ({ key: string; value: unknown; version: number } | { key: string; deleted: true })[];
  cursor: string;
  more: boolean;
  reset?: true;
  complete?: true;
  server_ts: number;
}

/** Where edits and documents are stored. Each function is one atomic step, also if several tabs call it. */
export interface Store {
  /** What is stored once; at the first time this, with a client of this name. */
  meta(first: Meta): Promise<Meta>;
  /** Queues an edit of a document: `make` gives it its id and time. */
  append(key: string, make: (meta: Meta, row: Row | undefined) => Pending): Promise<Pending>;
  /** The lowest ids of the queue. */
  first(count: number): Promise<Pending[]>;
  /** All of the queue; only edits of one document if a key is given. */
  queue(key?: string): Promise<Pending[]>;
  row(key: string): Promise<Row | undefined>;
  rows(prefix: string): Promise<Row[]>;
  /** Removes edits from the queue, changes the documents that they were about, and remembers the clock of the server. */
  settle(settled: Settled[], clock?: Clock): Promise<void>;
  /** Applies a page of changes, and remembers its cursor. */
  page(page: Page): Promise<void>;
  close(): void;
}

// What is stored on this device, and the words of the protocol.

/** A change that a program makes. */
export type Edit =
  | { key: string; value: unknown; ifVersion?: number }
  | { key: string; delete: true; ifVersion?: number }
  | { key: string; field: string; value: unknown; ifVersion?: number }
  | { key: string; field: string; delete: true; ifVersion?: number };

/** An edit in the queue. */
export interface Pending {
  /** Ascends on this device. What is sent is greater by `Meta.shift`. */
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
  /** Its size as JSON. It is not sent. */
  bytes: number;
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
  /** `lastId`: the last id of this client, if the edit's was not greater. */
  error?: { code: string; message: string; lastId?: number };
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
  /** What is added to ids when they are sent. */
  shift: number;
  /** Whether the server has accepted an id of this storage. */
  isAccepted: boolean;
  /** The last time that was given to an edit. */
  lastTs: number;
  /** How far the server's clock is ahead of this device's. */
  offsetMs: number;
  /** Up to where changes are known. */
  cursor: string;
  generation: number;
  /** The edits in the queue. */
  queueEdits: number;
  /** Their bytes. */
  queueBytes: number;
}

/** The next edits to send. */
export interface Chunk {
  edits: Pending[];
  shift: number;
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
  /** Queues an edit of a document: `make` gives it its id and time, or throws. */
  append(key: string, make: (meta: Meta, row: Row | undefined) => Pending): Promise<Pending>;
  /** The lowest ids of the queue. */
  first(count: number): Promise<Chunk>;
  /** All of the queue; only edits of one document if a key is given. */
  queue(key?: string): Promise<Pending[]>;
  row(key: string): Promise<Row | undefined>;
  rows(prefix: string): Promise<Row[]>;
  /**
   * Removes edits from the queue, changes the documents that they were about, stores the results as reports, and remembers the clock of
   * the server. Returns what it has settled: not what was settled before, nor what is sent again with other ids.
   */
  settle(settled: Settled[], clock?: Clock): Promise<Settled[]>;
  /** The results that are not reported yet. */
  reports(): Promise<Settled[]>;
  /** Removes results that were reported. */
  reported(ids: number[]): Promise<void>;
  /** Applies a page of changes, and remembers its cursor. */
  page(page: Page): Promise<void>;
  close(): void;
}

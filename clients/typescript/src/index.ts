// The package: documents, limits, and offline sync, with the types of all of them.

export { Keystead } from "./keystead.js";
export type { KeysteadOptions } from "./http.js";
export { KeysteadError } from "./http.js";
export type { Change, Documents, Stored, WriteOptions } from "./documents.js";
export type { CheckOptions, Decision, Limits } from "./limits.js";
export { Sync } from "./sync/sync.js";
export type { EditOptions, SyncOptions, SyncStatus } from "./sync/sync.js";
export { MemoryStore } from "./sync/memory.js";
export type { OnSettled } from "./sync/reports.js";
export type { Chunk, Clock, Edit, Meta, Page, Pending, Result, Row, Settled, Store, Winner } from "./sync/types.js";

// The bounds of offline sync on a device, by name.

/** Edits in one request: the server's bound. */
export const CHUNK_EDITS_MAX = 50;

/** Edits that wait to be sent. One more is `offline_queue_full`. */
export const QUEUE_EDITS_MAX = 10_000;

/** Their bytes, as JSON. */
export const QUEUE_BYTES_MAX = 32 * 1024 * 1024;

/** Results that wait for a program that asks for them (`onSettled`). Beyond it the oldest are dropped. */
export const REPORTS_MAX = 1000;

/** More edits than a device ever makes: so far above an id that the server has seen are none of it. */
export const ID_GAP = 1_000_000_000;

//! Bounds of the edge, where they differ from the server's. An object has 128 MB for everything.

/// Most bytes of a request's body. A larger one gets `413`.
pub(crate) const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Most bytes of the replies to one request. Over it, the remaining commands of a pipeline do not run and return an error; a transaction is
/// rolled back with an error.
pub(crate) const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of keys and values that stay in memory between two requests. The least recently used are dropped, and read again from rows.
pub(crate) const HELD_BYTES: usize = 24 * 1024 * 1024;

/// Most bytes that one transaction may change. Over it, it is rolled back with an error.
pub(crate) const CHANGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Keys and fields that one alarm reclaims. While there are more, the next alarm follows at once.
pub(crate) const RECLAIM_SLICE: usize = 1000;

/// How long what has expired waits at least for the first alarm that reclaims it: each is billed as a request, and nobody sees what they remove.
pub(crate) const RECLAIM_INTERVAL_MS: u64 = 10_000;

/// Most channels or patterns of one subscription. More get `400`.
pub(crate) const CHANNELS_MAX: usize = 100;

/// How often a subscriber gets a comment: only a write shows that a client has gone.
pub(crate) const HEARTBEAT_MS: u64 = 1000;

/// Bytes of messages that may wait for one subscriber. One that reads too slowly is disconnected.
pub(crate) const MAILBOX_BYTES_MAX: usize = 1024 * 1024;

/// Most policies of rate limits.
pub(crate) const POLICIES_MAX: usize = 1000;

/// Most objects of one database (`OBJECTS`). What concerns all keys calls all of them.
pub(crate) const OBJECTS_MAX: usize = 64;

/// Most sinks.
pub(crate) const SINKS_MAX: usize = 16;

/// How long a change waits for others before a flush, unless the sink says otherwise.
pub(crate) const FLUSH_EVERY_MS: u64 = 1000;

/// The longest that a sink may say.
pub(crate) const FLUSH_EVERY_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Rows of one batch for D1, unless the sink says otherwise. More rows are in the next batch, which follows at once.
pub(crate) const FLUSH_ROWS: usize = 500;

/// The most that a sink may say.
pub(crate) const FLUSH_ROWS_MAX: usize = 5000;

/// Statements of one batch for D1, about: a free account may send 50 in one request. Wide rows get smaller batches.
pub(crate) const FLUSH_STATEMENTS: usize = 40;

/// Bytes of values after which a batch takes no further row.
pub(crate) const FLUSH_BYTES: usize = 4 * 1024 * 1024;

/// Batches that one request to flush writes at most. What is left follows by alarm.
pub(crate) const FLUSH_BATCHES_MAX: usize = 1000;

/// How long D1 may take for a batch. Then its outcome is looked up before anything else is written.
pub(crate) const FLUSH_DEADLINE_MS: u64 = 30_000;

/// Most keys that wait for D1, of all sinks. A write of a further key is rejected, and changes nothing.
pub(crate) const PENDING_MAX: u64 = 100_000;

/// The first and the longest pause after D1 has failed. Each is twice the one before.
pub(crate) const RETRY_MS: u64 = 1000;
pub(crate) const RETRY_MS_MAX: u64 = 60_000;

/// Most keys in the quarantine of a sink that one request lists.
pub(crate) const QUARANTINE_LISTED_MAX: usize = 1000;

/// Keys of D1 that are read at a time when all keys are written again.
pub(crate) const RESYNC_KEYS: usize = 1000;

/// Most rows of the results of one item of `POST /statements`. With more, it is rolled back and gets `413`.
pub(crate) const STATEMENT_ROWS_MAX: usize = 200_000;

/// Most items of a request to `/store`. More get `400`.
pub(crate) const STORE_ITEMS_MAX: usize = 64;

/// Longest key of an item on a Durable Object or D1, as escaped text. A longer one is `too_large`.
pub(crate) const STORE_KEY_BYTES_MAX: usize = 2048;

/// Longest name of a store, in bytes. A longer one gets `404`.
pub(crate) const STORE_NAME_BYTES_MAX: usize = 32;

/// Longest key of an item on Workers KV, where a name has 512 bytes: before the key stand the name of the store and a colon.
pub(crate) const STORE_KV_KEY_BYTES_MAX: usize = 512 - STORE_NAME_BYTES_MAX - 1;

/// Largest state of a record, in bytes. As a text in JSON it may be twice as long. A larger one is `too_large`.
pub(crate) const STORE_STATE_BYTES_MAX: usize = 960 * 1024;

/// Longest record that is sent where several items were asked for. A longer one is sent when it is asked for alone.
pub(crate) const STORE_SHARED_RECORD_BYTES_MAX: usize = 8 * 1024;

/// Most attempts of a step that lose against others. Then it is `store_unavailable`, *not applied*.
pub(crate) const STORE_ATTEMPTS_MAX: u32 = 64;

/// The longest pause before another attempt. The pause is a random part of a bound that doubles up to this one.
pub(crate) const STORE_PAUSE_MS_MAX: u64 = 64;

/// The shortest time between two deletions of records on D1 that may be reclaimed, by one isolate.
pub(crate) const STORE_SWEEP_EVERY_MS: u64 = 60_000;

/// Most records that are deleted at once. In an object the others follow at once, on D1 the next time.
pub(crate) const STORE_SWEEP_ROWS_MAX: u32 = 1000;

/// Seconds for which Workers KV may answer reads in one location from its cache: the shortest that it accepts.
pub(crate) const STORE_KV_CACHE_S: u64 = 30;

/// The shortest time for which Workers KV keeps what expires, in seconds.
pub(crate) const STORE_KV_TTL_S_MIN: u64 = 60;

/// The longest, which is a number of 31 bits. What may only be deleted later stays for ever.
pub(crate) const STORE_KV_TTL_S_MAX: u64 = 1 << 30;

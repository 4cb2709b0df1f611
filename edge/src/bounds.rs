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

/// Keys and fields that one alarm reclaims. The next alarm follows at once.
pub(crate) const RECLAIM_SLICE: usize = 1000;

/// The shortest time between two alarms that reclaim: each is billed as a request, and nobody sees what they remove.
pub(crate) const RECLAIM_INTERVAL_MS: u64 = 10_000;

/// Most channels or patterns of one subscription. More get `400`.
pub(crate) const CHANNELS_MAX: usize = 100;

/// How often a subscriber gets a comment: only a write shows that a client has gone.
pub(crate) const HEARTBEAT_MS: u64 = 1000;

/// Bytes of messages that may wait for one subscriber. One that reads too slowly is disconnected.
pub(crate) const MAILBOX_BYTES_MAX: usize = 1024 * 1024;

/// Most policies of rate limits.
pub(crate) const POLICIES_MAX: usize = 1000;

/// Most rows of the results of one item of `POST /statements`. With more, it is rolled back and gets `413`.
pub(crate) const STATEMENT_ROWS_MAX: usize = 200_000;

//! What a node has moved since it was started. Touches nothing.

use std::sync::atomic::AtomicU64;

/// Counters, read by the metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Keys and bytes that were sent to other nodes.
    pub(crate) sent_keys: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    /// Keys and bytes that came from other nodes.
    pub(crate) received_keys: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    /// Migrations to this node, by their end.
    pub(crate) finished: AtomicU64,
    pub(crate) aborted: AtomicU64,
}

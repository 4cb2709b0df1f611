//! The bounds of split mode, a storage service and compute services, with the error beyond each of them.

use std::time::Duration;

/// Largest body of a request to a storage service, in bytes. A larger one gets `413`.
pub const STORAGE_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest value of a row of a storage service, in bytes. A longer one gets `413`.
pub const STORAGE_VALUE_BYTES_MAX: i32 = 64 * 1024 * 1024;

/// Most rows of the results of one item of a storage service. With more, it is rolled back and gets `413`.
pub const STORAGE_ROWS_MAX: usize = 1_000_000;

/// Most bytes of these rows, with 16 for each value. With more, the item is rolled back and gets `413`.
pub const STORAGE_RESULT_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long the statements of one item of a storage service may take. Then it is rolled back and gets `408`.
pub const STORAGE_ITEM_TIMEOUT: Duration = Duration::from_secs(5);

/// Instructions of SQLite after which the time of an item is checked.
pub const STORAGE_PROGRESS_OPS: i32 = 10_000;

/// Requests that wait for a storage service. One more gets `503`.
pub const STORAGE_QUEUE_MAX: usize = 256;

/// How often a storage service reclaims what is expired.
pub const STORAGE_RECLAIM_EVERY: Duration = Duration::from_secs(10);

/// Keys and fields that it reclaims at a time. The others follow the next time.
pub const STORAGE_RECLAIM_SLICE: usize = 1_000;

/// After how many milliseconds a storage service forgets the last write of a compute service. It then counts its writes anew.
pub const STORAGE_FORGET_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// Work that waits for the keys of a compute service. One more gets `503`.
pub const COMPUTE_QUEUE_MAX: usize = 1_024;

/// Most work that shares a batch. The rest waits for the next one.
pub const COMPUTE_BATCH_MAX: usize = 128;

/// Bytes of keys and values that a compute service holds, unless `--memory` says otherwise. The least recently used are fetched again.
pub const COMPUTE_HELD_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes that one batch may change. With more, it is undone and gets `413`.
pub const COMPUTE_CHANGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of messages that may wait for one subscriber of a compute service.
pub const COMPUTE_MESSAGES_BYTES_MAX: usize = 1024 * 1024;

/// How long one call of the storage service may take. Then its outcome is found out, or it counts as lost.
pub const COMPUTE_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a batch may begin another attempt. Then it gets `503`, and nothing was changed.
pub const COMPUTE_DEADLINE: Duration = Duration::from_secs(10);

/// Most attempts that lose against other compute services. Then the batch gets `503`, and nothing was changed.
pub const COMPUTE_ATTEMPTS_MAX: usize = 256;

/// Most fetches of one batch, of which a command that reads over all keys needs several. With more, it gets `413`.
pub const COMPUTE_FETCHES_MAX: usize = 512;

/// Most keys of a batch whose rows come with a conflict. With more, those that conflict are fetched.
pub const COMPUTE_CONFLICT_ROWS_MAX: usize = 64;

/// Row ids for new keys that a compute service reserves at a time.
pub const COMPUTE_IDS_RESERVED: u32 = 256;

/// How long it is tried to find out what became of a write whose response was lost. Then its outcome is unknown.
pub const COMPUTE_SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between two of these tries.
pub const COMPUTE_PAUSE: Duration = Duration::from_millis(50);

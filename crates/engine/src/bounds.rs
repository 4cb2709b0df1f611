//! Every bound of the engine, named once. The comment of each constant says what happens when it is reached.

use std::time::Duration;

/// Most shards of a database. More are rejected with `config_invalid`.
pub const SHARDS_MAX: usize = 256;

/// Default length of a shard's job queue (see [`Options`](crate::Options)). When it is full, a job is rejected with `queue_full`.
pub const QUEUE_JOBS: usize = 16 * 1024;

/// Tasks that may wait to be started on a shard's loop. The next one is rejected with `queue_full`, or waits.
pub const LOCAL_TASKS_WAITING_MAX: usize = 1024;

/// Tasks that a shard's loop runs before it checks its sockets again, and before it sends what they have changed as one batch.
pub const TASKS_PER_PASS: u32 = 256;

/// Most jobs of one batch. The rest is in the next batch.
pub const BATCH_JOBS_MAX: usize = 4096;

/// Most bytes that one job may record: a string of Redis's largest size, and some overhead. A job that exceeds it
/// is stopped there, fails with `too_large` and is rolled back.
pub const JOB_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Bytes that a batch may record before it is sent to the journal. The rest of its jobs form another batch.
pub const BATCH_BYTES: usize = 64 * 1024 * 1024;

/// Batches that are being written. The shard waits before it begins another one.
pub const BATCHES_IN_FLIGHT_MAX: usize = 64;

/// Passes of a shard's loop that a batch waits for more requests at `fsync`. Then it is sent.
pub const GROUP_PASSES_MAX: u32 = 64;

/// Bytes that the journal writes before it syncs. More are part of the next sync.
pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most bytes of one journal record, that is of one batch: more than a job and a batch can have. A larger length in a file is damage.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// Default size of a journal segment (see [`Options`](crate::Options)).
pub const SEGMENT_BYTES: u64 = 32 * 1024 * 1024;

/// How large a shard's journal may grow while the archive lags (see [`Options`](crate::Options)). Near it acknowledgements are
/// delayed, and at it none are sent until the archive has caught up. Writes are rejected with `store_unavailable` when the archive
/// cannot be written, or when the journal exceeds it by a quarter nevertheless.
pub const JOURNAL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Archived segments that are kept for change feeds.
pub const JOURNAL_KEPT_SEGMENTS: usize = 2;

/// Old segments that are kept for reuse, which is cheaper than creating new files.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// Time between batches of the archive while there are changes. The longer, the more changes of the same key become one row.
pub const ARCHIVE_EVERY: Duration = Duration::from_secs(10);

/// The shortest time between batches of the archive, and the time without changes after which a batch does not wait longer.
pub const ARCHIVE_AFTER: Duration = Duration::from_secs(1);

/// Bytes of values that a batch of the archive holds. Beyond it, strings, documents and states are read from memory while they are
/// written.
pub const ARCHIVE_HELD_BYTES: usize = 32 * 1024 * 1024;

/// Default for the bytes of elements that a batch of the archive holds (see [`Options`](crate::Options)). The rest is in the next
/// batch.
pub const ARCHIVE_BATCH_BYTES: usize = 256 * 1024 * 1024;

/// Bytes of journal in SQLite's write-ahead log at which it is checkpointed, after small batches. A large one is checkpointed at
/// once.
pub const WAL_BYTES: u64 = 16 * 1024 * 1024;

/// Size to which SQLite's write-ahead log is truncated after a large batch.
pub const WAL_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Pages that one step of a vacuum removes from the archive's file: below 10 MB, so that the next batch need not wait.
pub const VACUUM_PAGES: u64 = 2048;

/// Free pages that an archive keeps for new rows. More than these, and more than a quarter of the file, are returned to the system.
pub const FREE_PAGES_KEPT: u64 = 1024;

/// Threads that read the archive of a shard at a start. More would wait for the one that fills the table.
pub const LOAD_THREADS: usize = 2;

/// Ids whose keys a loading thread reads at a time: some megabytes.
pub const LOAD_IDS: u64 = 32 * 1024;

/// Ranges of keys that a loading thread may be ahead. It waits before it reads another one.
pub const LOAD_RANGES_AHEAD: usize = 2;

/// Bytes of journal that are handed over at a time at a start, or one record.
pub const REPLAY_GROUP_BYTES: usize = 2 * 1024 * 1024;

/// Groups of records that the replay may be ahead. It waits before it hands over another one.
pub const REPLAY_GROUPS_AHEAD: usize = 16;

/// Requests of the archive for keys that a shard may have waiting. The archive waits before it sends another one.
pub const KEY_REQUESTS_MAX: usize = 4;

/// How long closing a database archives (see [`Options`](crate::Options)). What is left stays in the journal, and the next start
/// replays it.
pub const CLOSE_ARCHIVE_MAX: Duration = Duration::from_secs(1);

/// Expired keys that a turn of the shard's loop checks.
pub const RECLAIM_PER_TURN: usize = 64;

/// Large values and tables that wait for the thread that frees them. When it is full, the shard frees them itself, as a slower
/// client would have to wait for the memory anyway.
pub const GARBAGE_WAITING_MAX: usize = 1024;

/// Change batches that a feed of a database without a journal may lag behind before it fails with `gone`.
pub const FEED_LAG_MAX: usize = 1024;

/// Databases that a copy knows itself to be a copy of. Older ones are forgotten.
pub const COPIES_KNOWN_MAX: usize = 16;

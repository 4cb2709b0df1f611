//! Every limit of the engine, named once. A limit that is reached has an answer; the constant's comment says which.

/// Most shards of a database. More are refused with `config_invalid`.
pub const SHARDS_MAX: usize = 256;

/// Jobs that may wait for a shard unless [`Options`](crate::Options) says otherwise. The next one is answered `queue_full`.
pub const QUEUE_JOBS: usize = 16 * 1024;

/// Tasks that may wait to live on a shard's loop. The next one is answered `queue_full`, or waits for a place.
pub const GUESTS_WAITING_MAX: usize = 1024;

/// Most jobs of one batch. The rest waits for the next batch.
pub const BATCH_JOBS_MAX: usize = 4096;

/// Most bytes that one job may record: a string of Redis's largest size, and what is noted beside it. One that goes over it
/// is stopped there, answered `too_large` and undone.
pub const JOB_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Bytes that a batch may record before it is sent on its way. The rest of its jobs makes another one.
pub const BATCH_BYTES: usize = 64 * 1024 * 1024;

/// Batches on their way to the disk. The shard waits before it begins another one.
pub const BATCHES_IN_FLIGHT_MAX: usize = 64;

/// Bytes that the journal writes before it syncs. More wait for the next sync.
pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most bytes of one journal record, that is of one batch: more than a job and a batch can have. A record that claims more is damage.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// Size of a journal segment unless [`Options`](crate::Options) says otherwise.
pub const SEGMENT_BYTES: u64 = 32 * 1024 * 1024;

/// How large a shard's journal may grow while the archive lags. Beyond it writes are refused with `store_unavailable`.
pub const JOURNAL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Journal that is kept for change feeds though it is archived.
pub const JOURNAL_KEPT_SEGMENTS: usize = 2;

/// Old segments that are kept to be written again, which is cheaper than making new ones.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// Journal that the archive takes into one transaction.
pub const ARCHIVE_CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// How large SQLite's write-ahead log may grow before it is checkpointed.
pub const WAL_BYTES: u64 = 16 * 1024 * 1024;

/// Expired keys that a turn of the shard's loop looks at.
pub const RECLAIM_PER_TURN: usize = 64;

/// Change batches that a feed of a database without a journal may lag behind before it is told `gone`.
pub const FEED_LAG_MAX: usize = 1024;

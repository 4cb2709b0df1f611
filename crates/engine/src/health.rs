//! The health of a database: written by the threads of its shards, read by any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keystead_core::{Code, Error, Millis, Revision};
use keystead_model::keyspace::Keyspace;

/// The pace of the archive, in revisions a second, before its first batch.
const FIRST_PACE: f64 = 100_000.0;

/// The least pace: a batch of a few revisions says little.
const PACE_MIN: f64 = 10_000.0;

/// The health of a database.
#[derive(Clone, Debug)]
pub struct Health {
    /// The health of each shard.
    pub shards: Vec<ShardHealth>,
}

impl Health {
    /// Whether every shard serves requests and archives.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.shards.iter().all(|shard| {
            shard.poisoned.is_none()
                && shard.archive_failing.is_none()
                && !shard.journal_full
                && !shard.memory_full
        })
    }
}

/// The health of a shard.
#[derive(Clone, Debug, Default)]
pub struct ShardHealth {
    /// Why it rejects all requests until a restart.
    pub poisoned: Option<String>,
    /// Why the archive cannot be written. It is retried; until then the journal grows.
    pub archive_failing: Option<String>,
    /// The journal has reached its maximum size and the archive cannot be written, or it is a quarter larger: writes are rejected.
    pub journal_full: bool,
    /// The journal is near its maximum size, so acknowledgements are delayed to the pace of the archive.
    pub throttled: bool,
    /// The memory bound is reached and no eviction helps, so writes that could add memory are rejected.
    pub memory_full: bool,
    /// How often it has paused since the start, because values were written faster than the archive made them evictable.
    pub stalls: u64,
    /// The last durable revision.
    pub durable: Revision,
    /// The last archived revision.
    pub archived: Revision,
    /// Bytes of journal on disk.
    pub journal_bytes: u64,
    /// Bytes of archived journal that are kept only for readers of the feed.
    pub held_bytes: u64,
    /// How long the current turn of its loop has taken: near 0 unless a command takes long.
    pub busy_ms: u64,
    /// What the archive has done since the start.
    pub archive: ArchiveWork,
    /// Its size.
    pub size: Size,
}

/// What the archive of a shard has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveWork {
    /// How often it has caught up with the journal.
    pub batches: u64,
    /// Keys in them: many changes of a key are one.
    pub keys: u64,
    /// How long it took, checkpoints included.
    pub busy_ms: u64,
}

/// The size of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Keys, including those that are expired but not yet reclaimed.
    pub keys: u64,
    /// Keys with an expiry.
    pub keys_that_expire: u64,
    /// Estimated bytes of keys and values in memory.
    pub used_bytes: u64,
    /// Keys that have expired since the start.
    pub expired: u64,
}

/// The part of a shard's health that its threads report.
#[derive(Default)]
pub(crate) struct Vitals {
    poisoned: Mutex<Option<String>>,
    archive_failing: Mutex<Option<String>>,
    is_archive_failing: AtomicBool,
    is_throttled: AtomicBool,
    is_compaction_requested: AtomicBool,
    /// Revisions that the archive has written in a second, as bits.
    archive_pace: AtomicU64,
    archive_batches: AtomicU64,
    archive_keys: AtomicU64,
    archive_busy_ms: AtomicU64,
    keys: AtomicU64,
    keys_that_expire: AtomicU64,
    used_bytes: AtomicU64,
    memory_full: AtomicBool,
    stalls: AtomicU64,
    expired: AtomicU64,
    /// When the loop began its current turn; 0 before the first one, and after the loop has ended.
    turn_began_ms: AtomicU64,
}

impl Vitals {
    /// Records that the loop begins a turn. An idle loop does so ten times a second.
    #[inline]
    pub(crate) fn begin_turn(&self, now: Millis) {
        self.turn_began_ms.store(now.0, Ordering::Relaxed);
    }

    /// Records that the loop has ended.
    pub(crate) fn end_turns(&self) {
        self.turn_began_ms.store(0, Ordering::Relaxed);
    }

    /// When the loop began its current turn, if it has begun one and has not ended.
    pub(crate) fn turn_began(&self) -> Option<Millis> {
        Some(Millis(self.turn_began_ms.load(Ordering::Relaxed))).filter(|began| began.0 > 0)
    }

    /// How long the current turn has taken.
    pub(crate) fn busy_ms(&self, now: Millis) -> u64 {
        self.turn_began().map_or(0, |began| now.0.saturating_sub(began.0))
    }

    /// Records the size of the shard.
    pub(crate) fn set_size(&self, keyspace: &Keyspace) {
        self.keys.store(keyspace.count() as u64, Ordering::Relaxed);
        self.keys_that_expire.store(keyspace.count_that_expire() as u64, Ordering::Relaxed);
        self.used_bytes.store(keyspace.used_bytes() as u64, Ordering::Relaxed);
        self.memory_full.store(keyspace.is_full(), Ordering::Relaxed);
        self.expired.store(keyspace.expired(), Ordering::Relaxed);
    }

    pub(crate) fn memory_full(&self) -> bool {
        self.memory_full.load(Ordering::Relaxed)
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            keys: self.keys.load(Ordering::Relaxed),
            keys_that_expire: self.keys_that_expire.load(Ordering::Relaxed),
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_archive_failing(&self) -> bool {
        self.is_archive_failing.load(Ordering::Relaxed)
    }

    /// Notes that the archive is to be compacted, and returns whether that was not known.
    pub(crate) fn request_compaction(&self) -> bool {
        !self.is_compaction_requested.swap(true, Ordering::AcqRel)
    }

    /// Notes that a compaction begins.
    pub(crate) fn begin_compaction(&self) {
        self.is_compaction_requested.store(false, Ordering::Release);
    }

    pub(crate) fn count_stall(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.is_throttled.load(Ordering::Relaxed)
    }

    pub(crate) fn set_throttled(&self, throttled: bool) {
        self.is_throttled.store(throttled, Ordering::Relaxed);
    }

    /// How many revisions the archive has written in a second.
    pub(crate) fn archive_pace(&self) -> f64 {
        match f64::from_bits(self.archive_pace.load(Ordering::Relaxed)) {
            0.0 => FIRST_PACE,
            pace => pace,
        }
    }

    /// Records a batch of the archive.
    pub(crate) fn add_archive_batch(&self, revisions: u64, keys: u64, took: Duration) {
        let pace = revisions as f64 / took.as_secs_f64().max(0.001);
        self.archive_pace.store(pace.max(PACE_MIN).to_bits(), Ordering::Relaxed);
        self.archive_keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Records how long the archive was busy until it had caught up.
    pub(crate) fn add_archive_busy(&self, took: Duration) {
        self.archive_batches.fetch_add(1, Ordering::Relaxed);
        self.archive_busy_ms
            .fetch_add(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn archive_work(&self) -> ArchiveWork {
        ArchiveWork {
            batches: self.archive_batches.load(Ordering::Relaxed),
            keys: self.archive_keys.load(Ordering::Relaxed),
            busy_ms: self.archive_busy_ms.load(Ordering::Relaxed),
        }
    }

    /// Makes the shard reject all requests from now on. The first reason stays.
    pub(crate) fn poison(&self, why: impl Into<String>) {
        let why = why.into();
        tracing::error!(reason = %why, "shard poisoned: it rejects all requests until a restart");
        self.poisoned.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    pub(crate) fn poisoned(&self) -> Option<String> {
        self.poisoned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn archive_failing(&self) -> Option<String> {
        self.archive_failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records whether the archive can be written; logs when that changes.
    pub(crate) fn set_archive_failing(&self, why: Option<String>) {
        let mut known = self.archive_failing.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &why) {
            (None, Some(why)) => {
                tracing::error!(reason = %why, "the archive cannot be written; the journal keeps everything");
            }
            (Some(_), None) => tracing::warn!("the archive can be written again"),
            _ => {}
        }
        self.is_archive_failing.store(why.is_some(), Ordering::Relaxed);
        *known = why;
    }
}

/// The error of a poisoned shard for a job that was not started.
pub(crate) fn rejected(why: &str) -> Error {
    Error::new(Code::StoreUnavailable, format!("the shard rejects all requests until a restart: {why}"))
}

/// The error for a job that had run when the shard was poisoned.
pub(crate) fn lost(why: &str) -> Error {
    Error::unknown(Code::StoreUnavailable, format!("the shard failed before this was durable: {why}"))
}

//! Options of a database.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Code, Error, Result, SystemClock};

use crate::bounds::{
    ARCHIVE_BATCH_BYTES, CLOSE_ARCHIVE_MAX, JOURNAL_BYTES_MAX, JOURNAL_KEPT_SEGMENTS, QUEUE_JOBS,
    SEGMENT_BYTES, SHARDS_MAX,
};
use crate::load::LoadProgress;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// It is on disk and survives power loss.
    #[default]
    Fsync,
    /// It is in the operating system's cache and survives the death of the process. Synced about once a second.
    Commit,
    /// It is in memory. There is no file.
    Memory,
}

impl Durability {
    /// The name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::Fsync => "fsync",
            Durability::Commit => "commit",
            Durability::Memory => "memory",
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Durability::Fsync, Durability::Commit, Durability::Memory]
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| {
                Error::new(Code::ConfigInvalid, format!("'{text}' is not one of fsync, commit, memory"))
            })
    }
}

/// Options of a database.
#[derive(Clone)]
pub struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) shards: Option<usize>,
    pub(crate) shards_if_new: usize,
    pub(crate) durability: Durability,
    pub(crate) memory_bytes: Option<usize>,
    pub(crate) queue_jobs: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) journal_bytes_max: u64,
    pub(crate) held_journal_bytes: u64,
    pub(crate) archive_batch_bytes: usize,
    pub(crate) archive_every: Option<Duration>,
    pub(crate) close_archive_max: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) load_progress: LoadProgress,
}

impl Options {
    /// A database in `dir`, which is created if it does not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Options {
            dir: dir.into(),
            shards: None,
            shards_if_new: 1,
            durability: Durability::default(),
            memory_bytes: None,
            queue_jobs: QUEUE_JOBS,
            segment_bytes: SEGMENT_BYTES,
            journal_bytes_max: JOURNAL_BYTES_MAX,
            held_journal_bytes: 0,
            archive_batch_bytes: ARCHIVE_BATCH_BYTES,
            archive_every: None,
            close_archive_max: CLOSE_ARCHIVE_MAX,
            clock: Arc::new(SystemClock),
            load_progress: LoadProgress::new(),
        }
    }

    /// A database that has no directory and ends with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Options::new(PathBuf::new()).durability(Durability::Memory)
    }

    /// Number of shards, a power of two. It is fixed when the database is created (default 1); opening with another
    /// number is an error.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Number of shards of a new database, if [`shards`](Options::shards) is not set (default 1). An existing one is opened with its own.
    #[must_use]
    pub fn shards_if_new(mut self, shards: usize) -> Self {
        self.shards_if_new = shards;
        self
    }

    /// What an acknowledged write survives (default: fsync).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Memory budget for values, over all shards (default: unlimited). Values that were not used recently are evicted and read
    /// from the archive when they are needed. Names and versions of all keys always stay in memory and count: when they alone exceed
    /// it, changes that could add memory fail with `out_of_memory`.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Length of a shard's job queue.
    #[must_use]
    pub fn queue_jobs(mut self, jobs: usize) -> Self {
        self.queue_jobs = jobs.max(1);
        self
    }

    /// Size of a journal segment.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes.max(4096);
        self
    }

    /// How large a shard's journal may grow while the archive lags (default: 4 GiB). The larger, the more changes of a key become
    /// one row, and the longer a start after a crash. Near it acknowledgements are delayed to the pace of the archive.
    #[must_use]
    pub fn journal_bytes_max(mut self, bytes: u64) -> Self {
        self.journal_bytes_max = bytes;
        self
    }

    /// Bytes of archived journal, over all shards, that are kept for readers of the feed until they
    /// [release](crate::Engine::release_journal) them (default: 0). Beyond it the oldest changes are dropped, and a reader that needs
    /// them gets `gone`. They do not count as part of [`journal_bytes_max`](Options::journal_bytes_max).
    #[must_use]
    pub fn held_journal_bytes(mut self, bytes: u64) -> Self {
        self.held_journal_bytes = bytes;
        self
    }

    /// Bytes of elements of collections that the archive of a shard holds in memory while it writes them (default: 256 MiB).
    #[must_use]
    pub fn archive_batch_bytes(mut self, bytes: usize) -> Self {
        self.archive_batch_bytes = bytes.max(1);
        self
    }

    /// How often the archive is written while there are changes (default: 10 s, or 1 s with a memory budget, because what is not archived
    /// cannot be evicted). The longer, the more changes of the same key become one row. After a second without changes it does not wait.
    #[must_use]
    pub fn archive_every(mut self, every: Duration) -> Self {
        self.archive_every = Some(every);
        self
    }

    /// How long closing archives, about (default: 1 s). What is left stays in the journal, and the next start replays it.
    #[must_use]
    pub fn close_archive_max(mut self, max: Duration) -> Self {
        self.close_archive_max = max;
        self
    }

    /// The clock (default: the system's).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Where opening the database reports how far it is (default: nowhere).
    #[must_use]
    pub fn load_progress(mut self, progress: &LoadProgress) -> Self {
        self.load_progress = progress.clone();
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.shards.unwrap_or(self.shards_if_new) {
            shards if !shards.is_power_of_two() || shards > SHARDS_MAX => Err(Error::new(
                Code::ConfigInvalid,
                format!("shards must be a power of two from 1 to {SHARDS_MAX}, not {shards}"),
            )),
            _ if self.memory_bytes.is_some() && self.durability == Durability::Memory => Err(Error::new(
                Code::ConfigInvalid,
                "a memory budget needs a database on disk: without one, evicted values could not be stored",
            )),
            _ => self.check_journal(),
        }
    }

    /// The last segments are always kept, so a journal that may not be larger than them would reject every write for ever.
    fn check_journal(&self) -> Result<()> {
        let least = self.segment_bytes.saturating_mul(JOURNAL_KEPT_SEGMENTS as u64 + 2);
        if self.durability == Durability::Memory || self.journal_bytes_max >= least {
            return Ok(());
        }
        Err(Error::new(
            Code::ConfigInvalid,
            format!(
                "a journal of at most {} bytes is too small for segments of {} bytes: allow at least {least}",
                self.journal_bytes_max, self.segment_bytes
            ),
        ))
    }
}

//! How far the opening of a database is: written by the threads that load its shards, read by any thread.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How far [`Engine::open`](crate::Engine::open) is, for another thread. Clones share it. It is of the last opening whose
/// [`Options`](crate::Options) have it.
#[derive(Clone, Default)]
pub struct LoadProgress(Arc<Mutex<Arc<[Counters]>>>);

impl LoadProgress {
    /// The progress of a database whose opening has not begun.
    #[must_use]
    pub fn new() -> Self {
        LoadProgress::default()
    }

    /// How far each shard is. Empty until the database has been found or created.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardLoad> {
        let shards = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        shards.iter().map(Counters::read).collect()
    }

    /// Starts again with this number of shards.
    pub(crate) fn begin(&self, shards: usize) -> Arc<[Counters]> {
        let counters: Arc<[Counters]> = (0..shards).map(|_| Counters::default()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&counters);
        counters
    }
}

/// How far the loading of a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardLoad {
    /// What is being done.
    pub stage: LoadStage,
    /// Keys of the archive. Until all are read, the total is an upper bound.
    pub keys: Portion,
    /// Bytes of the journal behind the archive, which is read a little ahead. The total includes the unused end of the last
    /// segment.
    pub journal_bytes: Portion,
    /// How long the archive took, once it is loaded.
    pub archive_ms: u64,
    /// How long the journal took, once it is replayed.
    pub journal_ms: u64,
}

/// What is being done to load a shard, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadStage {
    /// The keys are read from the archive.
    #[default]
    Archive,
    /// The journal behind the archive is replayed.
    Journal,
    /// Nothing is left to do.
    Done,
}

impl LoadStage {
    const ALL: [LoadStage; 3] = [LoadStage::Archive, LoadStage::Journal, LoadStage::Done];
}

/// So much of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// What is done.
    pub done: u64,
    /// All there is to do.
    pub total: u64,
}

impl Portion {
    /// The done part in percent, from 0 to 100. Of nothing, all is done.
    #[must_use]
    pub fn percent(self) -> f64 {
        if self.total == 0 { 100.0 } else { (self.done as f64 / self.total as f64 * 100.0).min(100.0) }
    }
}

impl std::ops::Add for Portion {
    type Output = Portion;

    fn add(self, other: Portion) -> Portion {
        Portion { done: self.done + other.done, total: self.total + other.total }
    }
}

/// The progress of one shard, as its loading thread writes it.
#[derive(Default)]
pub(crate) struct Counters {
    stage: AtomicU8,
    keys: [AtomicU64; 2],
    journal_bytes: [AtomicU64; 2],
    archive_ms: AtomicU64,
    journal_ms: AtomicU64,
}

impl Counters {
    fn set_stage(&self, stage: LoadStage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// The archive is loaded, after this time.
    pub(crate) fn end_archive(&self, took: Duration) {
        self.archive_ms.store(took.as_millis() as u64, Ordering::Relaxed);
        self.set_stage(LoadStage::Journal);
    }

    /// The journal is replayed, after this time. Nothing is left to do.
    pub(crate) fn end_journal(&self, took: Duration) {
        self.journal_ms.store(took.as_millis() as u64, Ordering::Relaxed);
        self.set_stage(LoadStage::Done);
    }

    pub(crate) fn set_keys(&self, keys: Portion) {
        set(&self.keys, keys);
    }

    pub(crate) fn set_journal_bytes(&self, bytes: Portion) {
        set(&self.journal_bytes, bytes);
    }

    fn read(&self) -> ShardLoad {
        let stage = usize::from(self.stage.load(Ordering::Acquire));
        ShardLoad {
            stage: LoadStage::ALL.get(stage).copied().unwrap_or_default(),
            keys: get(&self.keys),
            journal_bytes: get(&self.journal_bytes),
            archive_ms: self.archive_ms.load(Ordering::Relaxed),
            journal_ms: self.journal_ms.load(Ordering::Relaxed),
        }
    }
}

fn set([done, total]: &[AtomicU64; 2], portion: Portion) {
    total.store(portion.total, Ordering::Relaxed);
    done.store(portion.done, Ordering::Relaxed);
}

fn get([done, total]: &[AtomicU64; 2]) -> Portion {
    Portion { done: done.load(Ordering::Relaxed), total: total.load(Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_what_the_loading_thread_writes() {
        let progress = LoadProgress::new();
        assert_eq!(progress.shards(), []);
        let shards = progress.clone().begin(2);
        assert_eq!(progress.shards()[1].stage, LoadStage::Archive);
        shards[1].end_archive(Duration::from_secs(1));
        assert_eq!(progress.shards()[1].stage, LoadStage::Journal);
        shards[1].end_journal(Duration::from_secs(2));
        let ShardLoad { stage, archive_ms, journal_ms, .. } = progress.shards()[1];
        assert_eq!((stage, archive_ms, journal_ms), (LoadStage::Done, 1000, 2000));
        let keys = Portion { done: 3, total: 12 };
        shards[1].set_keys(keys);
        assert_eq!(progress.shards()[0], ShardLoad::default());
        assert_eq!(progress.shards()[1].keys, keys);
        assert_eq!(keys.percent(), 25.0);
        assert_eq!(Portion::default().percent(), 100.0);
        progress.begin(1);
        assert_eq!(progress.shards(), [ShardLoad::default()]);
    }
}

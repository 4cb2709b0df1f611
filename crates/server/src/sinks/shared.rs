//! What the task of a sink shares with requests and metrics: its state, its quarantine, and how far the target is. Touches nothing but the
//! quarantine's file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keystead_core::{Code, Error, Revision, ShardId, Stopwatch};
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::{Notify, watch};

use super::quarantine::Quarantine;

/// Why a sink does not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The code of the error.
    pub code: Code,
    /// Its message.
    pub message: String,
}

impl Problem {
    pub(super) fn of(error: &Error) -> Problem {
        Problem { code: error.code(), message: error.message().to_owned() }
    }
}

/// The state of a sink.
#[derive(Clone, Default)]
pub struct Status {
    /// Keys that have changed and are not in the target.
    pub pending: usize,
    /// When the oldest of them was noticed.
    pub since: Option<Stopwatch>,
    /// Changes of its keys since the start.
    pub changes: u64,
    /// Rows that were written since the start.
    pub rows: u64,
    /// Batches that were written since the start.
    pub batches: u64,
    /// How long the last of them took.
    pub flush_last: Duration,
    /// How long all of them took.
    pub flush_total: Duration,
    /// How often it has begun to write all keys, and why it does so now.
    pub resyncs: u64,
    /// See `resyncs`.
    pub resyncing: Option<String>,
    /// Of an event log, since the start: how often changes were missing.
    pub gaps: u64,
    /// Of an event log, since the start: changes that have no form as JSON.
    pub rejected: u64,
    /// Of an event log, since the start: rows that a compaction has removed or made whole.
    pub compacted: u64,
    /// Why it does not write.
    pub problem: Option<Problem>,
}

impl Status {
    pub(super) fn begin_resync(&mut self, why: &str) {
        self.resyncs += 1;
        self.resyncing = Some(why.to_owned());
    }

    /// How long the oldest pending change has waited.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// How long a batch takes on average.
    #[must_use]
    pub fn flush_mean(&self) -> Duration {
        self.flush_total.checked_div(u32::try_from(self.batches).unwrap_or(u32::MAX)).unwrap_or_default()
    }

    /// Changes for each row that was written; nothing before the first row.
    #[must_use]
    pub fn coalescing(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.changes as f64 / self.rows as f64)
    }
}

pub(super) struct Shared {
    status: Mutex<Status>,
    quarantine: Mutex<Quarantine>,
    /// Of each shard, the revision up to which everything is in the target or in quarantine.
    reached: watch::Sender<Vec<Revision>>,
    /// Of each shard, the revision that somebody waits for.
    wanted: Vec<AtomicU64>,
    /// Of each shard, the revision up to which the journal is not needed.
    written: Vec<AtomicU64>,
    wants_resync: AtomicBool,
    wake: Notify,
    latency: Histogram,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(shards: usize, quarantine: Quarantine, latency: Histogram) -> Shared {
        let zeros = || (0..shards).map(|_| AtomicU64::new(0)).collect();
        Shared {
            status: Mutex::default(),
            quarantine: Mutex::new(quarantine),
            reached: watch::Sender::new(vec![Revision::ZERO; shards]),
            wanted: zeros(),
            written: zeros(),
            wants_resync: AtomicBool::new(false),
            wake: Notify::new(),
            latency,
        }
    }

    pub(super) fn status(&self) -> MutexGuard<'_, Status> {
        locked(&self.status)
    }

    pub(super) fn quarantine(&self) -> MutexGuard<'_, Quarantine> {
        locked(&self.quarantine)
    }

    /// Sets the problem, and returns whether it is another one.
    pub(super) fn set_problem(&self, problem: Option<Problem>) -> bool {
        let mut status = self.status();
        let is_new = status.problem != problem;
        status.problem = problem;
        is_new
    }

    /// Counts a batch.
    pub(super) fn landed(&self, rows: usize, took: Duration) {
        self.latency.observe(took.as_secs_f64());
        let mut status = self.status();
        status.rows += rows as u64;
        status.batches += 1;
        status.flush_last = took;
        status.flush_total += took;
    }

    pub(super) fn publish(&self, reached: &[Revision]) {
        self.reached.send_if_modified(|before| {
            let is_new = before != reached;
            if is_new {
                before.clear();
                before.extend_from_slice(reached);
            }
            is_new
        });
    }

    pub(super) fn set_written(&self, written: &[Revision]) {
        for (slot, revision) in self.written.iter().zip(written) {
            slot.store(revision.0, Ordering::Relaxed);
        }
    }

    /// The revision of a shard up to which the journal is not needed.
    pub(super) fn written(&self, shard: ShardId) -> Revision {
        Revision(self.written.get(shard.0).map_or(0, |slot| slot.load(Ordering::Relaxed)))
    }

    /// Of each shard, the revision up to which everything is in the target or in quarantine.
    pub(super) fn reached(&self) -> Vec<Revision> {
        self.reached.borrow().clone()
    }

    /// Whether somebody waits for more than this.
    pub(super) fn is_wanted(&self, reached: &[Revision]) -> bool {
        self.wanted.iter().zip(reached).any(|(wanted, reached)| wanted.load(Ordering::Relaxed) > reached.0)
    }

    /// Waits until everything up to these revisions is in the target or in quarantine, and makes the sink write it now.
    pub(super) async fn reach(&self, revisions: &[(ShardId, Revision)]) {
        for (shard, revision) in revisions {
            if let Some(wanted) = self.wanted.get(shard.0) {
                wanted.fetch_max(revision.0, Ordering::Relaxed);
            }
        }
        self.wake.notify_one();
        let is_reached = |reached: &Vec<Revision>| {
            revisions
                .iter()
                .all(|(shard, revision)| reached.get(shard.0).is_some_and(|there| there >= revision))
        };
        // The sender is not dropped before `self`, so the wait cannot fail.
        let _ = self.reached.subscribe().wait_for(is_reached).await;
    }

    pub(super) fn request_resync(&self) {
        self.wants_resync.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    pub(super) fn wants_resync(&self) -> bool {
        self.wants_resync.load(Ordering::Relaxed)
    }

    pub(super) fn take_resync(&self) -> bool {
        self.wants_resync.swap(false, Ordering::Relaxed)
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for so long, or until it is woken.
    pub(super) async fn wait(&self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.wake.notified()).await;
    }
}

//! A shard: the single writer of its keys.
//!
//! It runs jobs on its keyspace, sends what they changed to the journal, and holds back each result at the output gate until
//! everything that it depends on is durable. A result that depends only on durable revisions is delivered at once.

pub(crate) mod garbage;
mod grouping;
mod job;
mod local;
mod thread;
pub(crate) mod throttle;
mod waiting;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use keystead_core::{Clock, Code, Error, Millis, Result, Revision, Stopwatch};
use keystead_model::effect::{Effect, encode};
use keystead_model::keyspace::Keyspace;
use tokio::sync::{Notify, broadcast};

use crate::archive::shard_keys::KeysRequest;
use crate::bounds::{BATCH_BYTES, JOB_BYTES_MAX, JOURNAL_KEPT_SEGMENTS, RECLAIM_PER_TURN, RECORD_BYTES_MAX};
use crate::health::{Vitals, lost, rejected};
use crate::journal::Progress;
use crate::journal::group::{Batch, GroupWriter};
use crate::journal::inline::{InlineWriter, Syncer};
use crate::journal::segments::Segments;

use garbage::Collector;
use grouping::Grouping;
pub use job::{Completion, Job, Ran, Sequence, Wait};
pub(crate) use job::{Entry, Task};
pub use local::{Local, LocalTask, Turn};
pub(crate) use thread::{Inbox, Pace, serve};
use throttle::Throttle;
use waiting::Waiting;
pub use waiting::Watch;

/// The journal of a shard, by durability.
pub(crate) enum Journal {
    /// A thread that writes and syncs in groups.
    Fsync(GroupWriter),
    /// Written by the shard itself.
    Commit(Box<InlineWriter>),
    /// None: changes are only sent to feeds.
    Memory(broadcast::Sender<Arc<Vec<Effect>>>),
}

impl Journal {
    /// Syncs what was written, where durable does not mean synced.
    pub(crate) fn syncer(&self) -> Option<Syncer> {
        match self {
            Journal::Commit(writer) => Some(writer.syncer()),
            _ => None,
        }
    }
}

/// What a shard shares with its other threads and the engine.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) files: Option<Arc<Segments>>,
    pub(crate) journal_bytes_max: u64,
    /// Frees what takes long.
    pub(crate) collector: Collector,
    /// Memory budget for keys and values.
    pub(crate) memory_bytes: Option<usize>,
    /// Notified when something new is durable: change feeds wait for it.
    pub(crate) progressed: Arc<Notify>,
}

/// One shard, driven by its thread.
pub(crate) struct Shard {
    pub(crate) keyspace: Keyspace,
    pub(crate) journal: Journal,
    pub(crate) shared: Shared,
    notified: Revision,
    gate: VecDeque<(Revision, Entry)>,
    /// Tasks on this loop that wait until a revision is durable, or (0) until the shard continues.
    sleepers: VecDeque<(Revision, Waker)>,
    pub(crate) waiting: Waiting,
    effects: Vec<Effect>,
    /// Effects that [`Waiting`] has been notified of.
    noted: usize,
    /// Bytes that the current batch has recorded.
    batch_bytes: usize,
    grouping: Grouping,
    poisoned: Option<String>,
    journal_full: bool,
    throttle: Throttle,
    throttle_updated: Stopwatch,
    /// Too much unarchived data is in memory: no task on this loop gets a turn.
    pub(crate) stalled: bool,
    /// Notified when a turn on this loop left something to send.
    pub(crate) unsent: Arc<Notify>,
}

impl Shard {
    pub(crate) fn new(mut keyspace: Keyspace, journal: Journal, shared: Shared) -> Self {
        keyspace.set_change_bytes_max(JOB_BYTES_MAX);
        let kept_bytes = shared
            .files
            .as_ref()
            .map_or(0, |files| (JOURNAL_KEPT_SEGMENTS as u64 + 1) * files.segment_bytes());
        let throttle = Throttle::new(shared.journal_bytes_max, kept_bytes);
        keyspace.collect_garbage();
        if let Some(budget) = shared.memory_bytes {
            keyspace.set_memory_bound(budget, true);
        }
        Shard {
            keyspace,
            journal,
            shared,
            notified: Revision::ZERO,
            gate: VecDeque::new(),
            sleepers: VecDeque::new(),
            waiting: Waiting::default(),
            effects: Vec::new(),
            noted: 0,
            batch_bytes: 0,
            grouping: Grouping::default(),
            poisoned: None,
            journal_full: false,
            throttle,
            throttle_updated: Stopwatch::start(),
            stalled: false,
            unsent: Arc::default(),
        }
    }

    /// Begins a batch or a turn: reads the clock and the state of journal and archive.
    fn begin(&mut self) -> Millis {
        self.journal_full = self.is_journal_full();
        self.keyspace.set_archived(self.shared.progress.archived());
        if let Some(budget) = self.shared.memory_bytes
            && self.keyspace.used_bytes() > budget
        {
            // Without an archive nothing can be evicted, so values count too.
            self.keyspace.set_memory_bound(budget, !self.shared.vitals.is_archive_failing());
        }
        let now = self.shared.clock.now();
        self.shared.vitals.begin_turn(now);
        now
    }

    /// Answers a request of the archive for keys, unless what it would read may be lost.
    pub(crate) fn reply(&self, request: KeysRequest) {
        if self.poisoned.is_none() {
            request.reply(&self.keyspace);
        }
    }

    /// The same for what was queued: expired keys are reclaimed first.
    fn begin_batch(&mut self) -> Millis {
        let now = self.begin();
        self.reclaim(now);
        now
    }

    fn reclaim(&mut self, now: Millis) {
        if self.poisoned.is_some() || self.journal_full {
            return;
        }
        let mut budget = RECLAIM_PER_TURN;
        if let Err(error) = self.keyspace.reclaim(now, &mut budget) {
            tracing::warn!(%error, "cannot reclaim");
        }
        // No result depends on what was reclaimed.
        self.keyspace.take_seen();
        self.serve_waiting(now);
    }

    /// Sends changes to the journal, and delivers the results that are durable.
    pub(crate) fn finish(&mut self) {
        self.send();
        self.open_gate();
        self.shared.collector.collect(&mut self.keyspace);
        self.shared.vitals.set_size(&self.keyspace);
    }

    /// Ends a turn on this loop. Its changes are sent when all tasks that are ready have had theirs.
    fn end_turn(&mut self) {
        self.shared.collector.collect(&mut self.keyspace);
        if self.keyspace.effects().is_empty() {
            // Reads may have loaded more than fits.
            if self.shared.memory_bytes.is_some_and(|budget| self.keyspace.used_bytes() > budget) {
                self.unsent.notify_one();
            }
            return;
        }
        if let Journal::Memory(_) = self.journal {
            // Without a journal, batching gains nothing.
            self.send();
            if !self.gate.is_empty() || !self.sleepers.is_empty() {
                self.open_gate();
            }
        } else if self.batch_bytes > BATCH_BYTES {
            self.finish();
        } else {
            self.unsent.notify_one();
        }
    }

    /// Evicts values in the middle of a turn that has read far too many: the loop would evict too late.
    fn evict_in_turn(&mut self) {
        if let Some(budget) = self.shared.memory_bytes
            && self.keyspace.used_bytes() > budget + budget / 4
        {
            self.keyspace.evict(budget);
            self.shared.collector.collect(&mut self.keyspace);
        }
    }

    /// Runs a job of a batch.
    fn run(&mut self, mut job: Box<dyn Job>, now: Millis) {
        let writes = job.writes();
        let ran = self.attempt_alone(writes, |keyspace| {
            let ran = job.run(keyspace, now);
            let completion = Completion::commit_if(ran != Ran::Failed);
            (ran, completion)
        });
        match ran {
            Err(error) => job.complete(Err(error)),
            Ok((Ran::Waits(wait), seen)) => self.wait(job, wait, seen, now),
            Ok((_, seen)) => self.deliver(Entry::Job(job), seen),
        }
        self.serve_waiting(now);
        if self.batch_bytes > BATCH_BYTES {
            self.send();
        }
    }

    /// Delivers a result when everything up to `seen` is durable and may be acknowledged.
    fn deliver(&mut self, entry: Entry, seen: Revision) {
        if seen <= self.acknowledged() {
            entry.complete(Ok(()));
        } else {
            self.gate.push_back((seen, entry));
        }
    }

    /// Runs a function on the keys, keeps or undoes its changes, and returns the revision that must be durable before the result may
    /// be sent. Then runs jobs that waited for what it changed.
    fn attempt<R>(
        &mut self,
        writes: bool,
        run: impl FnOnce(&mut Keyspace) -> (R, Completion),
    ) -> Result<(R, Revision)> {
        let result = self.attempt_alone(writes, run);
        if !self.waiting.is_idle() {
            let now = self.shared.clock.now();
            self.serve_waiting(now);
        }
        result
    }

    fn attempt_alone<R>(
        &mut self,
        writes: bool,
        run: impl FnOnce(&mut Keyspace) -> (R, Completion),
    ) -> Result<(R, Revision)> {
        if let Some(why) = &self.poisoned {
            return Err(rejected(why));
        }
        if writes {
            if self.journal_full {
                return Err(self.full());
            }
            self.keyspace.savepoint();
        }
        let keyspace = &mut self.keyspace;
        match catch_unwind(AssertUnwindSafe(|| run(keyspace))) {
            Ok((result, completion)) => {
                match completion {
                    _ if !writes => {}
                    Completion::Commit => {
                        self.batch_bytes += self.keyspace.release()?;
                        self.grouping.count();
                    }
                    Completion::Rollback => self.keyspace.rollback(),
                }
                Ok((result, self.keyspace.take_seen()))
            }
            // Nothing of this batch is sent any more, so what the job left behind is lost with the process.
            Err(_) => {
                self.poison("a job panicked; see the log".into());
                Err(lost("a job panicked"))
            }
        }
    }

    /// Notes what has changed, and runs waiting jobs until none of them can continue.
    pub(crate) fn serve_waiting(&mut self, now: Millis) {
        if self.waiting.is_idle() {
            return;
        }
        self.note();
        while self.poisoned.is_none()
            && let Some((key, queue)) = self.waiting.next_changed()
        {
            for ticket in queue {
                let exists = self.keyspace.exists(&key, now).unwrap_or(true);
                if exists || self.waiting.runs_on_delete(ticket) {
                    self.retry(ticket, now);
                }
            }
            self.keyspace.take_seen();
        }
    }

    /// Runs a waiting job again.
    fn retry(&mut self, ticket: u64, now: Millis) {
        let Some((mut job, _, until)) = self.waiting.take(ticket) else { return };
        self.keyspace.take_seen();
        let ran = self.attempt_alone(job.writes(), |keyspace| {
            let ran = job.run(keyspace, now);
            let completion = Completion::commit_if(ran != Ran::Failed);
            (ran, completion)
        });
        match ran {
            Err(error) => job.complete(Err(error)),
            Ok((Ran::Waits(wait), seen)) => self.waiting.add(job, wait, seen, until),
            Ok((_, seen)) => self.deliver(Entry::Job(job), seen),
        }
        self.note();
    }

    fn note(&mut self) {
        let effects = self.keyspace.effects();
        self.waiting.note(&effects[self.noted.min(effects.len())..]);
        self.noted = effects.len();
    }

    /// Ends the wait of a job; it completes with its last result.
    pub(crate) fn end_wait(&mut self, ticket: u64) {
        if let Some((job, seen, _)) = self.waiting.take(ticket) {
            self.deliver(Entry::Job(job), seen);
        }
    }

    fn wait(&mut self, job: Box<dyn Job>, wait: Wait, seen: Revision, now: Millis) {
        let until = wait.timeout_ms.map_or(Millis::NEVER, |ms| Millis(now.0.saturating_add(ms)));
        if self.waiting.next_deadline().is_none_or(|next| until < next) {
            // The loop must not sleep past it.
            self.unsent.notify_one();
        }
        self.waiting.add(job, wait, seen, until);
    }

    /// Completes jobs whose timeout has passed.
    pub(crate) fn end_waits(&mut self) {
        let now = self.shared.clock.now();
        while let Some(ticket) = self.waiting.next_due(now) {
            self.end_wait(ticket);
        }
    }

    /// Milliseconds until the next timeout of a waiting job.
    pub(crate) fn next_end_ms(&self) -> Option<u64> {
        let until = self.waiting.next_deadline()?;
        Some(until.0.saturating_sub(self.shared.clock.now().0))
    }

    fn watch(&mut self, key: &[u8], watch: &Watch, now: Millis) -> Result<()> {
        // Earlier changes do not count.
        self.note();
        let existed = self.keyspace.exists(key, now)?;
        self.note();
        self.waiting.watch(key, existed, watch);
        Ok(())
    }

    /// Sends the batch's effects to the journal.
    fn send(&mut self) {
        self.batch_bytes = 0;
        if self.keyspace.effects().is_empty() || self.poisoned.is_some() {
            return;
        }
        if !self.waiting.is_idle() {
            self.note();
        }
        self.noted = 0;
        self.keyspace.take_effects(&mut self.effects);
        let (Some(first), Some(last)) = (self.effects.first(), self.effects.last()) else { return };
        let (first, last) = (first.revision, last.revision);
        if let Journal::Memory(listeners) = &self.journal {
            if listeners.receiver_count() > 0 {
                let _ = listeners.send(Arc::new(std::mem::take(&mut self.effects)));
            }
            self.effects.clear();
            return self.shared.progress.set_durable(last);
        }
        let mut bytes = Vec::with_capacity(self.effects.len() * 64);
        encode(&self.effects, &mut bytes);
        if bytes.len() > RECORD_BYTES_MAX {
            return self.poison(format!("a batch of {} bytes is too large for the journal", bytes.len()));
        }
        // They may be large, and the next batch may be far off.
        self.effects.clear();
        let batch = Batch { first, last, effects: bytes };
        match &mut self.journal {
            Journal::Fsync(group) => {
                self.grouping.sent(last);
                group.send(batch);
            }
            Journal::Commit(writer) => match writer.write(&batch) {
                Ok(()) => self.shared.progress.set_durable(last),
                Err(error) => self.poison(format!("the journal cannot be written: {error}")),
            },
            Journal::Memory(_) => {}
        }
    }

    /// Delivers every result whose revision is durable.
    pub(crate) fn open_gate(&mut self) {
        if self.poisoned.is_none()
            && let Some(why) = self.shared.vitals.poisoned()
        {
            self.poisoned = Some(why);
        }
        let durable = self.shared.progress.durable();
        if self.notified != durable {
            self.notified = durable;
            self.shared.progressed.notify_waiters();
        }
        self.update_throttle();
        let acknowledged = self.acknowledged();
        while let Some((_, entry)) = self.gate.pop_front_if(|(revision, _)| *revision <= acknowledged) {
            entry.complete(Ok(()));
        }
        while let Some((_, waker)) = self.sleepers.pop_front_if(|(revision, _)| *revision <= acknowledged) {
            waker.wake();
        }
        if let Some(why) = &self.poisoned {
            for (_, entry) in self.gate.drain(..) {
                entry.complete(Err(lost(why)));
            }
            for job in self.waiting.drain() {
                job.complete(Err(rejected(why)));
            }
            for (_, waker) in self.sleepers.drain(..) {
                waker.wake();
            }
        }
    }

    /// Pauses or resumes the tasks on this loop.
    pub(crate) fn set_stalled(&mut self, stalled: bool) {
        if self.stalled && !stalled {
            // Tasks that wait for the disk are woken when it is durable, and registered only once.
            self.sleepers.retain(|(revision, waker)| {
                if *revision == Revision::ZERO {
                    waker.wake_by_ref();
                }
                *revision > Revision::ZERO
            });
        } else if stalled && !self.stalled {
            self.shared.vitals.count_stall();
        }
        self.stalled = stalled;
    }

    /// Whether a result waits for the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.gate.is_empty()
    }

    fn poison(&mut self, why: String) {
        self.shared.vitals.poison(why.clone());
        self.poisoned = Some(why);
    }

    fn full(&self) -> Error {
        let why = self.shared.vitals.archive_failing().unwrap_or_else(|| "it lags behind".into());
        let limit = self.shared.journal_bytes_max;
        Error::new(
            Code::StoreUnavailable,
            format!(
                "writes are refused: the journal has reached {limit} bytes because the archive cannot follow ({why})"
            ),
        )
    }
}

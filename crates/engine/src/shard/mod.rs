//! A shard: the one writer of its keys.
//!
//! It runs jobs on its keyspace, hands what they changed to the journal, and keeps each answer at the gate until everything
//! that it tells is durable. An answer that rests only on settled keys leaves at once.

mod job;
mod thread;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use keystead_core::{Clock, Code, Error, Millis};
use keystead_model::effect::{Effect, encode};
use keystead_model::keyspace::Keyspace;
use tokio::sync::{Notify, broadcast};

use crate::health::{Vitals, lost, refused};
use crate::journal::Progress;
use crate::journal::group::{Batch, GroupWriter};
use crate::journal::inline::InlineWriter;
use crate::journal::shelf::Shelf;
use crate::limits::{BATCH_BYTES, JOB_BYTES_MAX, RECLAIM_PER_TURN, RECORD_BYTES_MAX};

pub use job::Job;
pub(crate) use job::Task;
pub(crate) use thread::{Pace, serve};

/// Where a shard's effects go.
pub(crate) enum Journal {
    /// To the thread that writes and syncs in groups.
    Fsync(GroupWriter),
    /// To the operating system, at once.
    Commit(Box<InlineWriter>),
    /// Nowhere but to those who listen.
    Memory(broadcast::Sender<Arc<Vec<Effect>>>),
}

/// What a shard shares with its other threads and the rest of the world.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) files: Option<Arc<Shelf>>,
    pub(crate) journal_bytes_max: u64,
    /// Told when something new is durable: change feeds wait here.
    pub(crate) news: Arc<Notify>,
}

/// One shard, driven by its thread.
pub(crate) struct Shard {
    pub(crate) keyspace: Keyspace,
    pub(crate) journal: Journal,
    pub(crate) shared: Shared,
    told: u64,
    gate: VecDeque<(u64, Box<dyn Job>)>,
    effects: Vec<Effect>,
    /// What the present batch has recorded.
    batch_bytes: usize,
    poisoned: Option<String>,
    journal_full: bool,
}

impl Shard {
    pub(crate) fn new(keyspace: Keyspace, journal: Journal, shared: Shared) -> Self {
        Shard {
            keyspace,
            journal,
            shared,
            told: 0,
            gate: VecDeque::new(),
            effects: Vec::new(),
            batch_bytes: 0,
            poisoned: None,
            journal_full: false,
        }
    }

    /// Runs a batch of jobs and sends what they changed on its way.
    pub(crate) fn run_batch(&mut self, jobs: &mut Vec<Box<dyn Job>>) {
        let now = self.shared.clock.now();
        self.journal_full =
            self.shared.files.as_ref().is_some_and(|files| files.bytes() > self.shared.journal_bytes_max);
        self.keyspace.set_archived(self.shared.progress.archived());
        if self.poisoned.is_none() && !self.journal_full {
            let mut budget = RECLAIM_PER_TURN;
            if let Err(error) = self.keyspace.reclaim(now, &mut budget) {
                tracing::warn!(%error, "cannot reclaim");
            }
            // What was reclaimed is nobody's answer.
            self.keyspace.take_seen();
        }
        for job in jobs.drain(..) {
            self.run(job, now);
            if self.batch_bytes > BATCH_BYTES {
                self.send();
            }
        }
        self.send();
        self.open_gate();
    }

    fn run(&mut self, mut job: Box<dyn Job>, now: Millis) {
        if let Some(why) = &self.poisoned {
            return job.answer(Err(refused(why)));
        }
        let writes = job.writes();
        if writes && self.journal_full {
            return job.answer(Err(self.full()));
        }
        if writes {
            self.keyspace.savepoint();
        }
        let before = self.keyspace.effects().len();
        let keyspace = &mut self.keyspace;
        match catch_unwind(AssertUnwindSafe(|| job.run(keyspace, now))) {
            Ok(true) if writes => {
                let bytes: usize = self.keyspace.effects()[before..].iter().map(Effect::size_hint).sum();
                if bytes > JOB_BYTES_MAX {
                    self.keyspace.rollback();
                    return job.answer(Err(too_large(bytes)));
                }
                self.keyspace.release();
                self.batch_bytes += bytes;
            }
            Ok(false) if writes => self.keyspace.rollback(),
            Ok(_) => {}
            // Nothing of this batch is sent any more, so what the job left behind stays in memory and dies there.
            Err(_) => {
                self.poison("a job panicked; see the log".into());
                return job.answer(Err(lost("a job panicked")));
            }
        }
        let seen = self.keyspace.take_seen();
        if seen <= self.shared.progress.durable() {
            job.answer(Ok(()));
        } else {
            self.gate.push_back((seen, job));
        }
    }

    /// Sends the batch's effects to the journal.
    fn send(&mut self) {
        self.batch_bytes = 0;
        if self.keyspace.effects().is_empty() || self.poisoned.is_some() {
            return;
        }
        self.keyspace.take_effects(&mut self.effects);
        let (Some(first), Some(last)) = (self.effects.first(), self.effects.last()) else { return };
        let (first, last) = (first.revision, last.revision);
        if let Journal::Memory(listeners) = &self.journal {
            if listeners.receiver_count() > 0 {
                let _ = listeners.send(Arc::new(std::mem::take(&mut self.effects)));
            }
            return self.shared.progress.set_durable(last);
        }
        let mut bytes = Vec::with_capacity(self.effects.len() * 64);
        encode(&self.effects, &mut bytes);
        if bytes.len() > RECORD_BYTES_MAX {
            return self.poison(format!("a batch of {} bytes is too large for the journal", bytes.len()));
        }
        let batch = Batch { first, last, effects: bytes };
        match &mut self.journal {
            Journal::Fsync(group) => group.send(batch),
            Journal::Commit(writer) => match writer.write(&batch) {
                Ok(()) => self.shared.progress.set_durable(last),
                Err(error) => self.poison(format!("the journal cannot be written: {error}")),
            },
            Journal::Memory(_) => {}
        }
    }

    /// Lets out every answer whose revision is durable.
    pub(crate) fn open_gate(&mut self) {
        if self.poisoned.is_none()
            && let Some(why) = self.shared.vitals.poisoned()
        {
            self.poisoned = Some(why);
        }
        let durable = self.shared.progress.durable();
        if self.told != durable {
            self.told = durable;
            self.shared.news.notify_waiters();
        }
        while let Some((_, job)) = self.gate.pop_front_if(|(revision, _)| *revision <= durable) {
            job.answer(Ok(()));
        }
        if let Some(why) = &self.poisoned {
            for (_, job) in self.gate.drain(..) {
                job.answer(Err(lost(why)));
            }
        }
    }

    /// Whether an answer waits for the disk.
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

fn too_large(bytes: usize) -> Error {
    Error::new(
        Code::TooLarge,
        format!("max change size exceeded. Limit: {JOB_BYTES_MAX} bytes, Actual: {bytes} bytes"),
    )
}

//! A shard seen from its own thread: tasks on its loop access its keys without a queue.
//!
//! Invariant: no task holds a [`Turn`] across an await, so the shard is never borrowed twice. What turns changed is sent to the
//! journal when all tasks that are ready have run: that is the batch.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use keystead_core::{Millis, Result, Revision, ShardId};
use keystead_model::keyspace::Keyspace;

use super::{Completion, Entry, Job, Sequence, Shard, Wait, Watch};
use crate::bounds::BATCH_BYTES;
use crate::health::lost;

/// A task that runs on a shard's loop.
pub type LocalTask = Box<dyn FnOnce(Local) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A shard, for tasks on its loop.
#[derive(Clone)]
pub struct Local {
    shard: Rc<RefCell<Shard>>,
    id: ShardId,
}

impl Local {
    pub(crate) fn new(shard: Rc<RefCell<Shard>>, id: ShardId) -> Self {
        Local { shard, id }
    }

    /// The id of the shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.id
    }

    /// Exclusive access to the shard until dropped. `None` while it waits for its archive; `waker` is woken when it continues.
    pub fn turn(&self, waker: &Waker) -> Option<Turn<'_>> {
        let mut shard = self.shard.borrow_mut();
        if shard.stalled {
            shard.sleepers.push_back((Revision::ZERO, waker.clone()));
            return None;
        }
        let now = shard.begin();
        Some(Turn { shard, now, id: self.id })
    }

    /// The last revision that is durable and may be acknowledged. If it is less than `revision`, `waker` is woken when it is not.
    pub fn durable(&self, revision: Revision, waker: &Waker) -> Revision {
        let mut shard = self.shard.borrow_mut();
        let durable = shard.acknowledged();
        if revision > durable {
            shard.sleepers.push_back((revision, waker.clone()));
        }
        durable
    }

    /// Waits until `revision` is durable.
    ///
    /// # Errors
    /// When the shard is poisoned meanwhile.
    pub async fn until_durable(&self, revision: Revision) -> Result<()> {
        std::future::poll_fn(|cx| {
            if self.durable(revision, cx.waker()) >= revision {
                return Poll::Ready(Ok(()));
            }
            match self.poisoned() {
                Some(why) => Poll::Ready(Err(lost(&why))),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Why the shard rejects all requests, if it does: what is not durable by then never will be.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.shard.borrow().poisoned.clone()
    }

    /// Runs what was queued for the shard, and sends what jobs changed to the journal. Sequences run in turns, as the requests of
    /// connections do, and what they changed is sent with theirs.
    pub(crate) fn run_batch(&self, batch: &mut Vec<Entry>) {
        let now = self.shard.borrow_mut().begin_batch();
        let mut has_jobs = batch.is_empty();
        for entry in batch.drain(..) {
            match entry {
                Entry::Job(job) => {
                    has_jobs = true;
                    self.shard.borrow_mut().run(job, now);
                }
                Entry::Sequence(sequence) => self.run_sequence(sequence),
            }
        }
        if has_jobs {
            self.shard.borrow_mut().finish();
        }
    }

    fn run_sequence(&self, mut sequence: Box<dyn Sequence>) {
        let mut shard = self.shard.borrow_mut();
        // A batch may hold sequences of many connections: each has its own time, and none counts as part of a long command.
        let now = shard.begin();
        let mut turn = Turn { shard, now, id: self.id };
        let ran = catch_unwind(AssertUnwindSafe(|| sequence.run(&mut turn)));
        if ran.is_err() {
            turn.shard.poison("a request panicked; see the log".into());
        }
        drop(turn);
        match ran {
            Ok(seen) => self.shard.borrow_mut().deliver(Entry::Sequence(sequence), seen),
            Err(_) => sequence.complete(Err(lost("a request panicked"))),
        }
    }

    /// Ends a job's wait; it completes with its last result.
    pub fn end_wait(&self, ticket: u64) {
        self.shard.borrow_mut().end_wait(ticket);
    }
}

/// Exclusive access to a shard for a task on its loop.
pub struct Turn<'a> {
    shard: RefMut<'a, Shard>,
    now: Millis,
    id: ShardId,
}

impl Turn<'_> {
    /// Runs jobs again that wait for these keys, although the keys have not changed. A job whose keys do not exist goes on waiting,
    /// unless it is an error now to look at them.
    pub fn retry_waits(&mut self, selects: impl Fn(&[u8]) -> bool) {
        self.shard.waiting.wake(selects);
        self.shard.serve_waiting(self.now);
    }

    /// The id of the shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.id
    }

    /// The time of this turn.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The last revision that is durable and may be acknowledged.
    #[inline]
    #[must_use]
    pub fn durable(&self) -> Revision {
        self.shard.acknowledged()
    }

    /// Runs a function on the keys. It returns its result and whether to commit or roll back; the revision returned with the result
    /// must be durable before the result may be sent.
    ///
    /// # Errors
    /// When the shard is poisoned, its journal is full, or the change too large: nothing changed then.
    #[inline]
    pub fn run<R>(
        &mut self,
        writes: bool,
        run: impl FnOnce(&mut Keyspace, Millis) -> (R, Completion),
    ) -> Result<(R, Revision)> {
        let now = self.now;
        let ran = self.shard.attempt(writes, |keyspace| run(keyspace, now));
        if self.shard.batch_bytes > BATCH_BYTES {
            // The rest of the turn makes another batch, or one could become too large for the journal.
            self.shard.finish();
        }
        if !writes {
            self.shard.evict_in_turn();
        }
        ran
    }

    /// Reads what requests on these keys will read, at the same time for all of them. It changes nothing.
    #[inline]
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.shard.keyspace.prefetch(keys);
    }

    /// Makes a job that has run and found nothing wait for keys.
    pub fn wait(&mut self, job: Box<dyn Job>, wait: Wait, seen: Revision) {
        let now = self.now;
        self.shard.wait(job, wait, seen, now);
    }

    /// Makes `watch` report a change of a key.
    ///
    /// # Errors
    /// When fields of the key may have expired and its value cannot be loaded.
    pub fn watch(&mut self, key: &[u8], watch: &Watch) -> Result<()> {
        let now = self.now;
        self.shard.watch(key, watch, now)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.shard.end_turn();
    }
}

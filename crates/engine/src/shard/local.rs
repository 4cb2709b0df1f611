//! A shard seen from its own thread: what lives on its loop runs on its keys without a hop.
//!
//! Invariant: nobody holds a [`Turn`] across a wait, so the shard is never found in use. What a turn changed is sent on its
//! way when everybody who is awake has had their turn: that is the batch.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use keystead_core::{Millis, Result};
use keystead_model::keyspace::Keyspace;

use super::{Completion, Job, Shard, Wait, Watch};
use crate::bounds::BATCH_BYTES;
use crate::health::lost;

/// A task that lives on a shard's loop.
pub type Guest = Box<dyn FnOnce(Local) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A shard, for those who live on its loop.
#[derive(Clone)]
pub struct Local {
    shard: Rc<RefCell<Shard>>,
    index: usize,
}

impl Local {
    pub(crate) fn new(shard: Rc<RefCell<Shard>>, index: usize) -> Self {
        Local { shard, index }
    }

    /// Which shard this is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The shard, for a moment. `None` while it waits for its archive to follow; `waker` is then woken when it goes on.
    pub fn turn(&self, waker: &Waker) -> Option<Turn<'_>> {
        let mut shard = self.shard.borrow_mut();
        if shard.stalled {
            shard.sleepers.push_back((0, waker.clone()));
            return None;
        }
        let now = shard.begin();
        Some(Turn { shard, now, index: self.index })
    }

    /// Up to which revision everything is durable. Asks to be woken when `revision` is, if it is not yet.
    pub fn durable(&self, revision: u64, waker: &Waker) -> u64 {
        let mut shard = self.shard.borrow_mut();
        let durable = shard.shared.progress.durable();
        if revision > durable {
            shard.sleepers.push_back((revision, waker.clone()));
        }
        durable
    }

    /// Waits until `revision` is durable.
    ///
    /// # Errors
    /// When the shard is poisoned meanwhile.
    pub async fn until_durable(&self, revision: u64) -> Result<()> {
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

    /// Why the shard refuses everything, if it does: what is not durable by then never will be.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.shard.borrow().poisoned.clone()
    }

    /// Ends a job's wait; it answers with what it found last.
    pub fn end_wait(&self, ticket: u64) {
        self.shard.borrow_mut().end_wait(ticket);
    }
}

/// A shard at work for somebody on its loop.
pub struct Turn<'a> {
    shard: RefMut<'a, Shard>,
    now: Millis,
    index: usize,
}

impl Turn<'_> {
    /// Which shard this is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The moment of this turn.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Up to which revision everything is durable.
    #[inline]
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.shard.shared.progress.durable()
    }

    /// Runs something on the keys, and commits or rolls back as it says. With its result comes the revision that must be durable
    /// before the result is sent to a client.
    ///
    /// # Errors
    /// When the shard is poisoned, its journal is full, or the change too large: nothing changed then.
    #[inline]
    pub fn run<R>(
        &mut self,
        writes: bool,
        run: impl FnOnce(&mut Keyspace, Millis) -> (R, Completion),
    ) -> Result<(R, u64)> {
        let now = self.now;
        let ran = self.shard.attempt(writes, |keyspace| run(keyspace, now));
        if self.shard.batch_bytes > BATCH_BYTES {
            // The rest of the turn makes another batch, or one could become too large for the journal.
            self.shard.finish();
        }
        if !writes {
            self.shard.shed();
        }
        ran
    }

    /// Lets a job that has run and found nothing wait for keys.
    pub fn wait(&mut self, job: Box<dyn Job>, wait: Wait, seen: u64) {
        let now = self.now;
        self.shard.wait(job, wait, seen, now);
    }

    /// Lets `watch` be told when a key changes.
    ///
    /// # Errors
    /// When the key's fields may have expired and it cannot be brought into memory.
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

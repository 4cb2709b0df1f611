//! Compare-and-set: makes a [`Store`] of any server that can replace a value only if it has not changed.
//!
//! A backend implements [`read`](Backend::read) and [`swap`](Backend::swap) of one text, and nothing else. This layer does the rest,
//! the same for every server:
//!
//! | To find                                                     | open       |
//! |-------------------------------------------------------------|------------|
//! | what is stored under a key                                  | [`record`], in the core |
//! | steps that wait for one key                                 | `queue`    |
//! | batches of them, one at a time                              | `batch`    |
//! | how a batch of them becomes one new state                   | `combine`  |
//! | reading, swapping and trying again after a lost race        | `drive`    |
//! | the outcome of a swap without a reply                       | `settle`   |
//! | the last state of busy keys                                 | `cache`    |
//! | deadlines and pauses                                        | `retry`    |
//! | the names of writes                                         | `nonce`    |
//!
//! Invariants: a step that was acknowledged is in the record exactly one time; a step that was reported *not applied* never lands, even
//! if its write arrives late; what is not certain is reported as unknown. They hold as long as no record disappears from the
//! server within [`RECLAIM_SLACK_MS`](crate::bounds::RECLAIM_SLACK_MS) of its last write.

pub(crate) mod batch;
mod cache;
pub(crate) mod combine;
mod drive;
mod fault;
pub(crate) mod nonce;
pub(crate) mod queue;
pub(crate) mod retry;
mod settle;
#[cfg(test)]
mod testing;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::{
    Capabilities, Clock, Code, ErasedStep, Error, Key, Millis, Result, Store, StoreFuture, Together,
};

pub use keystead_core::record;

use cache::Cache;
use combine::{Job, Work};
use drive::Ended;
pub use nonce::Nonce;
use nonce::Nonces;
use queue::Queues;
use retry::Pace;

/// A server that can replace a value only if it has not changed.
///
/// A backend connects when it is first used, retries nothing, and switches off the retries of its client library. It needs no
/// deadline of its own: a call that takes too long is dropped, which must not disturb later calls.
pub trait Backend: Send + Sync + 'static {
    /// The name of this kind of store in URLs, errors and metrics, for example `redis`.
    fn scheme(&self) -> &'static str;

    /// What the store can do. `state_bytes_max` is the bound of a value on the server less
    /// [`HEADER_BYTES_MAX`](crate::bounds::HEADER_BYTES_MAX). Without an injected clock, [`Reading::now`] is the time.
    fn capabilities(&self) -> Capabilities;

    /// Reads the value of `key`, as of a time after the call began: not from a replica that lags.
    fn read<'a>(&'a self, key: &'a Key) -> impl Future<Output = Result<Reading>> + Send + 'a;

    /// Replaces the value of `key` if its version is still `expected`, atomically.
    ///
    /// An error whose outcome is *not applied* promises that this swap has not happened and will not. Everything else (a
    /// timeout, a lost connection, a server error whose meaning is not certain) is an error of unknown outcome.
    fn swap<'a>(
        &'a self,
        key: &'a Key,
        swap: &'a Swap<'a>,
    ) -> impl Future<Output = Result<Swapped>> + Send + 'a;

    /// Releases the connections.
    fn close(&self) -> impl Future<Output = Result<()>> + Send + '_;
}

/// The version of a value on the server: equal exactly if nothing has changed. It fits a counter, a revision (etcd, NATS) and a
/// versionstamp (Deno KV, ten bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionToken(pub u128);

/// A value on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its version.
    pub token: VersionToken,
    /// The [text form](record) of the record.
    pub text: String,
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The value; `None` if there is none.
    pub stored: Option<Stored>,
    /// The time of the server, if that is the authority.
    pub now: Option<Millis>,
}

/// A value that is to replace another.
#[derive(Clone, Copy, Debug)]
pub struct Swap<'a> {
    /// The version that is replaced; `None` if there must be no value.
    pub expected: Option<VersionToken>,
    /// The new value. It is never empty: a removed key keeps a tombstone for a while.
    pub text: &'a str,
    /// The version of the new value, for a server that has none of its own. It is also in the text.
    pub version: u64,
    /// The name of this write, for a server that detects repeated requests by it.
    pub nonce: Nonce,
    /// After so many milliseconds the server may delete the value; `None` is never. An earlier deletion breaks the invariants.
    pub reclaim_ms: Option<u64>,
}

/// The result of a swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It was replaced, and has this version.
    Done(VersionToken),
    /// The version was another one. It comes with the current value, if the server returns that.
    Conflict(Option<Reading>),
}

/// What became of a batch that had one attempt.
#[cfg(feature = "redis")]
pub(crate) enum Attempt {
    /// The steps with their replies.
    Done(Vec<Result<Box<dyn ErasedStep>>>),
    /// Others wrote the key meanwhile: nothing was changed.
    Lost,
}

/// A store on a [`Backend`].
pub struct CasStore<B: Backend> {
    inner: Arc<Inner<B>>,
}

pub(super) struct Inner<B> {
    backend: B,
    clock: Arc<dyn Clock>,
    pace: Pace,
    queues: Queues,
    cache: Cache,
    nonces: Nonces,
    closed: AtomicBool,
    #[cfg(test)]
    fault: Option<fault::Fault>,
}

impl<B: Backend> CasStore<B> {
    /// A store on this backend. Each call returns within `deadline_ms`.
    ///
    /// # Errors
    /// `config_invalid` when the deadline is out of range.
    pub fn new(backend: B, clock: Arc<dyn Clock>, deadline_ms: u64) -> Result<Self> {
        let inner = Inner {
            backend,
            clock,
            pace: Pace::new(deadline_ms)?,
            queues: Queues::default(),
            cache: Cache::default(),
            nonces: Nonces::new(),
            closed: AtomicBool::new(false),
            #[cfg(test)]
            fault: None,
        };
        Ok(CasStore { inner: Arc::new(inner) })
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.inner.backend
    }

    /// Runs steps on one key as one batch, in one attempt. The caller makes sure that a key has no other batch meanwhile.
    ///
    /// # Errors
    /// The error of the batch, for all of its steps.
    #[cfg(feature = "redis")]
    pub(crate) async fn attempt(&self, key: &Key, steps: Vec<Box<dyn ErasedStep>>) -> Result<Attempt> {
        let mut jobs: Vec<Job> = steps.into_iter().map(|step| Job::new(Work::Step(step))).collect();
        let ended = self.inner.attempts(key, &mut jobs, 1).await?;
        let result = |Job { work, result }| match work {
            Work::Step(step) => Some(result.and(Ok(step))),
            Work::Reset { .. } => None,
        };
        Ok(match ended {
            Ended::Done => Attempt::Done(jobs.into_iter().filter_map(result).collect()),
            Ended::Lost { .. } => Attempt::Lost,
        })
    }

    /// Runs `work` in the next batch of its key.
    async fn run(&self, key: &Key, work: Work) -> Result<Work> {
        let inner = &self.inner;
        if inner.closed.load(Ordering::SeqCst) {
            return Err(Error::new(Code::StoreUnavailable, "the store is closed"));
        }
        let (len, max) = (key.as_bytes().len(), inner.backend.capabilities().key_bytes_max);
        if len > max {
            let message = format!("max key size exceeded. Limit: {max} bytes, Actual: {len} bytes");
            return Err(Error::new(Code::TooLarge, message));
        }
        batch::run(inner, key, work).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> Store for CasStore<B> {
    fn scheme(&self) -> &'static str {
        self.inner.backend.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.backend.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        StoreFuture::pending(async move {
            let work = self.run(key, Work::Step(step.detach())).await?;
            if let Work::Step(mut detached) = work
                && let Some(reply) = detached.take_reply()
            {
                step.put_reply(reply);
            }
            Ok(())
        })
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(async move {
            Ok(matches!(self.run(key, Work::reset()).await?, Work::Reset { existed: true }))
        })
    }

    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        StoreFuture::pending(async move {
            if self.inner.closed.swap(true, Ordering::SeqCst) {
                return Ok(());
            }
            self.inner.queues.drained().await;
            self.inner.backend.close().await
        })
    }
}

//! Several steps on several keys as one, for a store that can: they see one instant, and nobody sees only some of them.
//!
//! A store says by [`Store::together`] whether it can. What cannot be decided by one key alone (a limit a user *and* a
//! limit for everybody, a batch at one instant) uses it where it is there.

use std::any::Any;

use crate::clock::Millis;
use crate::erased::{ErasedStep, reply_of};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::step::Step;
use crate::store::{Store, StoreFuture, no_reply};

/// A store that can run several steps as one.
pub trait Together: Store {
    /// Runs `job` while nobody else can touch `keys`, and gives what it returns. The job applies steps to these keys
    /// and to no others. It should look before it changes: what it has changed before it fails stays changed.
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>>;
}

/// What runs together. It owns everything, so that a store with a thread of its own can take it there.
pub type Job = Box<dyn FnOnce(&mut dyn Applies) -> Result<Box<dyn Any + Send>> + Send>;

/// The keys of a job, held by nobody else.
pub trait Applies {
    /// The one instant of this job.
    fn now(&self) -> Millis;

    /// Runs `step` against one of the job's keys. The reply waits in `step`.
    ///
    /// # Errors
    /// `internal` when the job did not name this key, else what the store says.
    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()>;
}

impl dyn Applies + '_ {
    /// Runs `step` against one of the job's keys and gives its reply.
    ///
    /// # Errors
    /// `internal` when the job did not name this key, else what the store says.
    pub fn apply<S: Step>(&mut self, key: &Key, step: &S) -> Result<S::Reply> {
        reply_of(step, |erased| self.apply_erased(key, erased))
    }
}

impl dyn Together + '_ {
    /// Runs `job` while nobody else can touch `keys`.
    ///
    /// # Errors
    /// What the job or the store says.
    pub async fn apply_together<R: Send + 'static>(
        &self,
        keys: &[Key],
        job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        typed(self.run_together(keys, boxed(job)).await?)
    }

    /// The same without a runtime, on a store that answers at once.
    ///
    /// # Errors
    /// `unsupported` when this store cannot, else what the job or the store says.
    pub fn apply_together_sync<R: Send + 'static>(
        &self,
        keys: &[Key],
        job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        match self.run_together(keys, boxed(job)) {
            StoreFuture::Ready(answer) => typed(answer?),
            _ => Err(Error::new(
                Code::Unsupported,
                format!("a {} store has no synchronous apply", self.scheme()),
            )),
        }
    }
}

fn boxed<R: Send + 'static>(job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static) -> Job {
    Box::new(move |keys| Ok(Box::new(job(keys)?) as Box<dyn Any + Send>))
}

fn typed<R: 'static>(reply: Box<dyn Any + Send>) -> Result<R> {
    reply.downcast().map(|reply| *reply).map_err(|_| no_reply())
}

//! Steps on several keys as one atomic unit, for stores that support it: they see one time, and no reader sees only some of them.
//!
//! [`Store::together`] returns whether a store supports it. It is used for what one key cannot decide (a limit per user *and* a
//! limit for all users, a batch at one time).

use std::any::Any;

use crate::clock::Millis;
use crate::erased::{ErasedStep, reply_of};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::script::{Script, ScriptArg, ScriptReply};
use crate::step::Step;
use crate::store::{Store, StoreFuture, no_reply};

/// A store that can run several steps atomically.
pub trait Together: Store {
    /// Runs `job` with exclusive access to `keys` and returns its result. The job applies steps to these keys
    /// and to no others. It should check before it changes: what it has changed before it fails stays changed.
    ///
    /// `unsupported`, and nothing has changed, if these keys or this job cannot be run as one.
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>>;
}

/// A multi-key job. It owns everything, so that a store can run it on another thread.
pub struct Job {
    run: RunJob,
    script: Option<JobScript>,
}

type Reply = Box<dyn Any + Send>;
type RunJob = Box<dyn FnOnce(&mut dyn Applies) -> Result<Reply> + Send>;

impl Job {
    /// Runs it on its keys.
    ///
    /// # Errors
    /// The error of the job.
    pub fn run(self, held: &mut dyn Applies) -> Result<Reply> {
        (self.run)(held)
    }

    /// The same job as a script, if there is one.
    #[must_use]
    pub fn into_script(self) -> Option<JobScript> {
        self.script
    }
}

/// A job as a [script](Script), for stores whose server runs scripts: one step for each key, which are put together or not at all.
///
/// A step *passes* if the first number of its reply is 1. If the [rule](Commit) holds, the states of all steps that pass are put.
/// Otherwise nothing is, and the steps that pass run again with other arguments, with which they consume nothing.
pub struct JobScript {
    /// The step of each key, in the order of the keys, and its arguments if the rule does not hold.
    pub steps: Vec<(Script, Vec<ScriptArg>)>,
    /// When states are put.
    pub commit: Commit,
    /// The reply of the job, from those of the steps.
    pub reply: ReplyOfSteps,
}

/// Makes the reply of a job from those of its steps.
pub type ReplyOfSteps = Box<dyn FnOnce(&[ScriptReply<'_>]) -> Result<Box<dyn Any + Send>> + Send>;

/// When the steps of a [`JobScript`] change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// If all of them pass.
    IfAll,
    /// If at least one passes.
    IfAny,
}

/// The keys of a job, locked exclusively.
pub trait Applies {
    /// The time of this job; all its steps see the same.
    fn now(&self) -> Millis;

    /// Runs `step` against one of the job's keys. The reply is left in `step`.
    ///
    /// # Errors
    /// `internal` when the job did not declare this key, else the error of the store.
    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()>;
}

impl dyn Applies + '_ {
    /// Runs `step` against one of the job's keys and returns its reply.
    ///
    /// # Errors
    /// `internal` when the job did not declare this key, else the error of the store.
    pub fn apply<S: Step>(&mut self, key: &Key, step: &S) -> Result<S::Reply> {
        reply_of(step, |erased| self.apply_erased(key, erased))
    }
}

impl dyn Together + '_ {
    /// Runs `job` with exclusive access to `keys`.
    ///
    /// # Errors
    /// The error of the job or the store.
    pub async fn apply_together<R: Send + 'static>(
        &self,
        keys: &[Key],
        job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        typed(self.run_together(keys, boxed(job)).await?)
    }

    /// The same with a job that is also a script, for a store whose server runs scripts.
    ///
    /// # Errors
    /// The error of the job or the store.
    pub async fn apply_together_as<R: Send + 'static>(
        &self,
        keys: &[Key],
        job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
        script: Option<JobScript>,
    ) -> Result<R> {
        typed(self.run_together(keys, Job { script, ..boxed(job) }).await?)
    }

    /// The same without an async runtime, on a synchronous store.
    ///
    /// # Errors
    /// `unsupported` when this store is asynchronous, else the error of the job or the store.
    pub fn apply_together_sync<R: Send + 'static>(
        &self,
        keys: &[Key],
        job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        match self.run_together(keys, boxed(job)) {
            StoreFuture::Ready(result) => typed(result?),
            _ => Err(Error::new(
                Code::Unsupported,
                format!("a {} store has no synchronous apply", self.scheme()),
            )),
        }
    }
}

fn boxed<R: Send + 'static>(job: impl FnOnce(&mut dyn Applies) -> Result<R> + Send + 'static) -> Job {
    Job { run: Box::new(move |keys| Ok(Box::new(job(keys)?) as Reply)), script: None }
}

fn typed<R: 'static>(reply: Reply) -> Result<R> {
    reply.downcast().map(|reply| *reply).map_err(|_| no_reply())
}

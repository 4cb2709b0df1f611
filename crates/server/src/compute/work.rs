//! What runs on the keys: pieces of work that may run several times, and how they are queued. Touches nothing.
//!
//! A piece of work runs again when rows were missing or have changed. Invariant: it has no effect besides the keys, so the last run is the
//! one that counts.

use std::sync::{Arc, Mutex, PoisonError};

use keystead_commands::ctx::{Dialect, Rights};
use keystead_commands::hub::Hub;
use keystead_commands::{Ctx, Random};
use keystead_core::{Code, Error, Millis, Result};
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use tokio::sync::{mpsc, oneshot};

use crate::bounds::COMPUTE_QUEUE_MAX;

/// Whether the changes of a run stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Commit,
    Undo,
}

impl Completion {
    pub(super) fn commit_if(stays: bool) -> Completion {
        if stays { Completion::Commit } else { Completion::Undo }
    }
}

/// The keys of a batch, and what commands need beside them.
pub(super) struct Open<'a> {
    pub(super) keys: &'a mut Keyspace,
    pub(super) hub: &'a Hub,
    pub(super) random: &'a mut Random,
    pub(super) now: Millis,
}

impl<'a> Open<'a> {
    /// The context of the next command.
    pub(super) fn ctx(&mut self, rights: Rights) -> Ctx<'_> {
        let ctx = Ctx::new(self.keys, self.now, self.random, self.hub);
        Ctx { dialect: Dialect::Upstash, may_wait: false, rights, ..ctx }
    }
}

/// A piece of work.
pub(super) trait Work: Send {
    /// Runs it. After [`Completion::Undo`] everything is undone, and it runs again; it then leaves out what must be undone.
    fn run(&mut self, open: &mut Open<'_>) -> Completion;

    /// What was left out is decided again: the keys have changed.
    fn forget(&mut self);
}

/// A queued piece of work.
pub(super) struct Job {
    /// The keys that it names, which are fetched at once.
    pub(super) names: Vec<Bytes>,
    pub(super) scope: Scope,
    pub(super) work: Box<dyn Work>,
    pub(super) done: oneshot::Sender<Result<()>>,
}

/// What a piece of work reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Keys by their names.
    Names,
    /// All keys: it does not share a batch.
    AllKeys,
    /// All keys, and changes nothing.
    AllKeysReadOnly,
}

/// The queue of a compute service.
#[derive(Clone)]
pub(super) struct Database {
    jobs: mpsc::Sender<Job>,
}

impl Database {
    pub(super) fn new() -> (Database, mpsc::Receiver<Job>) {
        let (jobs, waiting) = mpsc::channel(COMPUTE_QUEUE_MAX);
        (Database { jobs }, waiting)
    }

    /// Runs work, and returns when its changes are durable in the storage.
    ///
    /// # Errors
    /// Why nothing was changed; or an error of unknown outcome.
    pub(super) async fn run(&self, names: Vec<Bytes>, scope: Scope, work: Box<dyn Work>) -> Result<()> {
        let (done, ended) = oneshot::channel();
        self.jobs.try_send(Job { names, scope, work, done }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::new(
                Code::QueueFull,
                format!("{COMPUTE_QUEUE_MAX} requests wait for the storage: try again later"),
            ),
            mpsc::error::TrySendError::Closed(_) => gone(),
        })?;
        ended.await.map_err(|_| gone())?
    }

    /// Runs a function as one transaction, and returns what its last run has returned.
    ///
    /// # Errors
    /// As [`run`](Database::run).
    pub(super) async fn transact<T, F>(&self, names: Vec<Bytes>, scope: Scope, run: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Open<'_>) -> (T, Completion) + Send + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let work = Function { run, is_decided: false, result: Arc::clone(&result) };
        self.run(names, scope, Box::new(work)).await?;
        let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(gone)
    }
}

fn gone() -> Error {
    Error::unknown(Code::Internal, "the task of the storage has ended: restart, and please report the log")
}

/// A function that is undone as a whole.
struct Function<T, F> {
    run: F,
    is_decided: bool,
    result: Arc<Mutex<Option<T>>>,
}

impl<T, F> Work for Function<T, F>
where
    T: Send,
    F: FnMut(&mut Open<'_>) -> (T, Completion) + Send,
{
    fn run(&mut self, open: &mut Open<'_>) -> Completion {
        if self.is_decided {
            return Completion::Commit;
        }
        let (result, completion) = (self.run)(open);
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.is_decided = completion == Completion::Undo;
        completion
    }

    fn forget(&mut self) {
        self.is_decided = false;
    }
}

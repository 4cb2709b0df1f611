//! Jobs: functions that read or change a shard's keyspace and then return a result.

use keystead_core::{Code, Error, Millis, Result, Revision};
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

use super::Turn;

/// A unit of work for one shard, all or nothing.
pub trait Job: Send {
    /// Whether it may change something. A job that returns `false` and changes something is a defect.
    fn writes(&self) -> bool;

    /// Runs the job and stores its result. A job that waits is run again when a key changes.
    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran;

    /// Delivers the result: `gate` is `Ok` when everything that the result depends on is durable, else the error.
    fn complete(self: Box<Self>, gate: Result<()>);
}

/// Several requests for one shard: each is all or nothing by itself, and their results are delivered together.
pub trait Sequence: Send {
    /// Runs the requests in a turn of the shard. Returns the revision that must be durable before the results may be delivered.
    fn run(&mut self, turn: &mut Turn<'_>) -> Revision;

    /// Delivers the results, as [`Job::complete`].
    fn complete(self: Box<Self>, gate: Result<()>);
}

/// What waits in a shard's queue, and later at its output gate.
pub(crate) enum Entry {
    Job(Box<dyn Job>),
    Sequence(Box<dyn Sequence>),
}

impl Entry {
    pub(crate) fn complete(self, gate: Result<()>) {
        match self {
            Entry::Job(job) => job.complete(gate),
            Entry::Sequence(sequence) => sequence.complete(gate),
        }
    }
}

/// How a run of a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It is done; its changes are kept.
    Done,
    /// It failed; its changes are undone.
    Failed,
    /// It found nothing to do and waits for a key. Its changes are kept.
    Waits(Wait),
}

/// Whether the changes that were made on the keys are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// They are kept.
    Commit,
    /// They are undone.
    Rollback,
}

impl Completion {
    /// Keeps the changes if the condition holds.
    #[must_use]
    pub fn commit_if(condition: bool) -> Completion {
        if condition { Completion::Commit } else { Completion::Rollback }
    }
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Its number in the queue of each key, from [`ticket`](crate::Engine::ticket): lower tickets are served first.
    pub ticket: u64,
    /// A change of any of these runs the job again.
    pub keys: Vec<Bytes>,
    /// Whether the job also runs when a key is deleted.
    pub on_delete: bool,
    /// After how long it completes with its last result; `None`: never.
    pub timeout_ms: Option<u64>,
}

/// A job made from a function, whose result is sent to a channel.
pub(crate) struct Task<F, R> {
    writes: bool,
    run: Option<F>,
    result: Option<Result<R>>,
    reply: oneshot::Sender<Result<R>>,
}

impl<F, R> Task<F, R>
where
    F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send,
    R: Send,
{
    pub(crate) fn new(writes: bool, run: F) -> (Box<Self>, oneshot::Receiver<Result<R>>) {
        let (reply, result) = oneshot::channel();
        (Box::new(Task { writes, run: Some(run), result: None, reply }), result)
    }
}

impl<F, R> Job for Task<F, R>
where
    F: FnOnce(&mut Keyspace, Millis) -> Result<R> + Send,
    R: Send,
{
    fn writes(&self) -> bool {
        self.writes
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        let Some(run) = self.run.take() else { return Ran::Failed };
        let result = run(keyspace, now);
        let ran = if result.is_ok() { Ran::Done } else { Ran::Failed };
        self.result = Some(result);
        ran
    }

    fn complete(self: Box<Self>, gate: Result<()>) {
        let Task { result, reply, .. } = *self;
        let none = || Err(Error::unknown(Code::Internal, "a job has no result"));
        // The receiver may have been dropped.
        let _ = reply.send(gate.and_then(|()| result.unwrap_or_else(none)));
    }
}

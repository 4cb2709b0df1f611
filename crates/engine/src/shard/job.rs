//! What a shard runs: something that looks at or changes its keyspace, and then answers.

use keystead_core::{Code, Error, Millis, Result};
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

/// A piece of work for one shard, all or nothing.
pub trait Job: Send {
    /// Whether it may change something. One that says no and does is a defect.
    fn writes(&self) -> bool;

    /// Does the work, keeps the result, and tells what came of it. One that waits is run again when a key changes.
    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran;

    /// Answers: `Ok` when everything that the result tells is durable, else why it is not.
    fn answer(self: Box<Self>, gate: Result<()>);
}

/// What came of running a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It is done; its changes stay.
    Done,
    /// It failed; its changes are undone.
    Failed,
    /// It found nothing to do and waits for a key. What it noted meanwhile stays.
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
    /// Its place in the line, from [`ticket`](crate::Engine::ticket): those who came first are served first.
    pub ticket: u64,
    /// A change of any of these runs the job again.
    pub keys: Vec<Bytes>,
    /// Whether the job also runs when a key goes away.
    pub gone: bool,
    /// After how long it answers with what it found last; `None`: it waits for ever.
    pub timeout_ms: Option<u64>,
}

/// A job made of a function, whose result goes to whoever waits for it.
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
        let (reply, answer) = oneshot::channel();
        (Box::new(Task { writes, run: Some(run), result: None, reply }), answer)
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

    fn answer(self: Box<Self>, gate: Result<()>) {
        let Task { result, reply, .. } = *self;
        let none = || Err(Error::unknown(Code::Internal, "a job has no result"));
        // Who asked may have gone.
        let _ = reply.send(gate.and_then(|()| result.unwrap_or_else(none)));
    }
}

//! What a shard runs: something that looks at or changes its keyspace, and then answers.

use keystead_core::{Code, Error, Millis, Result};
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

/// A piece of work for one shard, all or nothing.
pub trait Job: Send {
    /// Whether it may change something. One that says no and does is a defect.
    fn writes(&self) -> bool;

    /// Does the work, keeps the result, and tells whether it succeeded. The changes of one that did not are undone.
    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> bool;

    /// Answers: `Ok` when everything that the result tells is durable, else why it is not.
    fn answer(self: Box<Self>, gate: Result<()>);
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

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> bool {
        let Some(run) = self.run.take() else { return false };
        let result = run(keyspace, now);
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn answer(self: Box<Self>, gate: Result<()>) {
        let Task { result, reply, .. } = *self;
        let none = || Err(Error::unknown(Code::Internal, "a job has no result"));
        // Who asked may have gone.
        let _ = reply.send(gate.and_then(|()| result.unwrap_or_else(none)));
    }
}

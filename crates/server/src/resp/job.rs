//! Requests as jobs: those that wait for keys, and those that run on another shard. It touches nothing but the keyspace
//! that it is given.

use std::sync::Arc;

use keystead_commands::ctx::{Publication, Wait as Wanted};
use keystead_commands::dispatch::run_data;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::session::Queued;
use keystead_commands::spec::Run;
use keystead_commands::{Command, Ctx, Random, Reply, Spec};
use keystead_core::{Millis, Result};
use keystead_engine::{Job, Ran, Wait};
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

/// What came of a request.
pub(super) struct Served {
    pub(super) reply: Reply,
    pub(super) publish: Vec<Publication>,
    /// Whether it waited in vain.
    pub(super) in_vain: bool,
}

impl Served {
    pub(super) fn plain(reply: Reply) -> Self {
        Served { reply, publish: Vec::new(), in_vain: false }
    }
}

/// Whether what a request changed stays: a refusal changed nothing, a failure is undone.
pub(super) fn keeps(reply: &Reply) -> bool {
    !matches!(reply, Reply::Error(fail) if fail.undoes())
}

/// One request that runs on its shard's thread when that has time, and may wait for keys.
pub(super) struct RequestJob {
    pub(super) spec: &'static Spec,
    pub(super) command: Command,
    pub(super) hub: Arc<Hub>,
    pub(super) random: Random,
    pub(super) shard: usize,
    /// Its place in the line, where it may wait.
    pub(super) ticket: Option<u64>,
    /// What it waits for, once it does.
    pub(super) waits: Option<Wait>,
    pub(super) served: Option<Served>,
    /// Told when it begins to wait, where somebody on another loop wants to know.
    pub(super) begin: Option<oneshot::Sender<()>>,
    pub(super) answer: oneshot::Sender<Served>,
}

impl RequestJob {
    /// The engine's words for what a command waits for.
    pub(super) fn wait_for(ticket: u64, wanted: &Wanted) -> Wait {
        Wait { ticket, keys: wanted.keys.clone(), gone: wanted.gone, timeout_ms: wanted.timeout_ms }
    }
}

impl Job for RequestJob {
    fn writes(&self) -> bool {
        self.spec.writes()
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        // Whoever waits has gone, here and below: what comes is for the next in the line.
        if self.waits.is_some() && self.answer.is_closed() {
            return Ran::Failed;
        }
        let mut ctx = Ctx::new(keyspace, now, &mut self.random, &self.hub);
        // Who waits for a list is not disturbed by a string.
        ctx.woken = self.waits.is_some();
        ctx.shard = self.shard;
        let reply = run_data(&mut ctx, self.spec, self.command.args());
        let (wanted, publish) = (ctx.wait.take(), ctx.publish);
        let keep = keeps(&reply);
        if let Some(ticket) = self.ticket
            && let Some(wanted) = wanted
        {
            if self.answer.is_closed() {
                return Ran::Failed;
            }
            if let Some(begin) = self.begin.take() {
                let _ = begin.send(());
            }
            let wait = Self::wait_for(ticket, &wanted);
            if let Some(again) = wanted.again {
                self.command = again;
            }
            self.served = Some(Served { reply, publish, in_vain: true });
            self.waits = Some(wait.clone());
            return Ran::Waits(wait);
        }
        self.served = Some(Served { reply, publish, in_vain: false });
        if keep { Ran::Done } else { Ran::Failed }
    }

    fn answer(self: Box<Self>, gate: Result<()>) {
        let served = match gate {
            Ok(()) => self.served.unwrap_or_else(|| Served::plain(Reply::Nil)),
            Err(error) => Served::plain(Reply::Error(Fail::Broken(error))),
        };
        // Who asked may have gone.
        let _ = self.answer.send(served);
    }
}

/// Runs the commands of a transaction that touch keys. Those about the connection are left for its own loop: `None`.
pub(super) fn run_queue(queue: &[Queued], mut ctx: Ctx<'_>) -> (Vec<Option<Reply>>, Vec<Publication>) {
    ctx.may_wait = false;
    let replies = queue
        .iter()
        .map(|queued| match queued.spec.run {
            Run::Data(_) => {
                // What it would wait for is not waited for, and must not be taken for the next one's.
                ctx.wait = None;
                Some(run_data(&mut ctx, queued.spec, queued.command.args()))
            }
            _ => None,
        })
        .collect();
    (replies, ctx.publish)
}

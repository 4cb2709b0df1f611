//! Requests as jobs: those that wait for keys, and those that run on another shard. It touches nothing but the keyspace
//! that it is given.

use std::sync::Arc;

use keystead_commands::ctx::{Dialect, Publication, Wait as Wanted};
use keystead_commands::dispatch::run_data;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::{Command, Ctx, Random, Reply, Spec};
use keystead_core::{Millis, Result};
use keystead_engine::{Job, Ran, Wait};
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

/// What came of a request.
pub(crate) struct Served {
    pub(crate) reply: Reply,
    pub(crate) publish: Vec<Publication>,
    /// Whether it waited in vain.
    pub(crate) in_vain: bool,
}

impl Served {
    pub(crate) fn plain(reply: Reply) -> Self {
        Served { reply, publish: Vec::new(), in_vain: false }
    }
}

/// Whether what a request changed stays: a refusal changed nothing, a failure is undone.
pub(crate) fn keeps(reply: &Reply) -> bool {
    !matches!(reply, Reply::Error(fail) if fail.undoes())
}

/// One request that runs on its shard's thread when that has time, and may wait for keys.
pub(crate) struct RequestJob {
    pub(crate) spec: &'static Spec,
    pub(crate) command: Command,
    pub(crate) hub: Arc<Hub>,
    pub(crate) random: Random,
    pub(crate) shard: usize,
    pub(crate) dialect: Dialect,
    /// Its place in the line, where it may wait.
    pub(crate) ticket: Option<u64>,
    /// What it waits for, once it does.
    pub(crate) waits: Option<Wait>,
    pub(crate) served: Option<Served>,
    /// Told when it begins to wait, where somebody on another loop wants to know.
    pub(crate) begin: Option<oneshot::Sender<()>>,
    pub(crate) answer: oneshot::Sender<Served>,
}

impl RequestJob {
    /// The engine's words for what a command waits for.
    pub(crate) fn wait_for(ticket: u64, wanted: &Wanted) -> Wait {
        Wait { ticket, keys: wanted.keys.clone(), on_delete: wanted.gone, timeout_ms: wanted.timeout_ms }
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
        (ctx.shard, ctx.dialect) = (self.shard, self.dialect);
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
        let publish = if keep { publish } else { Vec::new() };
        self.served = Some(Served { reply, publish, in_vain: false });
        if keep { Ran::Done } else { Ran::Failed }
    }

    fn complete(self: Box<Self>, gate: Result<()>) {
        let served = match gate {
            Ok(()) => self.served.unwrap_or_else(|| Served::plain(Reply::Nil)),
            Err(error) => Served::plain(Reply::Error(Fail::Broken(error))),
        };
        // Who asked may have gone.
        let _ = self.answer.send(served);
    }
}

//! Requests as jobs of a shard: those that wait for keys, and those from another shard. Touches only the keyspace it is given.

use std::sync::Arc;

use keystead_commands::ctx::{Dialect, Publication, Wait as Wanted};
use keystead_commands::dispatch::run_data;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::transaction::keeps;
use keystead_commands::{Args, Command, Ctx, Random, Reply, Spec};
use keystead_core::{Millis, Result, Revision, ShardId};
use keystead_engine::{Completion, Job, Ran, Turn, Wait};
use keystead_model::keyspace::Keyspace;
use tokio::sync::oneshot;

/// The result of a request.
pub(crate) struct Served {
    pub(crate) reply: Reply,
    pub(crate) publish: Vec<Publication>,
    /// Whether it waited for keys and got none.
    pub(crate) in_vain: bool,
}

impl Served {
    pub(crate) fn plain(reply: Reply) -> Self {
        Served { reply, publish: Vec::new(), in_vain: false }
    }
}

/// What a request left when it ran.
pub(crate) struct RanRequest {
    pub(crate) reply: Reply,
    /// What it waits for, if it found nothing.
    pub(crate) wanted: Option<Wanted>,
    pub(crate) publish: Vec<Publication>,
}

/// Runs a request on the keys of this shard. The revision must be durable before the reply is sent.
#[inline]
pub(crate) fn run_in(
    turn: &mut Turn<'_>,
    random: &mut Random,
    hub: &Hub,
    spec: &Spec,
    args: Args<'_>,
) -> Result<(RanRequest, Revision)> {
    let shard = turn.shard();
    turn.run(spec.writes(), |keyspace, now| {
        let mut ctx = Ctx::new(keyspace, now, random, hub);
        ctx.shard = shard;
        let reply = run_data(&mut ctx, spec, args);
        let keep = keeps(&reply);
        // The messages of a command that is rolled back are not published.
        let publish = if keep { ctx.publish } else { Vec::new() };
        (RanRequest { reply, wanted: ctx.wait, publish }, Completion::commit_if(keep))
    })
}

/// One request in a shard's queue, which may wait for keys.
pub(crate) struct RequestJob {
    pub(crate) spec: &'static Spec,
    pub(crate) command: Command,
    pub(crate) hub: Arc<Hub>,
    pub(crate) random: Random,
    pub(crate) shard: ShardId,
    pub(crate) dialect: Dialect,
    /// Its position among the waiting requests, if it may wait.
    pub(crate) ticket: Option<u64>,
    /// What it waits for, if it does.
    pub(crate) waits: Option<Wait>,
    pub(crate) served: Option<Served>,
    /// Signalled when it begins to wait, for a connection on another loop.
    pub(crate) begin: Option<oneshot::Sender<()>>,
    pub(crate) reply_to: oneshot::Sender<Served>,
}

impl RequestJob {
    /// What a command waits for, as the engine takes it.
    pub(crate) fn wait_for(ticket: u64, wanted: &Wanted) -> Wait {
        Wait { ticket, keys: wanted.keys.clone(), on_delete: wanted.on_delete, timeout_ms: wanted.timeout_ms }
    }
}

impl Job for RequestJob {
    fn writes(&self) -> bool {
        self.spec.writes()
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        // The client is gone, here and below: the value is for the next request that waits.
        if self.waits.is_some() && self.reply_to.is_closed() {
            return Ran::Failed;
        }
        let mut ctx = Ctx::new(keyspace, now, &mut self.random, &self.hub);
        // A client that waits for a list continues to wait when the key becomes a string.
        ctx.woken = self.waits.is_some();
        (ctx.shard, ctx.dialect) = (self.shard, self.dialect);
        let reply = run_data(&mut ctx, self.spec, self.command.args());
        let (wanted, publish) = (ctx.wait.take(), ctx.publish);
        let keep = keeps(&reply);
        if let Some(ticket) = self.ticket
            && let Some(wanted) = wanted
        {
            if self.reply_to.is_closed() {
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
        // The connection may be gone.
        let _ = self.reply_to.send(served);
    }
}

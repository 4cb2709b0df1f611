//! Requests of a connection on keys of another shard, and on all shards. Touches the queues of other shards.
//!
//! A connection waits for such a request before it runs the next, so replies keep their order and a client reads its own writes.

use keystead_commands::errors::{self, Fail};
use keystead_commands::spec::flag;
use keystead_commands::{Args, Reply, Spec};
use keystead_core::{Revision, ShardId};
use keystead_engine::Watch;
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::execute::Execution;
use super::pending::{Pending, Waiting};
use super::worker::Worker;
use crate::call::job::Served;
use crate::call::target::Target;
use crate::call::transaction::{Transaction, watch_in};

impl Worker {
    pub(super) fn run_remote(&mut self, shard: Target, spec: &'static Spec, args: Args<'_>) -> Execution {
        match shard {
            Target::Local => Execution::reply(Reply::Error(errors::CROSS_SLOT)),
            Target::Shard(shard) => {
                let ticket = self.caller.app.engine.ticket();
                let (begin, begun) = spec.flags.has(flag::BLOCKING).then(oneshot::channel).unzip();
                match self.caller.send(shard, spec, args.to_command(), Some(ticket), begin) {
                    Ok(served) => Execution::Pending(Pending::Waiting(Waiting {
                        served,
                        shard,
                        ticket,
                        begun,
                        blocked: false,
                    })),
                    Err(error) => Execution::broken(error),
                }
            }
            Target::Spread(spread) => {
                Execution::Pending(Pending::Remote(self.caller.spread(spread, spec, args)))
            }
        }
    }

    pub(super) fn watch_remote(&mut self, shard: ShardId, keys: Vec<Bytes>, watch: Watch) -> Execution {
        let reply = self.caller.visit(shard, move |turn| (watch_in(turn, &keys, &watch), Revision::ZERO));
        Execution::Pending(Pending::Remote(Box::pin(async move {
            Served::plain(reply.await.unwrap_or_else(|error| Reply::Error(Fail::Broken(error))))
        })))
    }

    /// Runs a transaction on the shard of its keys. Its commands about the connection run here afterwards.
    pub(super) fn exec_remote(&mut self, shard: ShardId, transaction: Transaction) -> Execution {
        Execution::Pending(Pending::Exec(self.caller.exec_at(shard, transaction)))
    }
}

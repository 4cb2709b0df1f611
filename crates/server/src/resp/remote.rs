//! Requests of a connection that wait for keys of another shard, watch them, or run on all shards. Touches the queues of other shards.
//!
//! A connection waits for such a request before it runs the next, so replies keep their order and a client reads its own writes.
//! All other requests on another shard are part of a `pipeline`.

use std::sync::Arc;

use keystead_commands::errors::Fail;
use keystead_commands::hub::Rejection;
use keystead_commands::spec::Spread;
use keystead_commands::{Args, Random, Reply, Spec};
use keystead_core::{Revision, ShardId};
use keystead_engine::Watch;
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::execute::Execution;
use super::pending::{Pending, Waiting};
use super::worker::{Worker, until_served};
use crate::call::exec_at;
use crate::call::job::Served;
use crate::call::transaction::{Executed, Transaction, watch_in};

impl Worker {
    /// Runs a request on another shard, where it may wait for its keys.
    pub(super) fn wait_remote(&mut self, shard: ShardId, spec: &'static Spec, args: Args<'_>) -> Execution {
        let ticket = self.caller.app.engine.ticket();
        let (begin, begun) = oneshot::channel();
        match self.caller.send(shard, spec, args.to_command(), Some(ticket), Some(begin)) {
            Ok(served) => Execution::Pending(Pending::Waiting(Waiting {
                served,
                shard,
                ticket,
                begun: Some(begun),
                blocked: false,
            })),
            Err(error) => Execution::broken(error),
        }
    }

    pub(super) fn run_spread(&mut self, spread: Spread, spec: &'static Spec, args: Args<'_>) -> Execution {
        Execution::Pending(Pending::Remote(self.caller.spread(spread, spec, args)))
    }

    pub(super) fn watch_remote(&mut self, shard: ShardId, keys: Vec<Bytes>, watch: Watch) -> Execution {
        let reply = self.caller.visit(shard, move |turn| (watch_in(turn, &keys, &watch), Revision::ZERO));
        Execution::Pending(Pending::Remote(Box::pin(async move {
            Served::plain(reply.await.unwrap_or_else(|error| Reply::Error(Fail::Broken(error))))
        })))
    }

    /// Runs a transaction on the shard of its keys. Its commands about the connection run here afterwards.
    pub(super) fn exec_remote(&mut self, shard: ShardId, transaction: Transaction) -> Execution {
        let (app, again) = (Arc::clone(&self.caller.app), Random::new(self.caller.random.next()));
        let first = self.caller.exec_at(shard, transaction);
        Execution::Pending(Pending::Exec(Box::pin(async move {
            let (transaction, executed) = first.await;
            let Executed::Rejected(Rejection::Parked(slot)) = executed else {
                return (transaction, executed);
            };
            // It waits one time, as every request does.
            until_served(&app, vec![slot]).await;
            exec_at(&app, shard, transaction, again).await
        })))
    }
}

//! Runs commands of both listeners on the shard of their keys, and returns their replies.
//!
//! | To find                                   | open            |
//! |-------------------------------------------|-----------------|
//! | which shard a request belongs to          | `target`        |
//! | one request in a shard's queue            | `job`           |
//! | several requests in a shard's queue       | `part`          |
//! | several requests as one, and watched keys | `transaction`   |
//! | requests on all shards                    | `spread`        |
//!
//! Touches the shards' queues. A connection on a shard's loop runs requests on that shard itself, in a turn.

pub(crate) mod job;
pub(crate) mod part;
pub(crate) mod spread;
pub(crate) mod target;
pub(crate) mod transaction;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::errors::Fail;
use keystead_commands::hub::Kind;
use keystead_commands::{Command, Random, Spec};
use keystead_core::{Code, Error, Result, Revision, ShardId};
use keystead_engine::{Engine, Local, Turn};
use tokio::sync::oneshot;

use crate::app::App;
use crate::bounds::hard_bytes;
use job::{RequestJob, Served};
use spread::Later;
use transaction::{Executed, Transaction, exec_served_in};

/// Runs requests for one connection.
pub(crate) struct Caller {
    pub(crate) app: Arc<App>,
    /// The shard on whose loop the connection runs.
    pub(crate) local: Local,
    pub(crate) dialect: Dialect,
    pub(crate) random: Random,
    pub(crate) shards: usize,
}

impl Caller {
    pub(crate) fn new(app: Arc<App>, local: Local, dialect: Dialect, seed: u64) -> Self {
        let shards = app.engine.shards();
        Caller { app, local, dialect, random: Random::new(seed), shards }
    }

    /// Publishes messages.
    pub(crate) fn publish(&self, publications: &[Publication]) {
        for publication in publications {
            let limit = self.app.hub.config.output_limit(Kind::Pubsub);
            self.app.hub.bus.publish(publication, hard_bytes(limit));
        }
    }

    /// Puts a request into the queue of a shard.
    pub(crate) fn send(
        &mut self,
        shard: ShardId,
        spec: &'static Spec,
        command: Command,
        ticket: Option<u64>,
        begin: Option<oneshot::Sender<()>>,
    ) -> Result<oneshot::Receiver<Served>> {
        let (reply_to, served) = oneshot::channel();
        let random = Random::new(self.random.next());
        let hub = self.app.hub.clone();
        let job = RequestJob {
            spec,
            command,
            hub,
            random,
            shard,
            dialect: self.dialect,
            ticket,
            waits: None,
            served: None,
            begin,
            reply_to,
        };
        self.app.engine.submit(shard, Box::new(job))?;
        Ok(served)
    }

    /// Runs a transaction on another shard, and returns its result when that is durable.
    pub(crate) fn exec_at(
        &mut self,
        shard: ShardId,
        transaction: Transaction,
    ) -> Later<(Transaction, Executed)> {
        let random = Random::new(self.random.next());
        exec_at(&self.app, shard, transaction, random)
    }

    /// Runs a closure in a turn of another shard, and returns its result when that is durable.
    pub(crate) fn visit<T: Send + 'static>(
        &self,
        shard: ShardId,
        run: impl FnOnce(&mut Turn<'_>) -> (T, Revision) + Send + 'static,
    ) -> impl Future<Output = Result<T>> + 'static {
        visit(&self.app.engine, shard, run)
    }

    /// The same for a long operation: it is called again in each turn of the shard until it has a result.
    pub(crate) fn visit_in_turns<T: Send + 'static>(
        &self,
        shard: ShardId,
        run: impl FnMut(&mut Turn<'_>) -> Option<(T, Revision)> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + 'static {
        visit_in_turns(&self.app.engine, shard, run)
    }
}

/// Runs a transaction on a shard, and returns its result when that is durable.
pub(crate) fn exec_at(
    app: &Arc<App>,
    shard: ShardId,
    transaction: Transaction,
    mut random: Random,
) -> Later<(Transaction, Executed)> {
    let (hub, dialect) = (app.hub.clone(), transaction.dialect);
    let result = visit(&app.engine, shard, move |turn| {
        let executed = exec_served_in(turn, &transaction, &mut random, &hub);
        let seen = match &executed {
            Executed::Aborted(seen) | Executed::Ran(_, _, seen) => *seen,
            Executed::Undone(_) | Executed::Rejected(_) => Revision::ZERO,
        };
        ((transaction, executed), seen)
    });
    Box::pin(async move {
        let empty = || Transaction {
            queue: Vec::new(),
            watched: None,
            reply_bytes_max: 0,
            dialect,
            rights: Rights::All,
        };
        match result.await {
            // It is durable there; it has no revision on this shard.
            Ok((transaction, Executed::Ran(replies, publish, _))) => {
                (transaction, Executed::Ran(replies, publish, Revision::ZERO))
            }
            Ok((transaction, Executed::Aborted(_))) => (transaction, Executed::Aborted(Revision::ZERO)),
            Ok(other) => other,
            Err(error) => (empty(), Executed::Undone(Fail::Broken(error))),
        }
    })
}

/// Runs a closure in a turn of a shard, and returns its result when that is durable.
pub(crate) fn visit<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    run: impl FnOnce(&mut Turn<'_>) -> (T, Revision) + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'static {
    let mut run = Some(run);
    visit_in_turns(engine, shard, move |turn| run.take().map(|run| run(turn)))
}

fn visit_in_turns<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    mut run: impl FnMut(&mut Turn<'_>) -> Option<(T, Revision)> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'static {
    let (sender, received) = oneshot::channel();
    let task = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let (result, seen) = loop {
                let ran = poll_fn(|cx| match local.turn(cx.waker()) {
                    Some(mut turn) => Poll::Ready(run(&mut turn)),
                    None => Poll::Pending,
                });
                match ran.await {
                    Some(ran) => break ran,
                    None => tokio::task::yield_now().await,
                }
            };
            let durable = local.until_durable(seen).await;
            let _ = sender.send(durable.map(|()| result));
        })
    };
    let engine = engine.clone();
    async move {
        engine.spawn_when_free(shard, Box::new(task)).await?;
        received.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// If a shard ends without a reply, the outcome of the request is unknown.
pub(crate) fn ended() -> Error {
    Error::unknown(Code::StoreUnavailable, "the shard ended without a reply")
}

//! A request that a connection waits for before it runs the next one. Touches nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_core::{Revision, ShardId};
use tokio::sync::oneshot;

use super::unauthenticated::Delayed;
use super::worker::Worker;
use crate::call::ended;
use crate::call::job::Served;
use crate::call::transaction::{Executed, Transaction};

/// What a connection waits for.
pub(super) enum Pending {
    /// A request that runs on a shard, and may wait there for keys.
    Waiting(Waiting),
    /// The parts of a pipeline on other shards.
    Pipeline,
    /// A request on several shards, or on another one.
    Remote(Pin<Box<dyn Future<Output = Served>>>),
    /// A target that has not everything yet.
    Sink(Pin<Box<dyn Future<Output = Served>>>),
    /// A transaction on another shard.
    Exec(Pin<Box<dyn Future<Output = (Transaction, Executed)>>>),
    /// The end of CLIENT PAUSE, or of the hand over of a slot. The request runs then.
    Paused(Pin<Box<dyn Future<Output = ()>>>),
    /// A delayed reply to a wrong token.
    Delayed(Delayed),
}

/// A request that runs on a shard.
pub(super) struct Waiting {
    pub(super) served: oneshot::Receiver<Served>,
    pub(super) shard: ShardId,
    pub(super) ticket: u64,
    /// Completes when it begins to wait for keys, if it ever does.
    pub(super) begun: Option<oneshot::Receiver<()>>,
    /// Whether it waits for keys.
    pub(super) blocked: bool,
}

impl Pending {
    /// The result and the revision that it depends on; none after a pause.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &mut Worker,
    ) -> Poll<Option<(Served, Revision)>> {
        Poll::Ready(Some(match self {
            // The connection appends its replies.
            Pending::Pipeline => return Poll::Pending,
            Pending::Waiting(waiting) => {
                let broken = |_| Served::plain(Reply::Error(Fail::Broken(ended())));
                (ready!(Pin::new(&mut waiting.served).poll(cx)).unwrap_or_else(broken), Revision::ZERO)
            }
            Pending::Remote(served) | Pending::Sink(served) => {
                (ready!(served.as_mut().poll(cx)), Revision::ZERO)
            }
            Pending::Exec(executed) => {
                let (transaction, executed) = ready!(executed.as_mut().poll(cx));
                let now = worker.caller.app.now();
                worker.finish_exec(&transaction, executed, now)
            }
            Pending::Delayed(delayed) => return delayed.poll(cx),
            Pending::Paused(pause) => {
                ready!(pause.as_mut().poll(cx));
                return Poll::Ready(None);
            }
        }))
    }

    /// Whether it waits for keys, after checking whether that has begun.
    pub(super) fn poll_blocked(&mut self, cx: &mut Context<'_>) -> bool {
        let Pending::Waiting(waiting) = self else { return false };
        if let Some(begun) = &mut waiting.begun
            && let Poll::Ready(begins) = Pin::new(begun).poll(cx)
        {
            waiting.blocked = begins.is_ok();
            waiting.begun = None;
        }
        waiting.blocked
    }

    /// Whether it may last for long, and is not waited for when the connection ends.
    pub(super) fn is_endless(&self) -> bool {
        matches!(
            self,
            Pending::Paused(_) | Pending::Sink(_) | Pending::Waiting(Waiting { blocked: true, .. })
        )
    }
}

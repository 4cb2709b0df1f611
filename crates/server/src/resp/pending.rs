//! What a connection waits for before it runs its next request. It touches nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_core::Revision;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::connection::Worker;
use super::execute::Execution;
use super::stranger::Late;
use crate::call::ended;
use crate::call::job::Served;
use crate::call::transaction::{Executed, Transaction};

/// What a connection waits for.
pub(super) enum Pending {
    /// A request that runs on a shard, and may wait there for keys.
    Waiting(Waiting),
    /// Several shards, or another one.
    Later(Pin<Box<dyn Future<Output = Served>>>),
    /// A transaction on another shard.
    Exec(Pin<Box<dyn Future<Output = (Transaction, Executed)>>>),
    /// The end of CLIENT PAUSE.
    Paused(Pin<Box<Sleep>>),
    /// The time to answer a wrong token.
    Late(Late),
}

/// A request that runs on a shard.
pub(super) struct Waiting {
    pub(super) served: oneshot::Receiver<Served>,
    pub(super) shard: usize,
    pub(super) ticket: u64,
    /// Tells that it waits for keys, if it ever does.
    pub(super) begun: Option<oneshot::Receiver<()>>,
    /// Whether it waits for keys.
    pub(super) blocked: bool,
}

impl Pending {
    /// What came, and the revision that it rests on; nothing after a pause.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &mut Worker,
    ) -> Poll<Option<(Served, Revision)>> {
        Poll::Ready(Some(match self {
            Pending::Waiting(waiting) => {
                let broken = |_| Served::plain(Reply::Error(Fail::Broken(ended())));
                (ready!(Pin::new(&mut waiting.served).poll(cx)).unwrap_or_else(broken), Revision::ZERO)
            }
            Pending::Later(later) => (ready!(later.as_mut().poll(cx)), Revision::ZERO),
            Pending::Exec(later) => {
                let (transaction, executed) = ready!(later.as_mut().poll(cx));
                let now = worker.caller.app.now();
                match worker.finish_exec(&transaction, executed, now) {
                    Execution::Reply(reply, revision, publish) => {
                        (Served { reply, publish, in_vain: false }, revision)
                    }
                    Execution::Pending(_) => return Poll::Ready(None),
                }
            }
            Pending::Late(late) => return late.poll(cx),
            Pending::Paused(pause) => {
                ready!(pause.as_mut().poll(cx));
                return Poll::Ready(None);
            }
        }))
    }

    /// Whether it waits for keys; looks whether that has begun.
    pub(super) fn poll_blocked(&mut self, cx: &mut Context<'_>) -> bool {
        let Pending::Waiting(waiting) = self else { return false };
        if let Some(begun) = &mut waiting.begun
            && let Poll::Ready(told) = Pin::new(begun).poll(cx)
        {
            waiting.blocked = told.is_ok();
            waiting.begun = None;
        }
        waiting.blocked
    }

    /// Whether it may last for ever, and is not worth waiting for when the connection ends.
    pub(super) fn is_endless(&self) -> bool {
        matches!(self, Pending::Paused(_) | Pending::Waiting(Waiting { blocked: true, .. }))
    }
}

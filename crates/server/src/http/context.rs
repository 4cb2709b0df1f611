//! What a handler gets besides the request: the server, and the connection's access to the shards. Touches the
//! shards.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::task::Poll;

use keystead_commands::Random;
use keystead_commands::ctx::Dialect;
use keystead_commands::hub::Mailbox;
use keystead_commands::idempotency::IdempotencyKey;
use keystead_commands::session::Session;
use keystead_core::{Millis, Result, Revision, ShardId, key};
use keystead_engine::{Completion, Local, Turn};
use keystead_model::keyspace::Keyspace;

use super::error::ApiError;
use crate::app::App;
use crate::bounds::Bounds;
use crate::call::Caller;

/// One HTTP connection, for its handlers.
pub struct HttpContext {
    /// The running server.
    pub app: Arc<App>,
    /// The bounds of the listener.
    pub bounds: Arc<Bounds>,
    /// Runs its commands. Never borrowed across an await.
    pub(super) caller: RefCell<Caller>,
    /// For commands about a connection. Never borrowed across an await.
    pub(super) session: RefCell<Session>,
    /// The local address of the connection.
    pub(super) at: IpAddr,
    /// Wrong tokens since the last correct one.
    pub(super) auth_failures: Cell<u32>,
    /// The messages of the stream that the client reads, if it reads one.
    pub(super) listening: RefCell<Weak<Mailbox>>,
}

impl HttpContext {
    pub(super) fn new(
        app: Arc<App>,
        bounds: Arc<Bounds>,
        local: Local,
        peer: SocketAddr,
        at: IpAddr,
    ) -> HttpContext {
        let client = app.hub.clients.unlisted(peer.to_string(), app.now());
        let seed = app.seed(client.id);
        let caller = Caller::new(Arc::clone(&app), local, Dialect::Upstash, seed);
        // A request that reaches a command has been authorised.
        let (caller, session) = (RefCell::new(caller), RefCell::new(Session::new(client, true)));
        let auth_failures = Cell::new(0);
        HttpContext { app, bounds, caller, session, at, auth_failures, listening: RefCell::default() }
    }

    /// Waits until the client has read its stream too slowly. The stream itself cannot detect this: it is not polled while the
    /// socket is full. The mailbox wakes the connection's task when it overflows.
    pub(super) async fn too_slow(&self) {
        poll_fn(|_| match self.listening.borrow().upgrade() {
            Some(mailbox) if mailbox.is_overflown() => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Rejects keys of the database that this node of a cluster does not serve.
    pub(super) fn require_served<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> std::result::Result<(), ApiError> {
        let Some(cluster) = self.app.hub.cluster.get() else { return Ok(()) };
        match cluster.rejection_of(keys.into_iter().map(key::slot)) {
            Some(rejection) => Err(ApiError::NotServed(rejection)),
            None => Ok(()),
        }
    }

    /// The idempotency key of a request that changes a key of the database: on a node of a cluster its response is stored in the same slot.
    pub(super) fn with_slot(&self, idempotency_key: IdempotencyKey, name: &[u8]) -> IdempotencyKey {
        match self.app.hub.cluster.get() {
            Some(_) => idempotency_key.in_slot(key::slot(name)),
            None => idempotency_key,
        }
    }

    /// Runs something in a turn of the connection's own shard, as soon as the shard is free.
    pub(super) async fn in_turn<T>(&self, run: impl FnOnce(&mut Turn<'_>, &mut Random) -> T) -> T {
        let mut run = Some(run);
        let local = self.caller.borrow().local.clone();
        poll_fn(move |cx| {
            let Some(mut turn) = local.turn(cx.waker()) else { return Poll::Pending };
            let Some(run) = run.take() else { return Poll::Pending };
            Poll::Ready(run(&mut turn, &mut self.caller.borrow_mut().random))
        })
        .await
    }

    /// Runs something on the keys of a shard, commits or rolls back as it says, and returns its result once that is durable.
    pub(super) async fn run_at<T: Send + 'static>(
        &self,
        shard: ShardId,
        writes: bool,
        run: impl FnOnce(&mut Keyspace, Millis) -> (T, Completion) + Send + 'static,
    ) -> Result<T> {
        let local = self.caller.borrow().local.clone();
        if local.shard() == shard {
            let (result, seen) = self.in_turn(|turn, _| turn.run(writes, run)).await?;
            local.until_durable(seen).await?;
            return Ok(result);
        }
        let there = self.caller.borrow().visit(shard, move |turn| match turn.run(writes, run) {
            Ok((result, seen)) => (Ok(result), seen),
            Err(error) => (Err(error), Revision::ZERO),
        });
        there.await?
    }
}

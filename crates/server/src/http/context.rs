//! What a handler is given beside the request: the server, and the connection's place on a shard's loop. Touches the
//! shards, through it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::task::Poll;

use keystead_commands::Random;
use keystead_commands::ctx::Dialect;
use keystead_commands::hub::Mailbox;
use keystead_commands::session::Session;
use keystead_core::{Millis, Result, Revision};
use keystead_engine::{Local, Turn};
use keystead_model::keyspace::Keyspace;

use crate::app::App;
use crate::bounds::Bounds;
use crate::call::Caller;

/// One HTTP connection, as its handlers see it.
pub struct HttpContext {
    /// The running server.
    pub app: Arc<App>,
    /// The limits of the door.
    pub bounds: Arc<Bounds>,
    /// Runs its commands. Nobody holds it across a wait.
    pub(super) caller: RefCell<Caller>,
    /// For commands about a connection. Nobody holds it across a wait.
    pub(super) session: RefCell<Session>,
    /// The address of this machine that the client has connected to.
    pub(super) at: IpAddr,
    /// Wrong tokens that it brought since the last right one.
    pub(super) auth_failures: Cell<u32>,
    /// The messages of the stream that it reads, if it reads one.
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
        // Whoever gets as far as a command has shown its token.
        let (caller, session) = (RefCell::new(caller), RefCell::new(Session::new(client, true)));
        let auth_failures = Cell::new(0);
        HttpContext { app, bounds, caller, session, at, auth_failures, listening: RefCell::default() }
    }

    /// Waits until the client turns out to read its stream too slowly. The stream itself cannot tell: nobody asks it for more
    /// while the socket is full. The mailbox wakes the connection's task when it overflows.
    pub(super) async fn too_slow(&self) {
        poll_fn(|_| match self.listening.borrow().upgrade() {
            Some(mailbox) if mailbox.is_overflown() => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Runs something in a turn of the connection's own shard, as soon as that has time.
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

    /// Runs something on the keys of a shard, all or nothing, and gives its result when that is durable. It says whether its
    /// changes stay.
    pub(super) async fn run_at<T: Send + 'static>(
        &self,
        shard: usize,
        writes: bool,
        run: impl FnOnce(&mut Keyspace, Millis) -> (T, bool) + Send + 'static,
    ) -> Result<T> {
        let local = self.caller.borrow().local.clone();
        if local.index() == shard {
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

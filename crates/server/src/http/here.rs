//! What a handler is given beside the request: the server, and the connection's place on a shard's loop. Touches nothing.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use keystead_commands::ctx::Dialect;
use keystead_commands::session::Session;
use keystead_engine::Local;

use crate::app::App;
use crate::call::Caller;
use crate::limits::Limits;

/// One HTTP connection, as its handlers see it.
pub struct Here {
    /// The running server.
    pub app: Arc<App>,
    /// The limits of the door.
    pub limits: Arc<Limits>,
    /// Runs its commands. Nobody holds it across a wait.
    pub(super) caller: RefCell<Caller>,
    /// For commands about a connection. Nobody holds it across a wait.
    pub(super) session: RefCell<Session>,
}

impl Here {
    pub(super) fn new(app: Arc<App>, limits: Arc<Limits>, local: Local, peer: SocketAddr) -> Here {
        let client = app.hub.clients.unlisted(peer.to_string(), app.now());
        let seed = app.seed(client.id);
        let caller = Caller::new(Arc::clone(&app), local, Dialect::Upstash, seed);
        // Whoever gets as far as a command has shown its token.
        Here { app, limits, caller: RefCell::new(caller), session: RefCell::new(Session::new(client, true)) }
    }
}

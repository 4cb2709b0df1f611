//! Accepts Redis clients, and shares them out to threads, each of which has its own event loop and connections to nodes. Touches sockets
//! and starts threads.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use keystead_commands::hub::Hub;
use keystead_commands::session::Session;
use keystead_core::{Clock, Result, ShardId, SystemClock};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::Shared;
use super::connection::Connection;
use super::event_loop::Loop;
use super::host::RouterHost;
use super::relay::{self, Relay};
use crate::accept::{self, Acceptor, Rejections};
use crate::bounds::{
    CONNECTIONS_MAX, DRAIN_CHECK_INTERVAL, DRAIN_TIMEOUT, REJECTION_TIMEOUT, TLS_HANDSHAKE_TIMEOUT,
};
use crate::failure::{failure, io_words};
use crate::resp::tls::Tls;
use crate::router::Router;

/// The RESP listener.
pub(in crate::router) struct Resp {
    shared: Arc<Shared>,
    loops: Vec<mpsc::UnboundedSender<New>>,
    tls: Option<Tls>,
}

/// A client that no thread has yet. There are at most as many as clients.
struct New {
    stream: std::net::TcpStream,
    session: Session,
    tls: Option<TlsAcceptor>,
}

impl Resp {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system has none left.
    pub(in crate::router) fn start(router: &Arc<Router>, port: u16, tls: Option<Tls>) -> Result<Resp> {
        let clients_max = router.bounds.connections_max;
        let host = RouterHost::new(&router.settings, port, clients_max);
        let hub = Arc::new(Hub::new(Box::new(host)));
        hub.config.set_clients_max(clients_max);
        let shared = Arc::new(Shared {
            router: Arc::clone(router),
            hub,
            arriving: Arc::default(),
            relay: Relay::default(),
            notices: Default::default(),
        });
        tokio::spawn(relay::run(Arc::clone(&shared)));
        // Half of the processors: the others are for the kernel's part of the work, and for the other listener.
        let threads = thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2));
        let loops = (0..threads).map(|n| start_loop(n, &shared)).collect::<Result<_>>()?;
        Ok(Resp { shared, loops, tls })
    }

    pub(in crate::router) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Connected clients.
    pub(in crate::router) fn clients(&self) -> usize {
        self.shared.hub.clients.len()
    }

    /// Bytes of large requests that are arriving, and of replies that clients have not read.
    pub(in crate::router) fn waiting_bytes(&self) -> usize {
        self.shared.hub.waiting.bytes() + self.shared.arriving.bytes()
    }
}

fn start_loop(n: usize, shared: &Arc<Shared>) -> Result<mpsc::UnboundedSender<New>> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let shared = Arc::clone(shared);
    let broken = |error: std::io::Error| {
        failure(
            format_args!("cannot start threads ({})", io_words(&error)),
            "check the limits of this process",
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let serve = move || {
        LocalSet::new().block_on(&runtime, async move {
            let on = Loop::start(shared);
            // It ends when the listener drops its senders, which it does when all clients are gone.
            while let Some(new) = receiver.recv().await {
                tokio::task::spawn_local(connection(Rc::clone(&on), new));
            }
        });
    };
    thread::Builder::new().name(format!("ks-router-{n}")).spawn(serve).map_err(broken)?;
    Ok(sender)
}

async fn connection(on: Rc<Loop>, new: New) {
    let New { stream, session, tls } = new;
    let _seat = Seat { on: Rc::clone(&on), id: session.client.id };
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    match tls {
        None => Connection::new(stream, on, session).serve().await,
        Some(tls) => match timeout(TLS_HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => Connection::new(stream, on, session).serve().await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => {}
        },
    }
}

/// A client's row in the list of clients.
struct Seat {
    on: Rc<Loop>,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.on.shared.hub.clients.remove(self.id);
    }
}

/// Accepts clients until the router stops, then drains.
pub(in crate::router) async fn serve(listener: TcpListener, resp: Arc<Resp>) {
    let router = Arc::clone(&resp.shared.router);
    let mut acceptor = RespAcceptor { resp: Arc::clone(&resp), next: 0, rejections: Rejections::default() };
    accept::until(router.stopping(), &listener, |shard| shard, &mut acceptor).await;
    drop(listener);
    let clients = &resp.shared.hub.clients;
    let all_ended = async {
        while !clients.is_empty() {
            clients.all().iter().for_each(|client| client.wake());
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    };
    accept::drain(all_ended, DRAIN_TIMEOUT, || clients.len()).await;
}

struct RespAcceptor {
    resp: Arc<Resp>,
    next: usize,
    rejections: Rejections,
}

impl Acceptor for RespAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, _: ShardId) {
        let hub = &self.resp.shared.hub;
        let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let max = hub.config.clients_max().min(CONNECTIONS_MAX);
        let Some(client) = hub.clients.add(peer.to_string(), local, SystemClock.now(), max) else {
            let rejection = tokio::spawn(reject(stream));
            return self.rejections.push(rejection.abort_handle());
        };
        let id = client.id;
        let session = Session::new(client, !hub.host.needs_token());
        let tls = self.resp.tls.as_ref().map(Tls::acceptor);
        self.next = (self.next + 1) % self.resp.loops.len();
        let new = stream.into_std().map(|stream| New { stream, session, tls });
        let is_taken = new.is_ok_and(|new| self.resp.loops[self.next].send(new).is_ok());
        if !is_taken {
            hub.clients.remove(id);
        }
    }

    async fn maintain(&mut self) {
        std::future::pending::<()>().await;
    }
}

async fn reject(mut stream: TcpStream) {
    let _ = timeout(REJECTION_TIMEOUT, async {
        stream.write_all(b"-ERR max number of clients reached\r\n").await?;
        stream.shutdown().await
    })
    .await;
}

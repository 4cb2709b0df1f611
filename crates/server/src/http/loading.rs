//! HTTP connections while the database loads: a health check or 503, or waiting until the database is open. Touches sockets.
//!
//! A connection has a slot as any other. Its first request gets a response and the connection is closed; one that has sent nothing
//! by the end of the load is served by a shard.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use keystead_core::ShardId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::listener::{HttpListener, admit};
use super::request;
use crate::accept::{self, Acceptor};
use crate::app::App;
use crate::bounds::{Bounds, REJECTION_TIMEOUT};
use crate::starting::Starting;

/// Serves connections from before the database is open until the app stops, then drains.
pub async fn serve_from_start(listener: TcpListener, starting: Arc<Starting>, bounds: Bounds) {
    let http = HttpListener::new(bounds);
    let mut loading = LoadingAcceptor { starting: Arc::clone(&starting), http, accepted: 0 };
    let app = accept::until_open(&listener, &starting, &mut loading).await;
    loading.http.serve(listener, app).await;
}

struct LoadingAcceptor {
    starting: Arc<Starting>,
    http: HttpListener,
    accepted: usize,
}

impl Acceptor for LoadingAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, _: ShardId) {
        let starting = Arc::clone(&self.starting);
        self.accepted += 1;
        match self.http.slot() {
            Some(slot) => {
                let held = Held { stream, peer, slot, number: self.accepted };
                let (bounds, http) = (self.http.bounds(), self.http.sharing());
                self.http.tasks.spawn(async move {
                    if let Some((held, app)) = hold(held, &starting, &bounds).await {
                        let shard = ShardId(held.number % app.engine.shards());
                        admit(held.stream, held.peer, held.slot, http(app), shard).await;
                    }
                });
            }
            None => {
                let rejection = self.http.tasks.spawn(async move { respond(stream, &starting).await });
                self.http.rejections.push(rejection);
            }
        }
    }

    async fn maintain(&mut self) {
        self.http.reap().await;
    }
}

struct Held {
    stream: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    number: usize,
}

/// Holds a connection until the database is open. If it sends a request before, it gets the response and ends.
async fn hold(held: Held, starting: &Starting, bounds: &Bounds) -> Option<(Held, Arc<App>)> {
    tokio::select! {
        biased;
        app = starting.opened() => return Some((held, app)),
        sent = timeout(bounds.header_timeout, held.stream.readable()) => sent.ok()?.ok()?,
    }
    respond(held.stream, starting).await;
    None
}

/// Responds to one request.
async fn respond(stream: TcpStream, starting: &Starting) {
    let Ok(at) = stream.local_addr() else { return };
    let service = service_fn(|request| {
        let response = request::while_loading(starting, at.ip(), &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let one_answer = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let _ = timeout(REJECTION_TIMEOUT, one_answer).await;
}

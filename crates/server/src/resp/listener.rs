//! Accepts RESP connections up to the bound, hands each to a shard's loop, and drains them when the server stops. Touches sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keystead_commands::session::Session;
use keystead_core::ShardId;
use keystead_engine::Local;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::busy::{self, Ended, Listed};
use super::connection::Connection;
use super::tls::Tls;
use crate::accept::{self, Acceptor, Rejections};
use crate::app::App;
use crate::bounds::{CONNECTIONS_MAX, DRAIN_TIMEOUT, REJECTION_TIMEOUT, TLS_HANDSHAKE_TIMEOUT};
use crate::handover::{self, OnLoop};

/// How often idle clients are looked for, and while draining those that are left.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Serves connections until the app stops, then drains.
pub async fn serve(listener: TcpListener, app: Arc<App>, tls: Option<Tls>) {
    let mut idle_check = interval(IDLE_CHECK_INTERVAL);
    idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut resp = RespAcceptor { app: Arc::clone(&app), tls, idle_check, rejections: Rejections::default() };
    accept::until_stopping(listener, &app, &mut resp).await;
    drain(&app).await;
}

struct RespAcceptor {
    app: Arc<App>,
    tls: Option<Tls>,
    idle_check: Interval,
    rejections: Rejections,
}

impl Acceptor for RespAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, shard: ShardId) {
        let app = &self.app;
        let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let max = app.hub.config.clients_max().min(CONNECTIONS_MAX);
        let Some(client) = app.hub.clients.add(peer.to_string(), local, app.now(), max) else {
            let rejection = tokio::spawn(reject(stream, "-ERR max number of clients reached\r\n"));
            return self.rejections.push(rejection.abort_handle());
        };
        let session = Session::new(client, !app.hub.host.needs_token());
        let listed = Listed::new(Arc::clone(app), session);
        // A socket belongs to the loop that it was registered with, so it is handed over unregistered.
        let Ok(stream) = stream.into_std() else { return };
        let stream = Wire::Bare(stream, self.tls.as_ref().map(Tls::acceptor));
        // A shard that is busy is waited for in a task, of which there are at most as many as clients.
        tokio::spawn(hand_over(NewConnection { stream, listed }, shard));
    }

    async fn maintain(&mut self) {
        self.idle_check.tick().await;
        close_idle(&self.app);
    }
}

/// A connection that no loop has yet.
struct NewConnection {
    stream: Wire,
    listed: Listed,
}

/// The transport of a connection.
enum Wire {
    /// A socket, and the TLS acceptor if the listener has TLS.
    Bare(std::net::TcpStream, Option<TlsAcceptor>),
    /// TLS whose handshake the listener has done. Its socket stays with the listener's runtime, which wakes the loop.
    Tls(Box<TlsStream<TcpStream>>),
}

async fn hand_over(mut new: NewConnection, mut shard: ShardId) {
    let engine = new.listed.app.engine.clone();
    while let Some(back) = handover::offer(&engine, shard, new, begin).await {
        shard = handover::next_shard(&engine, shard);
        let Some(held) = hold(back, shard).await else { return };
        new = held;
    }
}

/// Serves the commands of a connection that need no keys, until the shard's loop is free.
async fn hold(new: NewConnection, shard: ShardId) -> Option<NewConnection> {
    let NewConnection { stream, mut listed } = new;
    let app = Arc::clone(&listed.app);
    let mut stream = match stream {
        Wire::Bare(stream, None) => {
            let mut stream = TcpStream::from_std(stream).ok()?;
            let ended = busy::serve(&mut stream, &mut listed, shard).await;
            let stream = (ended == Ended::LoopIsFree).then(|| stream.into_std().ok())??;
            return Some(NewConnection { stream: Wire::Bare(stream, None), listed });
        }
        Wire::Bare(stream, Some(tls)) => {
            Box::new(handshake(TcpStream::from_std(stream).ok()?, &tls, &app).await?)
        }
        Wire::Tls(stream) => stream,
    };
    let ended = busy::serve(&mut stream, &mut listed, shard).await;
    (ended == Ended::LoopIsFree).then_some(NewConnection { stream: Wire::Tls(stream), listed })
}

fn begin(new: NewConnection, local: Local) -> OnLoop {
    Box::pin(connection(new, local))
}

async fn connection(new: NewConnection, local: Local) {
    let NewConnection { stream, listed } = new;
    let app = Arc::clone(&listed.app);
    match stream {
        Wire::Bare(stream, tls) => {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let Some(tls) = tls else { return serve_on(stream, app, listed, local).await };
            if let Some(stream) = handshake(stream, &tls, &app).await {
                serve_on(stream, app, listed, local).await;
            }
        }
        Wire::Tls(stream) => serve_on(stream, app, listed, local).await,
    }
}

async fn serve_on<S: AsyncRead + AsyncWrite + Unpin>(stream: S, app: Arc<App>, listed: Listed, local: Local) {
    let Some((session, input)) = listed.leave() else { return };
    let seed = app.seed(session.client.id);
    Connection::new(stream, app, local, session, seed).with_input(input).serve().await;
}

/// Does the TLS handshake, or logs why it failed.
async fn handshake(stream: TcpStream, tls: &TlsAcceptor, app: &App) -> Option<TlsStream<TcpStream>> {
    let done = tokio::select! {
        biased;
        // A connection that has not begun is not drained.
        () = app.stopping() => return None,
        done = timeout(TLS_HANDSHAKE_TIMEOUT, tls.accept(stream)) => done.ok()?,
    };
    done.inspect_err(|error| tracing::debug!(%error, "a TLS handshake failed")).ok()
}

async fn reject(mut stream: TcpStream, words: &'static str) {
    let _ = timeout(REJECTION_TIMEOUT, async {
        stream.write_all(words.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// Closes clients that have been idle for longer than CONFIG's `timeout`, unless they wait for keys or are subscribed.
fn close_idle(app: &App) {
    let limit_ms = app.hub.config.client_timeout_s().saturating_mul(1000);
    if limit_ms == 0 {
        return;
    }
    let now = app.now().0;
    for client in app.hub.clients.all() {
        let idle_ms = now.saturating_sub(client.last_ms.load(std::sync::atomic::Ordering::Relaxed));
        let shown = client.shown().clone();
        let listens = shown.counts[..3].iter().any(|count| *count > 0);
        if idle_ms > limit_ms && !shown.blocked && !listens {
            client.kill();
        }
    }
}

/// Waits until the clients have got their replies and are gone.
async fn drain(app: &App) {
    let all_ended = async {
        loop {
            let clients = app.hub.clients.all();
            if clients.is_empty() {
                return;
            }
            clients.iter().for_each(|client| client.wake());
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    };
    accept::drain(all_ended, DRAIN_TIMEOUT, || app.hub.clients.len()).await;
}

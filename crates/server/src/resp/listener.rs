//! The door itself: accept connections up to the limit, hand each to a shard's loop, and drain when the server stops.
//! Touches sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keystead_commands::session::Session;
use keystead_engine::Local;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use super::held::{self, Ended, Listed};
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
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, shard: usize) {
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
        tokio::spawn(hand_over(Newcomer { stream, listed }, shard));
    }

    async fn maintain(&mut self) {
        self.idle_check.tick().await;
        close_idle(&self.app);
    }
}

/// A connection that no loop has yet.
struct Newcomer {
    stream: Wire,
    listed: Listed,
}

/// What a connection comes with.
enum Wire {
    /// A socket, and how to agree on TLS if that is wanted.
    Bare(std::net::TcpStream, Option<TlsAcceptor>),
    /// TLS that the listener has agreed on. Its socket stays with the listener's runtime, which wakes the loop.
    Agreed(Box<TlsStream<TcpStream>>),
}

async fn hand_over(mut newcomer: Newcomer, mut shard: usize) {
    let engine = newcomer.listed.app.engine.clone();
    while let Some(back) = handover::offer(&engine, shard, newcomer, begin).await {
        shard = handover::next_shard(&engine, shard);
        let Some(held) = hold(back, shard).await else { return };
        newcomer = held;
    }
}

/// Serves a connection as far as that needs no keys, until the shard's loop goes on.
async fn hold(newcomer: Newcomer, shard: usize) -> Option<Newcomer> {
    let Newcomer { stream, mut listed } = newcomer;
    let app = Arc::clone(&listed.app);
    let mut agreed = match stream {
        Wire::Bare(stream, None) => {
            let mut stream = TcpStream::from_std(stream).ok()?;
            let ended = held::serve(&mut stream, &mut listed, shard).await;
            let stream = (ended == Ended::GoesOn).then(|| stream.into_std().ok())??;
            return Some(Newcomer { stream: Wire::Bare(stream, None), listed });
        }
        Wire::Bare(stream, Some(tls)) => {
            Box::new(agree(TcpStream::from_std(stream).ok()?, &tls, &app).await?)
        }
        Wire::Agreed(agreed) => agreed,
    };
    let ended = held::serve(&mut agreed, &mut listed, shard).await;
    (ended == Ended::GoesOn).then_some(Newcomer { stream: Wire::Agreed(agreed), listed })
}

fn begin(newcomer: Newcomer, local: Local) -> OnLoop {
    Box::pin(connection(newcomer, local))
}

async fn connection(newcomer: Newcomer, local: Local) {
    let Newcomer { stream, listed } = newcomer;
    let app = Arc::clone(&listed.app);
    match stream {
        Wire::Bare(stream, tls) => {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let Some(tls) = tls else { return serve_on(stream, app, listed, local).await };
            if let Some(stream) = agree(stream, &tls, &app).await {
                serve_on(stream, app, listed, local).await;
            }
        }
        Wire::Agreed(stream) => serve_on(stream, app, listed, local).await,
    }
}

async fn serve_on<S: AsyncRead + AsyncWrite + Unpin>(stream: S, app: Arc<App>, listed: Listed, local: Local) {
    let Some((session, input)) = listed.leave() else { return };
    let seed = app.seed(session.client.id);
    Connection::new(stream, app, local, session, seed).with_input(input).serve().await;
}

/// Agrees on TLS, or says in the log why not.
async fn agree(stream: TcpStream, tls: &TlsAcceptor, app: &App) -> Option<TlsStream<TcpStream>> {
    let agreed = tokio::select! {
        biased;
        // Who has not even begun does not hold up the end.
        () = app.stopping() => return None,
        agreed = timeout(TLS_HANDSHAKE_TIMEOUT, tls.accept(stream)) => agreed.ok()?,
    };
    agreed.inspect_err(|error| tracing::debug!(%error, "no TLS with a client")).ok()
}

async fn reject(mut stream: TcpStream, words: &'static str) {
    let _ = timeout(REJECTION_TIMEOUT, async {
        stream.write_all(words.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

/// Closes clients that have been idle for longer than CONFIG's `timeout`; those who wait or listen may.
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

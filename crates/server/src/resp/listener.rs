//! Accepts RESP connections up to the bound, hands each to a shard's loop, and drains them when the server stops. Touches sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keystead_commands::hub::Hub;
use keystead_commands::session::Session;
use keystead_core::{Clock, ShardId, SystemClock};
use keystead_engine::Local;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use super::held::{self, Ended, Listed, Why};
use super::tls::Tls;
use crate::accept::{self, Acceptor, Rejections};
use crate::app::App;
use crate::bounds::{
    CONNECTIONS_MAX, DRAIN_CHECK_INTERVAL, DRAIN_TIMEOUT, REJECTION_TIMEOUT, TLS_HANDSHAKE_TIMEOUT,
};
use crate::handover::{self, OnLoop};
use crate::starting::Starting;

/// How often idle clients are looked for.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Serves connections until the app stops, then drains.
pub async fn serve(listener: TcpListener, app: Arc<App>, tls: Option<Tls>) {
    let mut idle_check = interval(IDLE_CHECK_INTERVAL);
    idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut resp = RespAcceptor { app: Arc::clone(&app), tls, idle_check, rejections: Rejections::default() };
    accept::until_stopping(listener, &app, &mut resp).await;
    drain(&app).await;
}

/// The same from before the database is open.
pub async fn serve_from_start(listener: TcpListener, starting: Arc<Starting>, tls: Option<Tls>) {
    let mut loading = LoadingAcceptor {
        starting: Arc::clone(&starting),
        tls: tls.clone(),
        rejections: Rejections::default(),
        accepted: 0,
    };
    let app = accept::until_open(&listener, &starting, &mut loading).await;
    serve(listener, app, tls).await;
}

struct RespAcceptor {
    app: Arc<App>,
    tls: Option<Tls>,
    idle_check: Interval,
    rejections: Rejections,
}

impl Acceptor for RespAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, shard: ShardId) {
        let app = Arc::clone(&self.app);
        let Some((stream, listed)) = list(&app.hub, stream, peer, &mut self.rejections) else { return };
        // A socket belongs to the loop that it was registered with, so it is handed over unregistered.
        let Ok(stream) = stream.into_std() else { return };
        let stream = Wire::Bare(stream, self.tls.as_ref().map(Tls::acceptor));
        // A shard that is busy is waited for in a task, of which there are at most as many as clients.
        tokio::spawn(hand_over(NewConnection { app, stream, listed }, shard));
    }

    async fn maintain(&mut self) {
        self.idle_check.tick().await;
        close_idle(&self.app);
    }
}

struct LoadingAcceptor {
    starting: Arc<Starting>,
    tls: Option<Tls>,
    rejections: Rejections,
    accepted: usize,
}

impl Acceptor for LoadingAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, _: ShardId) {
        let starting = Arc::clone(&self.starting);
        let Some((stream, listed)) = list(&starting.hub, stream, peer, &mut self.rejections) else { return };
        self.accepted += 1;
        let Ok(stream) = stream.into_std() else { return };
        let stream = Wire::Bare(stream, self.tls.as_ref().map(Tls::acceptor));
        tokio::spawn(hold_until_open(starting, stream, listed, self.accepted));
    }

    async fn maintain(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Adds a connection to the list of clients, or rejects it.
fn list(
    hub: &Arc<Hub>,
    stream: TcpStream,
    peer: SocketAddr,
    rejections: &mut Rejections,
) -> Option<(TcpStream, Listed)> {
    let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let max = hub.config.clients_max().min(CONNECTIONS_MAX);
    let Some(client) = hub.clients.add(peer.to_string(), local, SystemClock.now(), max) else {
        let rejection = tokio::spawn(reject(stream, "-ERR max number of clients reached\r\n"));
        rejections.push(rejection.abort_handle());
        return None;
    };
    let session = Session::new(client, !hub.host.needs_token());
    Some((stream, Listed::new(Arc::clone(hub), session)))
}

/// Serves the commands of a connection that need no data until the database is open, and hands it over. The connections go to the
/// shards in turn.
async fn hold_until_open(starting: Arc<Starting>, stream: Wire, mut listed: Listed, number: usize) {
    let held = hold(stream, &mut listed, &Why::Loading(&starting)).await;
    let Some(stream) = held else { return };
    let app = starting.opened().await;
    let shard = ShardId(number % app.engine.shards());
    hand_over(NewConnection { app, stream, listed }, shard).await;
}

/// A connection that no loop has yet.
struct NewConnection {
    app: Arc<App>,
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
    let engine = new.app.engine.clone();
    while let Some(back) = handover::offer(&engine, shard, new, begin).await {
        shard = handover::next_shard(&engine, shard);
        let NewConnection { app, stream, mut listed } = back;
        let Some(stream) = hold(stream, &mut listed, &Why::Busy(&app, shard)).await else { return };
        new = NewConnection { app, stream, listed };
    }
}

/// Serves the commands of a connection that need no keys, until a loop can take it.
async fn hold(stream: Wire, listed: &mut Listed, why: &Why<'_>) -> Option<Wire> {
    let mut stream = match stream {
        Wire::Bare(stream, None) => {
            let mut stream = TcpStream::from_std(stream).ok()?;
            let ended = held::serve(&mut stream, listed, why).await;
            let stream = (ended == Ended::LoopIsFree).then(|| stream.into_std().ok())??;
            return Some(Wire::Bare(stream, None));
        }
        Wire::Bare(stream, Some(tls)) => {
            Box::new(handshake(TcpStream::from_std(stream).ok()?, &tls, why.stopping()).await?)
        }
        Wire::Tls(stream) => stream,
    };
    let ended = held::serve(&mut stream, listed, why).await;
    (ended == Ended::LoopIsFree).then_some(Wire::Tls(stream))
}

fn begin(new: NewConnection, local: Local) -> OnLoop {
    Box::pin(connection(new, local))
}

async fn connection(new: NewConnection, local: Local) {
    let NewConnection { app, stream, listed } = new;
    match stream {
        Wire::Bare(stream, tls) => {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let Some(tls) = tls else { return serve_on(stream, app, listed, local).await };
            if let Some(stream) = handshake(stream, &tls, app.stopping()).await {
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
async fn handshake(
    stream: TcpStream,
    tls: &TlsAcceptor,
    stopping: impl Future<Output = ()>,
) -> Option<TlsStream<TcpStream>> {
    let done = tokio::select! {
        biased;
        // A connection that has not begun is not drained.
        () = stopping => return None,
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

//! The door itself: accept connections up to the limit, hand each to a shard's loop, and drain when the server stops.
//! Touches sockets.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keystead_commands::hub::Client;
use keystead_commands::session::Session;
use keystead_engine::Local;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::Connection;
use super::tls::Tls;
use crate::app::App;
use crate::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, DRAIN_TIMEOUT, TLS_HANDSHAKE_TIMEOUT};

/// How often the door looks for idle clients, and while it drains for those that are left.
const LOOK: Duration = Duration::from_secs(1);
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// Serves connections until the app stops, then drains.
pub async fn serve(listener: TcpListener, app: Arc<App>, tls: Option<Tls>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopping = std::pin::pin!(app.stopping());
    let mut next_shard = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.as_mut() => break,
            accepted = listener.accept() => accepted,
            _ = look.tick() => {
                close_idle(&app);
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                next_shard = (next_shard + 1) % app.engine.shards();
                admit(stream, peer, &app, tls.as_ref().map(Tls::acceptor), next_shard);
            }
            Err(error) => pause_after(&error).await,
        }
    }
    drop(listener);
    drain(&app).await;
}

/// Lets a client in, or tells it why not.
fn admit(stream: TcpStream, peer: SocketAddr, app: &Arc<App>, tls: Option<TlsAcceptor>, shard: usize) {
    // Answers are written whole, so waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let max = app.hub.config.clients_max().min(CONNECTIONS_MAX);
    let Some(client) = app.hub.clients.add(peer.to_string(), local, app.now(), max) else {
        tokio::spawn(refuse(stream, "-ERR max number of clients reached\r\n"));
        return;
    };
    // A socket belongs to the loop that it was registered with, so it goes over bare.
    let Ok(stream) = stream.into_std() else {
        app.hub.clients.remove(client.id);
        return;
    };
    let id = client.id;
    let (app, at_loop) = (Arc::clone(app), Arc::clone(app));
    let guest = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(connection(stream, at_loop, client, tls, local))
    };
    // A shard that is busy is waited for, by as many as there may be clients, and others are let in meanwhile.
    tokio::spawn(async move {
        if let Err(error) = app.engine.spawn_when_free(shard, Box::new(guest)).await {
            app.hub.clients.remove(id);
            tracing::warn!(%error, "cannot take a connection");
        }
    });
}

async fn connection(
    stream: std::net::TcpStream,
    app: Arc<App>,
    client: Arc<Client>,
    tls: Option<TlsAcceptor>,
    local: Local,
) {
    let seed = app.seed(client.id);
    let session = Session::new(Arc::clone(&client), !app.hub.host.needs_token());
    let Ok(stream) = TcpStream::from_std(stream) else {
        app.hub.clients.remove(client.id);
        return;
    };
    let Some(tls) = tls else {
        return Connection::new(stream, app, local, session, seed).serve().await;
    };
    let agreed = tokio::select! {
        biased;
        // Who has not even begun does not hold up the end.
        () = app.stopping() => None,
        agreed = timeout(TLS_HANDSHAKE_TIMEOUT, tls.accept(stream)) => agreed.ok(),
    };
    match agreed {
        Some(Ok(stream)) => Connection::new(stream, app, local, session, seed).serve().await,
        failed => {
            app.hub.clients.remove(client.id);
            if let Some(Err(error)) = failed {
                tracing::debug!(%error, client = client.id, "no TLS with this client");
            }
        }
    }
}

async fn refuse(mut stream: TcpStream, words: &'static str) {
    let _ = timeout(crate::limits::REFUSAL_TIMEOUT, async {
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

/// Waits until everybody has heard what they were promised.
async fn drain(app: &App) {
    let all_gone = async {
        loop {
            let clients = app.hub.clients.all();
            if clients.is_empty() {
                return;
            }
            clients.iter().for_each(|client| client.wake());
            sleep(DRAIN_LOOK).await;
        }
    };
    if timeout(DRAIN_TIMEOUT, all_gone).await.is_err() {
        tracing::warn!(connections = app.hub.clients.len(), "cut off clients that did not finish in time");
    }
}

/// Without a pause a door that is out of file handles would spin.
async fn pause_after(error: &io::Error) {
    match error.kind() {
        // The client went away before it was served: its affair.
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset => {}
        _ => {
            tracing::warn!(%error, "cannot accept a connection");
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

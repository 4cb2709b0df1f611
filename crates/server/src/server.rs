//! Runs a server: open the listeners and the database, print the ready block, serve until a signal, drain, close. While a database
//! takes long to load, the listeners serve already. Touches sockets, signals, the data directory and stdout.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keystead_commands::hub::ShutDown;
use keystead_core::{Code, Error, Result, ShardId};
use keystead_engine::{Engine, LoadProgress};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use crate::app::App;
use crate::bounds::{
    Bounds, CLOSE_TIMEOUT, DRAIN_TIMEOUT, KILL_INTERVAL, LOAD_UNNOTICED, TOKEN_BYTES_ADVISED,
};
use crate::documents::DocumentStore;
use crate::failure::failure;
use crate::resp::tls::Tls;
use crate::settings::{Listen, Settings, Token};
use crate::signals::{self, Signals};
use crate::sinks::Sinks;
use crate::starting::{Load, Starting};
use crate::upstream::Forwarder;
use crate::{
    VERSION, allocator, cluster, database, functions, http, listen, open_files, ready, reload, resp,
};

/// Runs a server until a signal has stopped it, it has drained, and the database is closed.
///
/// # Errors
/// `config_invalid` with the one line for the user when it cannot start; another code when it cannot stop cleanly.
pub async fn run(settings: Settings) -> Result<()> {
    let hangups = signals::hangups()?;
    check_tokens(&settings)?;
    // The addresses first: if a server runs already, that is found out before its database is touched.
    let http = open_listener("--http", &settings.http, None, &settings).await?;
    let resp = open_listener("--resp", &settings.resp, settings.resp_tls_cert.as_deref(), &settings).await?;
    if http.is_none() && resp.is_none() {
        return Err(failure("--http and --resp are both off", "open one, for example --http 127.0.0.1:8080"));
    }
    let tls = Tls::new(&settings)?;
    let upstream = Forwarder::open(&settings)?;
    open_files::raise_limit();
    allocator::start_returning();
    let mut signals = Signals::listen()?;
    let address = |bound: &Option<Bound>| bound.as_ref().map(|(_, address)| *address);
    let (http_at, resp_at) = (address(&http), address(&resp));
    let shown = upstream.as_ref().map(|upstream| upstream.shown().to_owned());
    let resp_port = resp_at.map_or(0, |address| address.port());
    let sockets =
        Sockets { http: http.map(|bound| bound.0), resp: resp.map(|bound| bound.0), tls: tls.clone() };
    let mut listeners = JoinSet::new();
    let Some(loaded) = load(settings, resp_port, sockets, &mut listeners, &mut signals).await? else {
        // Nothing was acknowledged, so there is nothing to close.
        return Ok(());
    };
    let Loaded { starting, engine, sockets } = loaded;
    let app = Arc::new(starting.with_engine(engine));
    if let Some(upstream) = upstream {
        upstream.start_probing();
        // It is set once.
        let _ = app.upstream.set(upstream);
    }
    if let Err(error) = prepare(&app).await {
        // The error that keeps it from starting matters more.
        let _ = close_stores(&app).await;
        return app.engine.close().await.and(Err(error));
    }
    reload::start(hangups, &app, tls);
    match sockets {
        Some(sockets) => sockets.serve(&app, starting.clients_max(), &mut listeners),
        None => starting.announce(Arc::clone(&app)),
    }
    let sinks: Vec<String> =
        app.sinks.get().into_iter().flat_map(|sinks| sinks.all()).map(|one| one.line(&app.engine)).collect();
    print(&ready::block(&app.settings, http_at, resp_at, shown.as_deref(), &sinks));
    warn_of_short_tokens(&app.settings);
    tracing::info!(version = VERSION, "ready");

    let drain_timeout = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            DRAIN_TIMEOUT
        }
        how = app.shut_down() => {
            tracing::info!("stopping: a client sent SHUTDOWN");
            if how == ShutDown::Now { Duration::ZERO } else { DRAIN_TIMEOUT }
        }
        _ = listeners.join_next() => return close(&app).await.and(Err(broken())),
    };
    app.stop();
    tokio::spawn(kill_scripts(Arc::clone(&app), drain_timeout));
    // A second signal ends the process without waiting for the drain.
    tokio::spawn(signals.exit_at_next());
    let mut drained = Ok(());
    while let Some(ended) = listeners.join_next().await {
        drained = drained.and(ended.map_err(|_| broken()));
    }
    if let Some(sinks) = app.sinks.get() {
        sinks.stop().await;
    }
    drained = drained.and(close_stores(&app).await);
    // The database is closed in any case. Its error comes first.
    close(&app).await.and(drained)?;
    tracing::info!("stopped");
    Ok(())
}

/// Rejects tokens that do not protect.
pub(crate) fn check_tokens(settings: &Settings) -> Result<()> {
    if settings.read_only_token.is_some() && settings.token.is_none() {
        return Err(failure(
            "--read-only-token is set and --token is not, so everybody may write",
            "set --token as well, for example KEYSTEAD_TOKEN=$(openssl rand -hex 32)",
        ));
    }
    if settings.token.is_some() && settings.token == settings.read_only_token {
        return Err(failure(
            "--token and --read-only-token are the same, so readers may write",
            "give them different values, for example KEYSTEAD_READ_ONLY_TOKEN=$(openssl rand -hex 32)",
        ));
    }
    Ok(())
}

/// The sockets of the listeners, before anything serves them.
struct Sockets {
    http: Option<TcpListener>,
    resp: Option<TcpListener>,
    tls: Option<Tls>,
}

impl Sockets {
    fn serve(self, app: &Arc<App>, connections_max: usize, listeners: &mut JoinSet<()>) {
        if let Some(socket) = self.http {
            let bounds = Bounds { connections_max, ..Bounds::default() };
            listeners.spawn(http::serve(socket, Arc::clone(app), bounds));
        }
        if let Some(socket) = self.resp {
            listeners.spawn(resp::serve(socket, Arc::clone(app), self.tls));
        }
    }

    fn serve_from_start(self, starting: &Arc<Starting>, listeners: &mut JoinSet<()>) {
        if let Some(socket) = self.http {
            let bounds = Bounds { connections_max: starting.clients_max(), ..Bounds::default() };
            listeners.spawn(http::serve_from_start(socket, Arc::clone(starting), bounds));
        }
        if let Some(socket) = self.resp {
            listeners.spawn(resp::serve_from_start(socket, Arc::clone(starting), self.tls));
        }
    }
}

/// A server whose database is open.
struct Loaded {
    starting: Arc<Starting>,
    engine: Engine,
    /// The sockets, if nothing serves them yet.
    sockets: Option<Sockets>,
}

/// Opens the database. If that takes long, the listeners serve meanwhile what needs no data. `None` when a signal or a client has
/// stopped the server.
async fn load(
    settings: Settings,
    resp_port: u16,
    sockets: Sockets,
    listeners: &mut JoinSet<()>,
    signals: &mut Signals,
) -> Result<Option<Loaded>> {
    let progress = LoadProgress::new();
    let load = Load::begin(progress.clone());
    let of = settings.clone();
    let mut opening = tokio::spawn(async move { database::open(&of, &progress).await });
    let mut opened = None;
    while opened.is_none() {
        tokio::select! {
            biased;
            done = &mut opening => opened = Some(joined(done)?),
            signal = signals.next() => return Ok(stopped_early(signal)),
            () = sleep(LOAD_UNNOTICED) => if load.shards().is_some() { break },
        }
    }
    let shards = opened.as_ref().map(Engine::shards).or(load.shards()).unwrap_or(1);
    let clients_max = open_files::connections_max(shards);
    let starting = Arc::new(Starting::new(settings, load, resp_port, clients_max));
    if let Some(engine) = opened {
        return Ok(Some(Loaded { starting, engine, sockets: Some(sockets) }));
    }
    sockets.serve_from_start(&starting, listeners);
    let engine = tokio::select! {
        biased;
        done = &mut opening => joined(done)?,
        signal = signals.next() => return Ok(stopped_early(signal)),
        () = starting.shut_down() => return Ok(None),
        _ = listeners.join_next() => return Err(broken()),
        never = starting.load.report() => match never {},
    };
    starting.load.report_end();
    Ok(Some(Loaded { starting, engine, sockets: None }))
}

fn joined(done: std::result::Result<Result<Engine>, JoinError>) -> Result<Engine> {
    done.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

fn stopped_early(signal: i32) -> Option<Loaded> {
    tracing::info!(signal, "stopped while the database was being loaded");
    None
}

/// Loads the functions, opens the store of the documents, puts the policies into force, joins the cluster, and starts the sinks.
async fn prepare(app: &Arc<App>) -> Result<()> {
    functions::restore(&app.settings, &app.hub)?;
    open_documents(app).await?;
    apply_policies(app).await?;
    cluster::join(app).await?;
    // It is set once.
    let _ = app.sinks.set(Sinks::start(app).await?);
    Ok(())
}

/// Closes the stores of policies, documents and the cluster.
async fn close_stores(app: &App) -> Result<()> {
    if let Some(upstream) = app.upstream.get() {
        upstream.close();
    }
    let mut closed = match app.documents.get() {
        Some(documents) => documents.close().await,
        None => Ok(()),
    };
    if let Some(membership) = app.cluster.get() {
        closed = closed.and(membership.close().await);
    }
    for store in app.policies.others() {
        closed = closed.and(store.close().await);
    }
    closed
}

/// Opens the store of the documents, if it is not the database.
async fn open_documents(app: &App) -> Result<()> {
    let Some(url) = app.settings.documents_store.clone() else { return Ok(()) };
    // Opening a store may block.
    let opened = tokio::task::spawn_blocking(move || DocumentStore::open(&url)).await;
    let opened = opened.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    let documents = opened.map_err(|error| {
        failure(format_args!("--documents-store: {}", error.message()), "see docs/stores.md")
    })?;
    // It is opened once.
    let _ = app.documents.set(documents);
    Ok(())
}

/// Kills the script that runs, and then those that are queued behind it.
async fn kill_scripts(app: Arc<App>, after: Duration) {
    sleep(after).await;
    loop {
        if app.hub.kill_scripts() {
            tracing::warn!(
                "killed a script, which would have delayed the shutdown; its changes are rolled back"
            );
        }
        sleep(KILL_INTERVAL).await;
    }
}

/// Closes the database, unless a shard's loop is stuck.
async fn close(app: &App) -> Result<()> {
    tokio::select! {
        closed = app.engine.close() => closed,
        stuck = stuck(app) => Err(stuck),
    }
}

/// Waits until a shard's loop is found to be stuck. Then the process ends as if it was killed, which the journal survives at any time.
async fn stuck(app: &App) -> Error {
    let turns = || app.engine.shard_ids().map(|shard| app.engine.turn_began(shard));
    loop {
        let before: Vec<_> = turns().collect();
        sleep(CLOSE_TIMEOUT).await;
        let same = turns().zip(before).position(|(now, before)| now.is_some() && now == before);
        if let Some(shard) = same.map(ShardId) {
            let words = "runs a command that does not end, so the database was not closed: the next start recovers what was acknowledged";
            return Error::new(Code::StoreUnavailable, format!("shard {shard} {words}"));
        }
    }
}

/// A short token is better than none, so it is only a warning.
pub(crate) fn warn_of_short_tokens(settings: &Settings) {
    for (flag, token) in [("--token", &settings.token), ("--read-only-token", &settings.read_only_token)] {
        if token.as_ref().is_some_and(Token::is_short) {
            tracing::warn!(
                "{flag} is shorter than {TOKEN_BYTES_ADVISED} characters and might be guessed: use the output of openssl rand -hex 32"
            );
        }
    }
}

/// Puts the policies of the settings into force.
async fn apply_policies(app: &Arc<App>) -> Result<()> {
    let shared = Arc::clone(app);
    // A store may be slow to open.
    let applied =
        tokio::task::spawn_blocking(move || shared.policies.replace(&shared.settings.policies)).await;
    let applied = applied.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    applied.map_err(|error| failure(error.message(), "see docs/limits.md"))
}

/// A server without a listener would run and serve no client; if it ends, it can be restarted.
pub(crate) fn broken() -> Error {
    Error::new(Code::Internal, "a listener has failed: restart, and please report the log")
}

/// A listener and its address.
pub(crate) type Bound = (TcpListener, SocketAddr);

pub(crate) async fn open_listener(
    flag: &str,
    listen: &Listen,
    tls: Option<&Path>,
    settings: &Settings,
) -> Result<Option<Bound>> {
    let Some(listener) = listen::open(flag, listen, settings.token.is_some()).await? else {
        return Ok(None);
    };
    let address =
        listener.local_addr().map_err(|e| failure(e, format_args!("choose another address with {flag}")))?;
    listen::warn_if_plain(flag, address, tls);
    Ok(Some((listener, address)))
}

/// A server whose stdout is closed serves nevertheless.
pub(crate) fn print(block: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(block.as_bytes()).and_then(|()| out.flush());
}

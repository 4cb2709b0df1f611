//! A server's life: open the doors and the database, say that it is ready, serve until a signal, drain, close.
//! Touches sockets, signals, the data directory and stdout.

use std::io::Write;
use std::sync::Arc;

use keystead_core::{Code, Error, Result};
use tokio::net::TcpListener;

use crate::app::App;
use crate::failure::failure;
use crate::limits::Limits;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::{VERSION, database, http, listen, open_files, ready};

/// Runs a server until a signal has stopped it, it has drained, and the database is closed.
///
/// # Errors
/// `config_invalid` with the one line for the user when it cannot start; another code when it served and could not
/// end well.
pub async fn run(settings: Settings) -> Result<()> {
    // The address first: a server that runs already is found before its database is touched.
    let (http_door, http_address) = open_http(&settings).await?;
    open_files::raise_limit();
    let engine = database::open(&settings).await?;
    // Not earlier: until the server is ready, a signal may simply kill it.
    let mut signals = Signals::listen()?;
    let block = ready::block(&settings, http_address);
    let app = Arc::new(App::new(settings, engine));
    let limits =
        Limits { connections_max: open_files::connections_max(app.engine.shards()), ..Limits::default() };
    let mut door = tokio::spawn(http::serve(http_door, Arc::clone(&app), limits));
    say(&block);
    tracing::info!(version = VERSION, http = %http_address, "ready");

    let signal = tokio::select! {
        signal = signals.next() => signal,
        _ = &mut door => return app.engine.close().await.and(Err(broken())),
    };
    tracing::info!(signal, "stopping");
    app.stop();
    // A second signal comes from somebody who will not wait for the drain.
    tokio::spawn(signals.exit_at_next());
    let drained = door.await.map_err(|_| broken());
    // Whatever became of the door, the database is closed. It says itself what it could not do.
    app.engine.close().await.and(drained)?;
    tracing::info!("stopped");
    Ok(())
}

/// A server without a door would be up and yet serve nobody; ended, it can be restarted.
fn broken() -> Error {
    Error::new(Code::Internal, "the HTTP door has broken: restart, and please report the log")
}

async fn open_http(settings: &Settings) -> Result<(TcpListener, std::net::SocketAddr)> {
    let no_door = || failure("every door is closed", "open one, for example --http 127.0.0.1:8080");
    let door = listen::open("--http", &settings.http, settings.token.is_some()).await?.ok_or_else(no_door)?;
    let address = door.local_addr().map_err(|e| failure(e, "choose another address with --http"))?;
    Ok((door, address))
}

/// A server whose stdout is closed serves all the same.
fn say(block: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(block.as_bytes()).and_then(|()| out.flush());
}

//! SIGHUP: reloads the log file, token files, certificates and policies. Touches these files, and wakes the task that watches the
//! settings file.
//!
//! Each part is replaced as a whole or stays as it was, and the log says which.

use std::sync::Arc;

use keystead_core::Result;
use tokio::signal::unix::Signal;
use tokio::sync::Notify;

use crate::app::App;
use crate::failure::failure;
use crate::resp::tls::Tls;
use crate::settings::{Settings, Token, token_file};
use crate::{logs, policies};

/// Watches the settings file and handles these signals until the server stops.
pub fn start(hangups: Signal, app: &Arc<App>, tls: Option<Tls>) {
    let check = Arc::new(Notify::new());
    tokio::spawn(policies::reload::watch(Arc::clone(app), Arc::clone(&check)));
    tokio::spawn(handle(hangups, Arc::clone(app), tls, check));
}

async fn handle(mut hangups: Signal, app: Arc<App>, tls: Option<Tls>, check: Arc<Notify>) {
    loop {
        tokio::select! {
            () = app.stopping() => return,
            received = hangups.recv() => if received.is_none() { return },
        }
        check.notify_one();
        let (app, tls) = (Arc::clone(&app), tls.clone());
        // A disk may be slow. A panic is logged by the hook.
        let _ = tokio::task::spawn_blocking(move || reload(&app.settings, tls.as_ref())).await;
    }
}

/// Reloads the files of the settings.
pub(crate) fn reload(settings: &Settings, tls: Option<&Tls>) {
    let parts = [
        ("log file", logs::reopen()),
        ("token files", read_tokens(settings)),
        ("certificates", tls.map_or(Ok(()), |tls| tls.reload(settings))),
    ];
    let mut all = true;
    for (part, outcome) in parts {
        if let Err(error) = outcome {
            all = false;
            tracing::warn!(%error, "SIGHUP: {part}: not reloaded, what was in force stays");
        }
    }
    if all {
        tracing::info!("SIGHUP: log file, token files, certificates and policies reloaded");
    }
}

/// Reads both files before a token is replaced.
fn read_tokens(settings: &Settings) -> Result<()> {
    let mut tokens: Vec<(&Token, Token)> = Vec::new();
    for (name, path, token) in settings.token_files() {
        let (Some(path), Some(token)) = (path, token) else { continue };
        let (new, warning) = token_file::read(path).map_err(|invalid| {
            failure(format_args!("--{name} {} {}", path.display(), invalid.why), invalid.fix)
        })?;
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        tokens.push((token, new));
    }
    let after = |token: &Option<Token>| {
        let token = token.as_ref()?;
        let new = tokens.iter().find(|(old, _)| std::ptr::eq(*old, token)).map(|(_, new)| new);
        Some(new.unwrap_or(token).clone())
    };
    if let (Some(full), Some(read_only)) = (after(&settings.token), after(&settings.read_only_token))
        && full == read_only
    {
        return Err(failure(
            "the read-only token is the same as the full one",
            "write another into its file",
        ));
    }
    for (token, new) in tokens {
        token.replace(&new);
    }
    Ok(())
}

//! SIGHUP: what a running server reads again. Touches the log file, token files and certificates, and wakes whoever follows the
//! settings file.
//!
//! Each part is taken whole or stays as it was, and the log says so.

use std::sync::Arc;

use keystead_core::Result;
use tokio::signal::unix::Signal;
use tokio::sync::Notify;

use crate::app::App;
use crate::failure::failure;
use crate::resp::tls::Tls;
use crate::settings::{Settings, Token, token_file};
use crate::{logs, policies};

/// Follows the settings file and these signals until the server stops.
pub fn start(hangups: Signal, app: &Arc<App>, tls: Option<Tls>) {
    let look = Arc::new(Notify::new());
    tokio::spawn(policies::reload::watch(Arc::clone(app), Arc::clone(&look)));
    tokio::spawn(follow(hangups, Arc::clone(app), tls, look));
}

async fn follow(mut hangups: Signal, app: Arc<App>, tls: Option<Tls>, look: Arc<Notify>) {
    loop {
        tokio::select! {
            () = app.stopping() => return,
            received = hangups.recv() => if received.is_none() { return },
        }
        look.notify_one();
        let (app, tls) = (Arc::clone(&app), tls.clone());
        // A disk may take its time. One that panics has logged it.
        let _ = tokio::task::spawn_blocking(move || read_again(&app.settings, tls.as_ref())).await;
    }
}

fn read_again(settings: &Settings, tls: Option<&Tls>) {
    let parts = [
        ("log file", logs::reopen()),
        ("token files", read_tokens(settings)),
        ("certificates", tls.map_or(Ok(()), |tls| tls.read_again(settings))),
    ];
    let mut all = true;
    for (part, outcome) in parts {
        if let Err(error) = outcome {
            all = false;
            tracing::warn!(%error, "SIGHUP: {part}: not read again, what was in force stays");
        }
    }
    if all {
        tracing::info!("SIGHUP: log file, token files, certificates and policies are read again");
    }
}

/// Both are read before one is replaced.
fn read_tokens(settings: &Settings) -> Result<()> {
    let mut tokens: Vec<(&Token, Token)> = Vec::new();
    for (name, path, token) in settings.token_files() {
        let (Some(path), Some(token)) = (path, token) else { continue };
        let (new, warning) = token_file::read(path).map_err(|refusal| {
            failure(format_args!("--{name} {} {}", path.display(), refusal.why), refusal.fix)
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

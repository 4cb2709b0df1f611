//! A changed settings file takes effect while the server runs, as far as it is about policies. Touches that file, for reading.
//!
//! The file is read every [`RELOAD_LOOK`] and compared with what it was: that works on every file system, through links that are
//! turned round and on files that are replaced. A change counts once it has been seen twice, so that a file which is just
//! being written is not taken for a finished one.

use std::path::Path;
use std::sync::Arc;

use keystead_core::Result;

use super::file;
use crate::app::App;
use crate::limits::{RELOAD_LOOK, SETTINGS_BYTES_MAX};
use crate::settings::{self, file::DEFAULT_PATH};

/// Puts the policies of the settings file into force whenever it changes, until the server stops.
pub async fn watch(app: Arc<App>) {
    // Somebody who starts without a file may write one.
    let path = app.settings.config.clone().unwrap_or_else(|| DEFAULT_PATH.into());
    // What stands there now was read at the start.
    let mut known = app.settings.config_text.clone().map(|text| text.0);
    let mut seen = None;
    loop {
        tokio::select! {
            () = app.stopping() => return,
            () = tokio::time::sleep(RELOAD_LOOK) => {}
        }
        let text = read(&path).await;
        if text == known {
            seen = None;
            continue;
        }
        if seen.as_ref() != Some(&text) {
            seen = Some(text);
            continue;
        }
        seen = None;
        apply(&app, &path, known.as_deref(), text.as_deref()).await;
        known = text;
    }
}

/// The text of the file; nothing where it cannot be read.
async fn read(path: &Path) -> Option<String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= SETTINGS_BYTES_MAX);
        small.then(|| std::fs::read_to_string(&path).ok()).flatten()
    });
    read.await.ok().flatten()
}

async fn apply(app: &Arc<App>, path: &Path, known: Option<&str>, text: Option<&str>) {
    let shown = path.display().to_string();
    let replaced = match text {
        None => Err(format!("{shown} cannot be read, or has more than {SETTINGS_BYTES_MAX} bytes")),
        Some(text) => replace(app, text, &shown).await.map_err(|error| error.to_string()),
    };
    match replaced {
        Ok(count) => {
            if settings::file::differ(known, text) {
                tracing::warn!(file = shown, "settings other than limits take effect at the next start");
            }
            for store in app.policies.unused() {
                if let Err(error) = store.close().await {
                    tracing::warn!(store = store.scheme(), %error, "a store could not be closed");
                }
            }
            tracing::info!(file = shown, policies = count, "policies have changed");
        }
        Err(problem) => {
            tracing::warn!(problem, "the policies stay as they were");
            app.policies.refuse(problem);
        }
    }
}

async fn replace(app: &Arc<App>, text: &str, file: &str) -> Result<usize> {
    // A file that could not be started with is not taken by halves.
    settings::file::parse(text, file)?;
    let definitions = file::parse(text, file)?;
    let count = definitions.len();
    let app = Arc::clone(app);
    // A store may take its time to open.
    let replaced = tokio::task::spawn_blocking(move || app.policies.replace(&definitions)).await;
    replaced.unwrap_or_else(|error| {
        Err(keystead_core::Error::new(keystead_core::Code::Internal, error.to_string()))
    })?;
    Ok(count)
}

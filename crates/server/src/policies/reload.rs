//! A changed settings file takes effect while the server runs, as far as it is about policies. Touches that file, for reading.
//!
//! The file is read every [`RELOAD_LOOK`] and compared with what it was: that works on every file system, through links that are
//! turned round and on files that are replaced. A change counts once it has been seen twice, so that a file which is just
//! being written is not taken for a finished one. A file that was refused is left alone until it changes, unless a store could not
//! be opened: what is not in the file may be mended without touching it, so it is tried again now and then.

use std::path::Path;
use std::sync::Arc;

use keystead_core::{Code, Error};
use tokio::sync::Notify;

use super::file;
use crate::app::App;
use crate::bounds::{RELOAD_AGAIN_LOOKS, RELOAD_LOOK, SETTINGS_BYTES_MAX};
use crate::permissions;
use crate::settings::{self, file::DEFAULT_PATH};

/// Why a file was not taken.
struct ReloadError {
    problem: String,
    /// It may be taken later as it is.
    passes: bool,
}

/// Puts the policies of the settings file into force whenever it changes, and whenever somebody who is notified of it wants it read
/// `at_once`, until the server stops.
pub async fn watch(app: Arc<App>, at_once: Arc<Notify>) {
    // Somebody who starts without a file may write one.
    let path = app.settings.config.clone().unwrap_or_else(|| DEFAULT_PATH.into());
    // What stands there now was read at the start.
    let mut taken = app.settings.config_text.clone().map(|text| text.0);
    let mut known = taken.clone();
    let mut seen = None;
    let mut looks_left = None;
    loop {
        let wanted = tokio::select! {
            () = app.stopping() => return,
            () = at_once.notified() => true,
            () = tokio::time::sleep(RELOAD_LOOK) => false,
        };
        let text = read(&path).await;
        let is_new = text != known || app.policies.set().problem.is_some();
        if wanted && is_new {
            // Whoever says so has finished writing.
        } else if text == known {
            seen = None;
            looks_left = looks_left.map(|looks: u32| looks.saturating_sub(1));
            if looks_left != Some(0) {
                continue;
            }
        } else if seen.as_ref() != Some(&text) {
            seen = Some(text);
            continue;
        }
        seen = None;
        looks_left = match apply(&app, &path, taken.as_deref(), text.as_deref()).await {
            Ok(()) => {
                taken.clone_from(&text);
                None
            }
            Err(ReloadError { passes, .. }) => passes.then_some(RELOAD_AGAIN_LOOKS),
        };
        known = text;
    }
}

/// The text of the file; nothing where it cannot be read.
async fn read(path: &Path) -> Option<String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= SETTINGS_BYTES_MAX);
        // What somebody else has put there in the meantime is no settings file.
        (small && !permissions::is_foreign(&path)).then(|| std::fs::read_to_string(&path).ok()).flatten()
    });
    read.await.ok().flatten()
}

async fn apply(
    app: &Arc<App>,
    path: &Path,
    taken: Option<&str>,
    text: Option<&str>,
) -> Result<(), ReloadError> {
    let shown = path.display().to_string();
    let replaced = match text {
        None => {
            let problem = format!(
                "{shown} cannot be read, belongs to another user, or has more than {SETTINGS_BYTES_MAX} bytes"
            );
            Err(ReloadError { problem, passes: false })
        }
        Some(text) => replace(app, text, &shown).await,
    };
    // Of a file that was not taken some stores may be open.
    for store in app.policies.unused() {
        if let Err(error) = store.close().await {
            tracing::warn!(store = store.scheme(), %error, "a store could not be closed");
        }
    }
    match &replaced {
        Ok(count) => {
            if settings::file::differ(taken, text) {
                tracing::warn!(file = shown, "settings other than limits take effect at the next start");
            }
            tracing::info!(file = shown, policies = count, "policies have changed");
        }
        // What is tried again and again is told once.
        Err(ReloadError { problem, .. }) if app.policies.set().problem.as_ref() == Some(problem) => {}
        Err(ReloadError { problem, .. }) => {
            tracing::warn!(problem, "the policies stay as they were");
            app.policies.refuse(problem.clone());
        }
    }
    replaced.map(drop)
}

async fn replace(app: &Arc<App>, text: &str, file: &str) -> Result<usize, ReloadError> {
    let of_file = |error: Error| ReloadError { problem: error.to_string(), passes: false };
    // A file that could not be started with is not taken by halves.
    settings::file::parse(text, file).map_err(of_file)?;
    let definitions = file::parse(text, file).map_err(of_file)?;
    let count = definitions.len();
    let app = Arc::clone(app);
    // A store may take its time to open.
    let replaced = tokio::task::spawn_blocking(move || app.policies.replace(&definitions)).await;
    let replaced = replaced.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    let of_store = |error: Error| ReloadError {
        problem: error.to_string(),
        passes: error.code() != Code::ConfigInvalid,
    };
    replaced.map(|()| count).map_err(of_store)
}

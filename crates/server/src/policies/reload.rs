//! Reloads the policies of the settings file while the server runs. Touches that file, for reading.
//!
//! The file is read every [`RELOAD_LOOK`] and compared with its last content: that works on every file system, with symbolic links
//! and with files that are replaced. A change is applied once it has been read twice, so that a file that is being
//! written is not applied half way. A rejected file is not tried again until it changes, unless a store could not
//! be opened: that may be repaired without a change of the file, so it is tried again from time to time.

use std::path::Path;
use std::sync::Arc;

use keystead_core::{Code, Error, Store};
use tokio::sync::Notify;

use super::file;
use crate::app::App;
use crate::bounds::{
    RELOAD_AGAIN_LOOKS, RELOAD_LOOK, SETTINGS_BYTES_MAX, STORE_RELEASE_LOOK, STORE_RELEASE_LOOKS,
};
use crate::permissions;
use crate::settings::{self, file::DEFAULT_PATH};
use crate::sinks;

/// Why a file was rejected.
struct ReloadError {
    problem: String,
    /// It may be accepted later without a change.
    passes: bool,
}

/// Applies the policies of the settings file whenever it changes, and whenever `at_once` is notified, until the server stops.
pub async fn watch(app: Arc<App>, at_once: Arc<Notify>) {
    // A server that starts without a file may get one later.
    let path = app.settings.config.clone().unwrap_or_else(|| DEFAULT_PATH.into());
    // The current content was read at the start.
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
            // A notification means that the file is complete.
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
        // A file that another user has put there in the meantime is not a settings file.
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
    // A rejected file may have opened some stores.
    for store in app.policies.unused() {
        released(&store).await;
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
        // A problem that is found again is logged once.
        Err(ReloadError { problem, .. }) if app.policies.set().problem.as_ref() == Some(problem) => {}
        Err(ReloadError { problem, .. }) => {
            tracing::warn!(problem, "the policies stay as they were");
            app.policies.set_problem(problem.clone());
        }
    }
    replaced.map(drop)
}

/// Waits until the requests that found the old policies have ended, but not for long.
async fn released(store: &Arc<dyn Store>) {
    let mut looks_left = STORE_RELEASE_LOOKS;
    while Arc::strong_count(store) > 1 && looks_left > 0 {
        tokio::time::sleep(STORE_RELEASE_LOOK).await;
        looks_left -= 1;
    }
}

async fn replace(app: &Arc<App>, text: &str, file: &str) -> Result<usize, ReloadError> {
    let of_file = |error: Error| ReloadError { problem: error.to_string(), passes: false };
    // The server must be able to start with the file, or none of it is applied.
    settings::file::parse(text, file).map_err(of_file)?;
    sinks::file::parse(text, file).map_err(of_file)?;
    let definitions = file::parse(text, file).map_err(of_file)?;
    let count = definitions.len();
    let app = Arc::clone(app);
    // Opening a store may block.
    let replaced = tokio::task::spawn_blocking(move || app.policies.replace(&definitions)).await;
    let replaced = replaced.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    let of_store = |error: Error| ReloadError {
        problem: error.to_string(),
        passes: error.code() != Code::ConfigInvalid,
    };
    replaced.map(|()| count).map_err(of_store)
}

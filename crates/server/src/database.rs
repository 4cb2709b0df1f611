//! Opens the database that the settings describe. Touches the data directory, through the engine that owns it.
//!
//! The engine's error says what is wrong; this file adds what the user of the binary can do about it.

use std::num::NonZero;

use keystead_core::{Code, Error, Result};
use keystead_engine::{Durability, Engine, LoadProgress, Options};

use crate::failure::failure;
use crate::permissions;
use crate::settings::{Settings, Shards};

/// Opens or creates the database, reports how far that is, and returns when all shards are ready.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub async fn open(settings: &Settings, progress: &LoadProgress) -> Result<Engine> {
    let options = options(settings)?.load_progress(progress);
    // Recovery reads the whole journal, and a runtime may not be dropped on a thread that runs tasks.
    let opened = tokio::task::spawn_blocking(move || Engine::open(&options)).await;
    let opened = opened.unwrap_or_else(|e| Err(Error::new(Code::Internal, e.to_string())));
    let engine = opened.map_err(|error| failure_of(&error))?;
    if settings.durability != Durability::Memory
        && let Some(warning) = permissions::data(&settings.data)
    {
        tracing::warn!("{warning}");
    }
    Ok(engine)
}

fn options(settings: &Settings) -> Result<Options> {
    let mut options = match settings.durability {
        Durability::Memory => Options::in_memory(),
        level => Options::new(&settings.data).durability(level),
    };
    options = match settings.shards {
        Some(Shards::Number(number)) => options.shards(number),
        Some(auto @ Shards::Auto) => {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            options.shards_if_new(auto.for_new(cores))
        }
        None => options,
    };
    if !settings.sinks.is_empty() {
        options = options.held_journal_bytes(settings.sink_journal_bytes);
    }
    if let Some(bytes) = settings.memory_bytes {
        // Evicted values are on disk, and here there is none.
        if settings.durability == Durability::Memory {
            return Err(failure(
                "a memory limit needs files for evicted values, and durability memory has none",
                "use durability fsync or commit, or memory unlimited",
            ));
        }
        options = options.memory_bytes(bytes);
    }
    Ok(options)
}

/// The engine's error, and what to do about it in terms of the settings.
fn failure_of(error: &Error) -> Error {
    let advice = match error.code() {
        Code::StoreUnavailable => "--data DIR names another directory, --durability memory needs none",
        Code::ConfigInvalid => "without --shards a database opens as it is, --data DIR names another",
        Code::Corrupt => "keystead check DIR reports what is wrong, --data DIR names another database",
        Code::Unsupported => "--data DIR names another database",
        _ => "please report this",
    };
    Error::new(Code::ConfigInvalid, format!("cannot open the database: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::{Loaded, Sources};

    async fn error_of(data: &Path, flags: &[(&'static str, &str)]) -> String {
        let mut all = vec![("data", data.into())];
        all.extend(flags.iter().map(|(name, text)| (*name, (*text).into())));
        let sources = Sources { flags: all, variables: Vec::new() };
        open(&Loaded::from_sources(sources).unwrap().settings, &LoadProgress::new())
            .await
            .err()
            .unwrap()
            .to_string()
    }

    #[tokio::test]
    async fn every_error_says_what_is_wrong_and_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(name);
        std::fs::create_dir(of("newer")).unwrap();
        std::fs::write(of("newer/database.json"), r#"{"format":99,"id":"0","shards":1}"#).unwrap();
        std::fs::create_dir(of("foreign")).unwrap();
        std::fs::write(of("foreign/database.json"), "hello").unwrap();
        Engine::open(&Options::new(of("four")).shards(4)).unwrap().close().await.unwrap();
        let open = Engine::open(&Options::new(of("open"))).unwrap();
        let flags: &[_] = &[("shards", "2")];
        for (data, flags, what, advice) in [
            ("/proc/keystead".as_ref(), &[][..], "cannot create /proc/keystead: ", "--data DIR"),
            (of("newer").as_path(), &[], "newer", "--data DIR names another database"),
            (of("foreign").as_path(), &[], "not a database's description", "keystead check DIR"),
            (of("four").as_path(), flags, "has 4 shards", "without --shards"),
            (of("open").as_path(), &[], "the database is open in ", "--data DIR"),
        ] {
            let words = error_of(data, flags).await;
            assert!(words.contains(what) && words.contains(advice), "{words}");
        }
        open.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_memory_limit_needs_files() {
        let words = error_of(Path::new("none"), &[("durability", "memory"), ("memory", "1gb")]).await;
        assert!(words.contains("use durability fsync or commit"), "{words}");
    }
}

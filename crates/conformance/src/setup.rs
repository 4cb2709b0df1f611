//! The arguments of a store's opener, and its result.
//!
//! A setup belongs to one run of one case. Opening twice with the same setup must access the same data if the store declares that
//! it is shared or durable.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Clock, Code, Error, ManualClock, Millis, Store, SystemClock};

use crate::failure::Failure;

/// The start time of cases: in 2033, so that a server that also deletes by its own clock never deletes too early.
pub const START: Millis = Millis(2_000_000_000_000);

/// The arguments of an opener: the clock, a directory, a key prefix, and the name of the case. Clones share all of it.
#[derive(Clone)]
pub struct Setup {
    case: String,
    prefix: String,
    clock: ManualClock,
    dir: Arc<Mutex<Option<Scratch>>>,
}

impl Setup {
    /// The setup of one run of `case`, with a prefix that no other run on this machine has.
    #[must_use]
    pub fn new(case: impl Into<String>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("ks-{:x}-{:x}-{count:x}", SystemClock.now().0, std::process::id());
        Setup::with_prefix(case, prefix)
    }

    /// The setup of one run of `case`, with this prefix.
    #[must_use]
    pub fn with_prefix(case: impl Into<String>, prefix: impl Into<String>) -> Self {
        Setup { case: case.into(), prefix: prefix.into(), clock: ManualClock::at(START), dir: Arc::default() }
    }

    /// The clock to inject. It does not move until the case advances it.
    #[must_use]
    pub fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// The prefix of every key of the case. A store may also name tables and databases by it.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of the case, as `group::case`.
    #[must_use]
    pub fn case(&self) -> &str {
        &self.case
    }

    /// A directory of this run, created on first use and removed with the last clone.
    ///
    /// # Errors
    /// `internal` when it cannot be created.
    pub fn dir(&self) -> Result<Box<Path>, Error> {
        let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        if dir.is_none() {
            let made = Scratch::new(&self.prefix);
            *dir = Some(made.map_err(|e| {
                Error::new(Code::Internal, "cannot create a temporary directory").with_source(e)
            })?);
        }
        Ok(dir.as_ref().map_or(Path::new("."), |scratch| &scratch.0).into())
    }
}

/// A directory that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> std::io::Result<Scratch> {
        let path = std::env::temp_dir().join(name);
        // It fails if the directory exists: its name is unique.
        std::fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Why there is no store to run a case on.
pub enum NotOpened {
    /// The backend is not on this machine. Its cases are skipped with this reason, unless it is required.
    Missing(String),
    /// The backend exists and does not work. Its cases fail.
    Broken(Error),
}

impl NotOpened {
    /// The backend is not on this machine, for this reason.
    #[must_use]
    pub fn missing(reason: impl fmt::Display) -> Self {
        NotOpened::Missing(reason.to_string())
    }
}

impl From<Error> for NotOpened {
    fn from(error: Error) -> Self {
        NotOpened::Broken(error)
    }
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        NotOpened::Broken(Error::new(Code::Internal, failure.to_string()))
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpened::Missing(reason) => write!(f, "the backend is missing: {reason}"),
            NotOpened::Broken(error) => write!(f, "the store did not open: {error:?}"),
        }
    }
}

type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, NotOpened>> + Send>>;

/// Opens a store, without its type.
#[derive(Clone)]
pub struct Opener(Arc<dyn Fn(Setup) -> Opening + Send + Sync>);

impl Opener {
    /// An opener of this function.
    pub fn new<S, F>(open: impl Fn(Setup) -> F + Send + Sync + 'static) -> Self
    where
        S: Store + 'static,
        F: Future<Output = Result<S, NotOpened>> + Send + 'static,
    {
        Opener(Arc::new(move |setup| {
            let opening = open(setup);
            Box::pin(async move { Ok(Arc::new(opening.await?) as Arc<dyn Store>) })
        }))
    }

    /// Opens the store.
    ///
    /// # Errors
    /// When the backend is missing or broken.
    pub async fn open(&self, setup: Setup) -> Result<Arc<dyn Store>, NotOpened> {
        (self.0)(setup).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_never_share_a_prefix_or_a_directory() {
        let (a, b) = (Setup::new("x"), Setup::new("x"));
        assert_ne!(a.prefix(), b.prefix());
        assert_ne!(a.dir().unwrap(), b.dir().unwrap());
        assert_eq!(a.dir().unwrap(), a.clone().dir().unwrap());
    }

    #[test]
    fn the_directory_goes_with_the_last_clone() {
        let setup = Setup::new("x");
        let same = setup.clone();
        let dir = setup.dir().unwrap();
        drop(setup);
        assert!(dir.exists());
        drop(same);
        assert!(!dir.exists());
    }
}

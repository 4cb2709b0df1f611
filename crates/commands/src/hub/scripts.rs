//! Scripts and function libraries, as all shards share them: their texts, and counters of flushes and kills.
//! It touches nothing but memory.
//!
//! Each thread compiles what it runs for itself, and checks these counters to see whether that is still valid.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bounds::{SCRIPTS_BYTES_MAX, SCRIPTS_MAX};
use crate::ctx::Rights;
use crate::errors::Fail;
use crate::families::scripting::{Digits, Libraries};

/// Scripts and function libraries.
pub struct Scripts {
    /// Distinguishes this hub from another that the same thread served.
    pub(crate) id: u64,
    texts: Mutex<Texts>,
    flushes: AtomicU64,
    libraries: Mutex<Arc<Libraries>>,
    library_changes: AtomicU64,
    /// Held while libraries change and are stored.
    pub(crate) changing: Mutex<()>,
    /// Running scripts.
    pub(crate) scripts: Runs,
    /// Running functions.
    pub(crate) functions: Runs,
}

/// How many run, and how often all of them were killed.
#[derive(Default)]
pub(crate) struct Runs {
    running: AtomicUsize,
    pub(crate) kills: Arc<AtomicU64>,
}

impl Runs {
    /// Counts one more until the guard is dropped.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// Whether any runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Kills all that run; false if none does.
    pub(crate) fn kill(&self) -> bool {
        let runs = self.is_running();
        if runs {
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
        runs
    }
}

/// A running script.
pub(crate) struct Entered<'a>(&'a Runs);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Texts {
    by_digits: HashMap<Digits, CachedScript, RandomState>,
    bytes: usize,
    /// Grows with every script: the lowest one is the oldest.
    stamps: u64,
}

struct CachedScript {
    text: Arc<[u8]>,
    origin: Origin,
    stamp: u64,
}

/// How a script was added, from those evicted first to those never evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// By EVAL_RO of a client that may only read. It is evicted for any other script, and evicts none of them.
    Reader,
    /// By EVAL.
    Evaluated,
    /// By SCRIPT LOAD. It is kept until SCRIPT FLUSH.
    Loaded,
}

impl From<Rights> for Origin {
    fn from(rights: Rights) -> Self {
        match rights {
            Rights::All => Origin::Evaluated,
            Rights::ReadOnly => Origin::Reader,
        }
    }
}

impl Default for Scripts {
    fn default() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Scripts {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            texts: Mutex::default(),
            flushes: AtomicU64::new(0),
            libraries: Mutex::default(),
            library_changes: AtomicU64::new(0),
            changing: Mutex::default(),
            scripts: Runs::default(),
            functions: Runs::default(),
        }
    }
}

impl Scripts {
    /// Grows with every SCRIPT FLUSH.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// The text of a script.
    pub(crate) fn text(&self, digits: &Digits) -> Option<Arc<[u8]>> {
        self.texts().by_digits.get(digits).map(|cached| Arc::clone(&cached.text))
    }

    /// Whether this script is cached.
    pub(crate) fn has(&self, digits: &[u8]) -> bool {
        let digits = Digits::try_from(digits.to_ascii_lowercase());
        digits.is_ok_and(|digits| self.texts().by_digits.contains_key(&digits))
    }

    /// Caches a text, if necessary in place of others with the same or a lower origin.
    pub(crate) fn keep(&self, digits: Digits, text: &[u8], origin: Origin) -> Result<(), Fail> {
        let mut texts = self.texts();
        texts.stamps += 1;
        let stamp = texts.stamps;
        if let Some(cached) = texts.by_digits.get_mut(&digits) {
            cached.origin = cached.origin.max(origin);
            // A client that may only read must not influence which scripts of others are evicted.
            if origin != Origin::Reader || cached.origin == Origin::Reader {
                cached.stamp = stamp;
            }
            return Ok(());
        }
        while texts.by_digits.len() >= SCRIPTS_MAX || texts.bytes + text.len() > SCRIPTS_BYTES_MAX {
            let is_evictable =
                |cached: &CachedScript| cached.origin != Origin::Loaded && cached.origin <= origin;
            let others = texts.by_digits.iter().filter(|(_, cached)| is_evictable(cached));
            let oldest =
                others.min_by_key(|(_, cached)| (cached.origin, cached.stamp)).map(|(digits, _)| *digits);
            let Some(oldest) = oldest else {
                // A script of EVAL runs even if it is not cached.
                let full = "ERR Too many loaded scripts: remove them with SCRIPT FLUSH";
                return if origin == Origin::Loaded { Err(Fail::fixed(full)) } else { Ok(()) };
            };
            if let Some(evicted) = texts.by_digits.remove(&oldest) {
                texts.bytes -= evicted.text.len();
            }
        }
        texts.bytes += text.len();
        texts.by_digits.insert(digits, CachedScript { text: text.into(), origin, stamp });
        Ok(())
    }

    /// Removes all scripts.
    pub(crate) fn flush(&self) {
        let mut texts = self.texts();
        *texts = Texts { stamps: texts.stamps, ..Texts::default() };
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// The number of scripts, and their bytes.
    pub(crate) fn count(&self) -> (usize, usize) {
        let texts = self.texts();
        (texts.by_digits.len(), texts.bytes)
    }

    /// Grows with every change of the libraries.
    pub(crate) fn library_changes(&self) -> u64 {
        self.library_changes.load(Ordering::Acquire)
    }

    /// The current libraries.
    pub(crate) fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the libraries.
    pub(crate) fn set_libraries(&self, libraries: Libraries) {
        *self.libraries.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(libraries);
        self.library_changes.fetch_add(1, Ordering::Release);
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(n: usize) -> Digits {
        crate::families::scripting::sha1_hex(&n.to_le_bytes())
    }

    #[test]
    fn the_oldest_evaluated_script_is_evicted_and_loaded_ones_never() {
        let scripts = Scripts::default();
        scripts.keep(digits(0), b"loaded", Origin::Loaded).unwrap();
        for n in 1..=SCRIPTS_MAX {
            scripts.keep(digits(n), b"evaluated", Origin::Evaluated).unwrap();
        }
        assert_eq!(scripts.count().0, SCRIPTS_MAX);
        assert!(scripts.has(&digits(0)) && !scripts.has(&digits(1)) && scripts.has(&digits(2)));
        scripts.flush();
        assert_eq!((scripts.count(), scripts.flushes()), ((0, 0), 1));
    }

    #[test]
    fn scripts_of_readers_evict_no_others() {
        let scripts = Scripts::default();
        scripts.keep(digits(0), b"evaluated", Origin::Evaluated).unwrap();
        for n in 1..=2 * SCRIPTS_MAX {
            scripts.keep(digits(n), b"of a reader", Origin::Reader).unwrap();
        }
        assert_eq!(scripts.count().0, SCRIPTS_MAX);
        assert!(scripts.has(&digits(0)) && scripts.has(&digits(2 * SCRIPTS_MAX)));
        for n in 1..SCRIPTS_MAX {
            scripts.keep(digits(2 * SCRIPTS_MAX + n), b"evaluated", Origin::Evaluated).unwrap();
        }
        assert!(scripts.has(&digits(0)), "scripts of readers are evicted first");
        scripts.keep(digits(1), b"of a reader", Origin::Reader).unwrap();
        assert!(!scripts.has(&digits(1)) && scripts.count().0 == SCRIPTS_MAX);
    }

    #[test]
    fn loading_is_an_error_when_only_loaded_scripts_are_left() {
        let scripts = Scripts::default();
        let large = vec![b' '; SCRIPTS_BYTES_MAX - 1];
        scripts.keep(digits(0), &large, Origin::Loaded).unwrap();
        assert!(
            scripts
                .keep(digits(1), b"xx", Origin::Loaded)
                .is_err_and(|fail| fail.line().contains("Too many loaded scripts"))
        );
        scripts.keep(digits(1), b"xx", Origin::Evaluated).unwrap();
        assert!(!scripts.has(&digits(1)), "it runs, and is not cached");
    }
}

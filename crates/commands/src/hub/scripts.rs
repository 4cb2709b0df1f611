//! Scripts and libraries of functions, as all shards share them: their texts, and how often they were flushed or killed.
//! It touches nothing but memory.
//!
//! Each thread compiles what it runs for itself, and looks here whether that still holds.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bounds::{SCRIPTS_BYTES_MAX, SCRIPTS_MAX};
use crate::ctx::Rights;
use crate::errors::Fail;
use crate::families::scripting::{Digits, Libraries};

/// Scripts and libraries of functions.
pub struct Scripts {
    /// Tells the states of one hub from those of another that the same thread served.
    pub(crate) id: u64,
    texts: Mutex<Texts>,
    flushes: AtomicU64,
    libraries: Mutex<Arc<Libraries>>,
    library_changes: AtomicU64,
    /// Held while libraries change and are kept.
    pub(crate) changing: Mutex<()>,
    /// Scripts that run.
    pub(crate) scripts: Runs,
    /// Functions that run.
    pub(crate) functions: Runs,
}

/// How many run, and how often all of them were to be killed.
#[derive(Default)]
pub(crate) struct Runs {
    running: AtomicUsize,
    pub(crate) kills: Arc<AtomicU64>,
}

impl Runs {
    /// Counts one more for as long as the guard lives.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// Whether any runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Kills all that run; false when none does.
    pub(crate) fn kill(&self) -> bool {
        let runs = self.is_running();
        if runs {
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
        runs
    }
}

/// A script that runs.
pub(crate) struct Entered<'a>(&'a Runs);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Texts {
    by_digits: HashMap<Digits, Kept, RandomState>,
    bytes: usize,
    /// Grows with every text: the lowest one is the oldest.
    stamps: u64,
}

struct Kept {
    text: Arc<[u8]>,
    origin: Origin,
    stamp: u64,
}

/// How a script came, from those that make room first to those that never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// With EVAL_RO, of a client that may only read. It makes room for every other script, and takes none from them.
    Reader,
    /// With EVAL.
    Evaluated,
    /// With SCRIPT LOAD. It is kept until SCRIPT FLUSH.
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
        self.texts().by_digits.get(digits).map(|kept| Arc::clone(&kept.text))
    }

    /// Whether there is such a script.
    pub(crate) fn has(&self, digits: &[u8]) -> bool {
        let digits = Digits::try_from(digits.to_ascii_lowercase());
        digits.is_ok_and(|digits| self.texts().by_digits.contains_key(&digits))
    }

    /// Keeps a text, if need be in the place of others whose origin is no better.
    pub(crate) fn keep(&self, digits: Digits, text: &[u8], origin: Origin) -> Result<(), Fail> {
        let mut texts = self.texts();
        texts.stamps += 1;
        let stamp = texts.stamps;
        if let Some(kept) = texts.by_digits.get_mut(&digits) {
            kept.origin = kept.origin.max(origin);
            // Who may only read does not decide which scripts of others are the oldest.
            if origin != Origin::Reader || kept.origin == Origin::Reader {
                kept.stamp = stamp;
            }
            return Ok(());
        }
        while texts.by_digits.len() >= SCRIPTS_MAX || texts.bytes + text.len() > SCRIPTS_BYTES_MAX {
            let may_go = |kept: &Kept| kept.origin != Origin::Loaded && kept.origin <= origin;
            let others = texts.by_digits.iter().filter(|(_, kept)| may_go(kept));
            let oldest = others.min_by_key(|(_, kept)| (kept.origin, kept.stamp)).map(|(digits, _)| *digits);
            let Some(oldest) = oldest else {
                // A script that came with EVAL runs all the same.
                let full =
                    "ERR There is no room for more scripts: SCRIPT FLUSH forgets those that are loaded";
                return if origin == Origin::Loaded { Err(Fail::fixed(full)) } else { Ok(()) };
            };
            if let Some(gone) = texts.by_digits.remove(&oldest) {
                texts.bytes -= gone.text.len();
            }
        }
        texts.bytes += text.len();
        texts.by_digits.insert(digits, Kept { text: text.into(), origin, stamp });
        Ok(())
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        let mut texts = self.texts();
        *texts = Texts { stamps: texts.stamps, ..Texts::default() };
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// How many scripts there are, and their bytes.
    pub(crate) fn count(&self) -> (usize, usize) {
        let texts = self.texts();
        (texts.by_digits.len(), texts.bytes)
    }

    /// Grows with every change of the libraries.
    pub(crate) fn library_changes(&self) -> u64 {
        self.library_changes.load(Ordering::Acquire)
    }

    /// The libraries as they are now.
    pub(crate) fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other libraries in their place.
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
    fn the_oldest_evaluated_script_makes_room_and_loaded_ones_never() {
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
    fn who_may_only_read_takes_no_room_from_others() {
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
        assert!(scripts.has(&digits(0)), "those of readers make room first");
        scripts.keep(digits(1), b"of a reader", Origin::Reader).unwrap();
        assert!(!scripts.has(&digits(1)) && scripts.count().0 == SCRIPTS_MAX);
    }

    #[test]
    fn loading_is_refused_when_only_loaded_ones_are_left() {
        let scripts = Scripts::default();
        let large = vec![b' '; SCRIPTS_BYTES_MAX - 1];
        scripts.keep(digits(0), &large, Origin::Loaded).unwrap();
        assert!(
            scripts.keep(digits(1), b"xx", Origin::Loaded).is_err_and(|fail| fail.line().contains("no room"))
        );
        scripts.keep(digits(1), b"xx", Origin::Evaluated).unwrap();
        assert!(!scripts.has(&digits(1)), "it ran, and is not remembered");
    }
}

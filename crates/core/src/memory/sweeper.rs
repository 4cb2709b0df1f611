//! A thread that reclaims expired keys periodically, for stores that are seldom used.
//!
//! It holds the store weakly and waits on a channel whose sender is owned by the store: dropping the store ends the thread, and
//! a process does not wait for it at exit.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;

pub(super) struct Sweeper {
    /// Dropped to end the thread.
    _end: Sender<()>,
}

impl Sweeper {
    pub(super) fn start(inner: &Arc<Inner>, every: Duration) -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let inner: Weak<Inner> = Arc::downgrade(inner);
        // Without a thread the keys are still reclaimed as others are used.
        let _ = std::thread::Builder::new().name("keystead-sweeper".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
                match inner.upgrade() {
                    Some(inner) => inner.sweep(),
                    None => break,
                }
            }
        });
        Sweeper { _end: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Change, Key, ManualClock, MemoryOptions, MemoryStore, Millis, Stopwatch, StoreExt, Ttl, step_fn,
    };

    #[test]
    fn it_reclaims_by_itself_and_ends_with_the_store() {
        let clock = ManualClock::at(Millis(1));
        let options = MemoryOptions::default().clock(clock.clone()).sweep_every(Duration::from_millis(1));
        let store = MemoryStore::open(options).unwrap();
        let put = step_fn(|_: Option<&u8>, _| Change::Put(1, Ttl::Ms(10), ()));
        store.apply_sync(&Key::new("a").unwrap(), &put).unwrap();
        clock.advance_ms(1000);
        let watch = Stopwatch::start();
        while !store.is_empty() {
            assert!(watch.elapsed() < Duration::from_secs(30), "nothing was swept");
            std::thread::yield_now();
        }
        let weak = Arc::downgrade(&store.inner);
        drop(store);
        while weak.strong_count() > 0 {
            assert!(watch.elapsed() < Duration::from_secs(60), "the sweeper keeps the store alive");
            std::thread::yield_now();
        }
    }
}

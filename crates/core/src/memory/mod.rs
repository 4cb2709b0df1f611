//! [`MemoryStore`], the reference implementation that every other store is compared with.
//!
//! Sharded by key, with a lock per shard that is held briefly; states are native values and are changed in place, so an apply
//! on an existing key allocates nothing. Whether a key is expired is decided on access, by the injected clock; reclaiming and
//! evicting only free memory. All data is lost when the last clone is dropped.

mod shard;
mod sweeper;
mod together;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::bounds::{KEY_BYTES_MAX, MEMORY_SHARDS_MAX, STATE_BYTES_MAX};
use crate::clock::{Clock, SystemClock};
use crate::erased::ErasedStep;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::store::{Capabilities, Store, StoreFuture};
use crate::together::Together;

use shard::Shard;
use sweeper::Sweeper;

/// Parts of the index over all shards together: enough that growing one of them at ten million keys is not noticeable.
const INDEX_PARTS: usize = 1024;

/// Spin-loop hints before a contended lock is tried again: one or a few microseconds.
const PAUSES: usize = 128;

/// How often the lock is tried before the thread sleeps.
const TRIES: usize = 16;

/// Options of a [`MemoryStore`].
#[derive(Clone)]
pub struct MemoryOptions {
    shards: usize,
    max_keys: Option<usize>,
    clock: Arc<dyn Clock>,
    sweep_every: Option<Duration>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { shards: 64, max_keys: None, clock: Arc::new(SystemClock), sweep_every: None }
    }
}

impl MemoryOptions {
    /// Number of shards, a power of two (default 64): how many keys can be changed at the same time.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Maximum number of keys (default: unlimited). Beyond it a key that was not used recently is evicted, so a flood of
    /// random keys cannot exhaust memory. The number is divided evenly among the shards.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = Some(max_keys);
        self
    }

    /// The clock (default: the system's).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Reclaims expired keys in the background at this interval (default: only as keys are used). The sweeper is a thread
    /// that ends with the store and does not keep the process alive.
    #[must_use]
    pub fn sweep_every(mut self, every: Duration) -> Self {
        self.sweep_every = Some(every);
        self
    }
}

/// A store in this process's memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
    /// Ends with the last clone.
    _sweeper: Option<Arc<Sweeper>>,
}

struct Inner {
    hasher: RandomState,
    shards: Box<[Padded]>,
    clock: Arc<dyn Clock>,
    closed: AtomicBool,
}

/// A shard on its own cache lines, to avoid false sharing.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl MemoryStore {
    /// A store with the default options.
    #[must_use]
    pub fn new() -> Self {
        MemoryStore::build(MemoryOptions::default(), 64)
    }

    /// A store with these options.
    ///
    /// # Errors
    /// `config_invalid` when the number of shards is not a power of two or out of range, or a bound is zero.
    pub fn open(options: MemoryOptions) -> Result<Self> {
        let invalid = |message: String| Err(Error::new(Code::ConfigInvalid, message));
        let shards = options.shards;
        if !shards.is_power_of_two() || shards > MEMORY_SHARDS_MAX {
            return invalid(format!(
                "shards must be a power of two from 1 to {MEMORY_SHARDS_MAX}, not {shards}"
            ));
        }
        if options.max_keys == Some(0) {
            return invalid("max_keys must be at least 1".into());
        }
        if options.sweep_every.is_some_and(|every| every.is_zero()) {
            return invalid("the sweep interval must be longer than zero".into());
        }
        // A shard that may hold no key at all could not serve its share.
        let shards = options.max_keys.map_or(shards, |max| shards.min(1 << max.ilog2()));
        Ok(MemoryStore::build(options, shards))
    }

    fn build(options: MemoryOptions, shards: usize) -> Self {
        let hasher = RandomState::default();
        let share = |index: usize| match options.max_keys {
            Some(max) => max / shards + usize::from(index < max % shards),
            None => usize::MAX,
        };
        let parts = (INDEX_PARTS / shards).max(1);
        let inner = Arc::new(Inner {
            shards: (0..shards)
                .map(|i| Padded(Mutex::new(Shard::new(parts, hasher.clone(), share(i)))))
                .collect(),
            hasher,
            clock: options.clock,
            closed: AtomicBool::new(false),
        });
        let sweeper = options.sweep_every.map(|every| Arc::new(Sweeper::start(&inner, every)));
        MemoryStore { inner, _sweeper: sweeper }
    }

    /// Number of keys in memory, including those that are expired but not yet reclaimed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether no key is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reclaims every expired key, one shard at a time.
    pub fn sweep(&self) {
        self.inner.sweep();
    }

    #[inline]
    fn shard(&self, key: &Key) -> (u64, &Padded) {
        let (hash, index) = self.shard_index(key);
        (hash, &self.inner.shards[index])
    }

    #[inline]
    fn shard_index(&self, key: &Key) -> (u64, usize) {
        let hash = self.inner.hasher.hash_one(key.as_bytes());
        // The upper bits: the shard's own index uses the middle and lower ones.
        (hash, (hash >> 48) as usize & (self.inner.shards.len() - 1))
    }

    #[inline]
    fn check_open(&self) -> Result<()> {
        match self.inner.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(closed()),
        }
    }
}

impl Inner {
    fn sweep(&self) {
        for shard in &self.shards {
            // In slices, so that the lock is never held for long.
            loop {
                let mut shard = lock(shard);
                if !shard.reclaim_slice(self.clock.now()) {
                    break;
                }
            }
        }
    }
}

#[cold]
fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the store is closed")
}

#[inline]
fn lock(shard: &Padded) -> MutexGuard<'_, Shard> {
    match try_lock(shard) {
        Some(shard) => shard,
        None => wait(shard),
    }
}

/// A step that panics has changed nothing yet, so the shard behind a poisoned lock is consistent.
#[inline]
fn try_lock(shard: &Padded) -> Option<MutexGuard<'_, Shard>> {
    match shard.0.try_lock() {
        Ok(shard) => Some(shard),
        Err(TryLockError::Poisoned(shard)) => Some(shard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a shard that another thread has locked. It is held for less time than a cache line takes to move between cores,
/// so retrying at once, or sleeping at once, slows down everybody: spin first, so that the owner can finish.
#[cold]
#[inline(never)]
fn wait(shard: &Padded) -> MutexGuard<'_, Shard> {
    for _ in 0..TRIES {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        if let Some(shard) = try_lock(shard) {
            return shard;
        }
    }
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for MemoryStore {
    fn scheme(&self) -> &'static str {
        "memory"
    }

    #[inline]
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: false,
            shared: false,
            sync: true,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    // Inlined for the same reason as `Shard::apply`.
    #[inline(always)]
    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        if let Err(closed) = self.check_open() {
            return StoreFuture::Ready(Err(closed));
        }
        let clock = &*self.inner.clock;
        let now = clock.now();
        let (hash, shard) = self.shard(key);
        let mut shard = lock(shard);
        let now = shard.in_order(now, clock);
        StoreFuture::Ready(shard.apply(hash, key.as_bytes(), step, now))
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::Ready(self.check_open().map(|()| {
            let (hash, shard) = self.shard(key);
            let (mut shard, clock) = (lock(shard), &*self.inner.clock);
            let now = shard.in_order(clock.now(), clock);
            shard.reset(hash, key.as_bytes(), now)
        }))
    }

    fn together(&self) -> Option<&dyn Together> {
        Some(self)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.inner.closed.store(true, Ordering::Release);
        for shard in &self.inner.shards {
            lock(shard).clear();
        }
        StoreFuture::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, ManualClock, Millis, StoreExt, Ttl, step_fn};

    fn count(ttl: Ttl) -> impl crate::Step<State = u64, Reply = u64> {
        step_fn(move |n: Option<&u64>, _| {
            let n = n.copied().unwrap_or(0) + 1;
            Change::Put(n, ttl, n)
        })
    }

    fn key(n: usize) -> Key {
        Key::new(format!("k{n}")).unwrap()
    }

    #[test]
    fn invalid_options_are_rejected_with_the_reason() {
        for (options, word) in [
            (MemoryOptions::default().shards(0), "power of two"),
            (MemoryOptions::default().shards(3), "power of two"),
            (MemoryOptions::default().shards(8192), "4096"),
            (MemoryOptions::default().max_keys(0), "max_keys"),
            (MemoryOptions::default().sweep_every(Duration::ZERO), "interval"),
        ] {
            let Err(error) = MemoryStore::open(options) else { panic!("{word}: must be rejected") };
            assert_eq!(error.code(), Code::ConfigInvalid);
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn max_keys_is_never_exceeded_and_used_keys_survive_a_flood() {
        for max in [1, 2, 7, 100, 1000] {
            let store = MemoryStore::open(MemoryOptions::default().max_keys(max)).unwrap();
            for n in 0..10_000 {
                store.apply_sync(&key(n), &count(Ttl::Never)).unwrap();
                assert!(store.len() <= max);
            }
        }
        let store = MemoryStore::open(MemoryOptions::default().shards(1).max_keys(100)).unwrap();
        for n in 0..10_000 {
            let hot = store.apply_sync(&key(0), &count(Ttl::Never)).unwrap();
            assert_eq!(hot, n as u64 + 1, "a key in use is not evicted");
            store.apply_sync(&key(n + 1), &count(Ttl::Never)).unwrap();
        }
    }

    /// The cached id of the last key found must not outlive that key: the id may have been reused by then.
    #[test]
    fn a_reused_id_is_not_taken_for_the_key_used_last() {
        let clock = ManualClock::at(Millis(1000));
        let store = MemoryStore::open(MemoryOptions::default().shards(1).clock(clock.clone())).unwrap();
        for n in 0..100 {
            for again in 1..=3 {
                assert_eq!(store.apply_sync(&key(n), &count(Ttl::Ms(50))).unwrap(), again);
            }
            match n % 3 {
                0 => assert!(matches!(store.reset(&key(n)), StoreFuture::Ready(Ok(true)))),
                1 => store.apply_sync(&key(n), &step_fn(|_: Option<&u64>, _| Change::Delete(()))).unwrap(),
                _ => {
                    clock.advance_ms(100);
                    store.sweep();
                }
            }
            assert!(store.is_empty(), "so that the next key reuses its id");
            let seen = store.apply_sync(&key(n), &step_fn(|n: Option<&u64>, _| Change::Keep(n.copied())));
            assert_eq!(seen.unwrap(), None);
        }
    }

    #[test]
    fn expired_keys_are_reclaimed_as_others_are_used() {
        let clock = ManualClock::at(Millis(1_000_000));
        let store = MemoryStore::open(MemoryOptions::default().shards(1).clock(clock.clone())).unwrap();
        for n in 0..10_000 {
            store.apply_sync(&key(n), &count(Ttl::Ms(1000))).unwrap();
        }
        clock.advance_ms(2000);
        assert_eq!(store.len(), 10_000);
        for _ in 0..10_000 {
            store.apply_sync(&key(0), &count(Ttl::Ms(1000))).unwrap();
        }
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn a_sweep_reclaims_all_expired_keys() {
        let clock = ManualClock::at(Millis(5));
        let store = MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap();
        for n in 0..5000 {
            store.apply_sync(&key(n), &count(Ttl::Ms(if n % 2 == 0 { 10 } else { 100_000 }))).unwrap();
        }
        clock.advance_ms(1000);
        store.sweep();
        assert_eq!(store.len(), 2500);
    }

    /// A thread that waited for the lock must not use a time from before it waited.
    #[test]
    fn the_steps_of_a_key_see_time_in_their_order() {
        struct Counting(std::sync::atomic::AtomicU64);
        impl Clock for Counting {
            fn now(&self) -> Millis {
                Millis(self.0.fetch_add(1, Ordering::SeqCst))
            }
        }
        let clock = Counting(1000.into());
        let store = MemoryStore::open(MemoryOptions::default().clock(clock)).unwrap();
        let newest = step_fn(|last: Option<&u64>, now: Millis| {
            Change::Put(now.0, Ttl::Never, last.is_none_or(|last| *last < now.0))
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (store, newest) = (store.clone(), newest.clone());
                scope.spawn(move || {
                    (0..20_000).for_each(|_| assert!(store.apply_sync(&key(1), &newest).unwrap()));
                });
            }
        });
    }

    #[test]
    fn a_step_that_panics_changes_nothing_and_blocks_nobody() {
        let store = MemoryStore::new();
        store.apply_sync(&key(1), &count(Ttl::Never)).unwrap();
        let broken = step_fn(|_: Option<&u64>, _| -> Change<u64, ()> { panic!("a bug in a feature") });
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.apply_sync(&key(1), &broken)));
        assert!(outcome.is_err());
        assert_eq!(store.apply_sync(&key(1), &count(Ttl::Never)).unwrap(), 2);
    }
}

//! Keys that many steps of this process wait for. Their steps run in the process, and one swap persists the result, which costs the
//! server less than a script that runs them all. A swap that loses against another process is followed by that script, which cannot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::{ErasedStep, Key, Result};

use super::backend::RedisBackend;
use crate::bounds::HOT_KEYS_MAX;
use crate::cas::{Attempt, CasStore};

/// Whether a batch of a key is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    None,
    UnderWay,
}

pub(super) struct HotKeys {
    /// A handle of its own: a handle has one swap of a key under way.
    cas: CasStore<RedisBackend>,
    keys: Mutex<HashMap<Key, Batch>>,
    count: AtomicUsize,
}

impl HotKeys {
    pub(super) fn new(cas: CasStore<RedisBackend>) -> HotKeys {
        HotKeys { cas, keys: Mutex::default(), count: AtomicUsize::new(0) }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.lock().contains_key(key)
    }

    /// At the bound all others are forgotten: those that are still hot come again, and those that are not would stay.
    pub(super) fn insert(&self, key: &Key) {
        let mut keys = self.lock();
        if keys.len() >= HOT_KEYS_MAX {
            keys.retain(|_, batch| *batch == Batch::UnderWay);
        }
        keys.entry(key.clone()).or_insert(Batch::None);
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    /// A key with a batch under way stays: it has no other meanwhile.
    pub(super) fn remove(&self, key: &Key) {
        let mut keys = self.lock();
        if keys.get(key) == Some(&Batch::None) {
            keys.remove(key);
        }
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    /// Runs steps on a hot key, in one attempt. The key of an attempt that lost is hot no longer.
    pub(super) async fn attempt(&self, key: &Key, steps: Vec<Box<dyn ErasedStep>>) -> Result<Attempt> {
        let Some(under_way) = UnderWay::begin(self, key) else { return Ok(Attempt::Lost) };
        let attempt = self.cas.attempt(key, steps).await;
        drop(under_way);
        if !matches!(attempt, Ok(Attempt::Done(_))) {
            self.remove(key);
        }
        attempt
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Batch>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch that is under way, until it is dropped.
struct UnderWay<'a> {
    hot: &'a HotKeys,
    key: &'a Key,
}

impl UnderWay<'_> {
    fn begin<'a>(hot: &'a HotKeys, key: &'a Key) -> Option<UnderWay<'a>> {
        let mut keys = hot.lock();
        let batch = keys.get_mut(key).filter(|batch| **batch == Batch::None)?;
        *batch = Batch::UnderWay;
        Some(UnderWay { hot, key })
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.hot.lock().get_mut(self.key) {
            *batch = Batch::None;
        }
    }
}

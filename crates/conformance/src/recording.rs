//! A store that notes which keys were used, so that they can be removed from a server that belongs to somebody else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Capabilities, Code, ErasedStep, Error, Key, Result, Store, StoreFuture, Together};
use tokio::task::JoinSet;

/// Removals that are under way at a time.
const REMOVALS: usize = 32;

/// The keys that were used. Clones share them.
#[derive(Clone, Default)]
pub struct UsedKeys(Arc<Mutex<HashSet<Key>>>);

impl UsedKeys {
    /// Notes a key.
    pub fn add(&self, key: &Key) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains(key) {
            keys.insert(key.clone());
        }
    }

    /// Removes all of them from `store` and forgets them. Returns how many had a state.
    ///
    /// A store hides an expired state rather than removing it, so its clock should show the earliest time.
    ///
    /// # Errors
    /// The first error of the store; the other keys are removed all the same.
    pub async fn remove_from(&self, store: &Arc<dyn Store>) -> Result<usize> {
        let keys = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut keys, mut tasks) = (keys.into_iter(), JoinSet::new());
        let (mut removed, mut failed) = (0, None);
        loop {
            while tasks.len() < REMOVALS
                && let Some(key) = keys.next()
            {
                let store = Arc::clone(store);
                tasks.spawn(async move { store.reset(&key).await });
            }
            match tasks.join_next().await {
                None => break,
                Some(Ok(Ok(existed))) => removed += usize::from(existed),
                // A key beyond the store's bound was never stored.
                Some(Ok(Err(error))) if error.code() == Code::TooLarge => {}
                Some(Ok(Err(error))) => failed = failed.or(Some(error)),
                Some(Err(error)) => {
                    let ended = Error::unknown(Code::Internal, "a removal ended early").with_source(error);
                    failed = failed.or(Some(ended));
                }
            }
        }
        failed.map_or(Ok(removed), Err)
    }
}

/// A store, and the keys that were used through it.
pub struct Recording {
    store: Arc<dyn Store>,
    keys: UsedKeys,
}

impl Recording {
    /// The same store, noting keys in `keys`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, keys: UsedKeys) -> Self {
        Recording { store, keys }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Recording {
    fn scheme(&self) -> &'static str {
        self.store.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        self.keys.add(key);
        self.store.apply_erased(key, step)
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        self.store.reset(key)
    }

    /// None, because it would change keys that are not noted.
    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis, StoreExt, Ttl};

    use super::*;
    use crate::steps::put;

    #[tokio::test]
    async fn what_was_used_is_removed_also_if_it_had_expired() {
        let clock = ManualClock::at(Millis(1000));
        let store: Arc<dyn Store> =
            Arc::new(MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap());
        let keys = UsedKeys::default();
        let recording = Recording::new(Arc::clone(&store), keys.clone());
        let [a, b, other] = ["a", "b", "other"].map(|name| Key::new(name).unwrap());
        recording.apply(&a, &put(1u64, Ttl::Never)).await.unwrap();
        recording.apply(&b, &put(1u64, Ttl::Ms(5))).await.unwrap();
        store.apply(&other, &put(1u64, Ttl::Never)).await.unwrap();
        clock.set(Millis(0));
        assert_eq!(keys.remove_from(&store).await.unwrap(), 2);
        assert_eq!(keys.remove_from(&store).await.unwrap(), 0);
        assert_eq!(store.get::<u64>(&a).await.unwrap(), None);
        assert_eq!(store.get::<u64>(&other).await.unwrap(), Some(1));
    }
}

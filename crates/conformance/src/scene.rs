//! The arguments of a case: an open store, its clock, and keys of its own.

use std::future::Future;
use std::sync::Arc;

use keystead_core::bounds::KEY_BYTES_MAX;
use keystead_core::{Clock, Key, ManualClock, Millis, State, Step, Store, StoreExt, Ttl};
use tokio::sync::Barrier;

use crate::failure::{Checked, Failure, expect_eq};
use crate::setup::{Opener, Setup};
use crate::steps;

/// One store in one run of one case.
pub struct Scene {
    setup: Setup,
    opener: Opener,
    store: Arc<dyn Store>,
    max_keys: Option<usize>,
}

impl Scene {
    /// Opens the store for one case. `max_keys` is the bound of a bounded store.
    ///
    /// # Errors
    /// When it does not open.
    pub async fn open(setup: Setup, opener: Opener, max_keys: Option<usize>) -> Checked<Scene> {
        let store = opener.open(setup.clone()).await.map_err(Failure::new)?;
        Ok(Scene { setup, opener, store, max_keys })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// A second handle on the same data.
    ///
    /// # Errors
    /// When it does not open.
    pub async fn open_again(&self) -> Checked<Arc<dyn Store>> {
        self.opener.open(self.setup.clone()).await.map_err(Failure::new)
    }

    /// The clock of the store.
    #[must_use]
    pub fn clock(&self) -> ManualClock {
        self.setup.clock()
    }

    /// The time of that clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.setup.clock().now()
    }

    /// The most keys that the store keeps, if it is bounded.
    #[must_use]
    pub fn max_keys(&self) -> Option<usize> {
        self.max_keys
    }

    /// The prefix of the keys of this case.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.setup.prefix()
    }

    /// A key of this case.
    ///
    /// # Errors
    /// When the name is empty or too long.
    pub fn key(&self, name: impl AsRef<[u8]>) -> Checked<Key> {
        Ok(Key::join(self.setup.prefix(), name)?)
    }

    /// A key of this case of exactly `len` bytes that ends with `end`.
    ///
    /// # Errors
    /// When the prefix and the end do not fit.
    pub fn key_of_len(&self, len: usize, end: &[u8]) -> Checked<Key> {
        let begun = self.setup.prefix().len() + 1;
        let fill = len.min(KEY_BYTES_MAX).saturating_sub(begun + end.len());
        let mut name = vec![b'x'; fill];
        name.extend_from_slice(end);
        self.key(name)
    }

    /// Applies a step.
    ///
    /// # Errors
    /// The store's error.
    pub async fn apply<S: Step>(&self, key: &Key, step: &S) -> Checked<S::Reply> {
        Ok(self.store.apply(key, step).await?)
    }

    /// Puts a state by a step.
    ///
    /// # Errors
    /// The store's error.
    pub async fn put<T: State + Sync>(&self, key: &Key, value: T, ttl: Ttl) -> Checked {
        self.apply(key, &steps::put(value, ttl)).await
    }

    /// Reads a state by a step.
    ///
    /// # Errors
    /// The store's error.
    pub async fn get<T: State>(&self, key: &Key) -> Checked<Option<T>> {
        Ok(self.store.get(key).await?)
    }

    /// Removes a key. Returns whether it existed.
    ///
    /// # Errors
    /// The store's error.
    pub async fn reset(&self, key: &Key) -> Checked<bool> {
        Ok(self.store.reset(key).await?)
    }

    /// Passes if the key has this count, or none.
    ///
    /// # Errors
    /// With the actual count, or the store's error.
    pub async fn expect_count(&self, what: &str, key: &Key, want: Option<u64>) -> Checked {
        expect_eq(what, self.get::<u64>(key).await?, want)
    }
}

/// Runs `n` tasks that all begin at the same time, and returns their results in order.
///
/// # Errors
/// The first failure among them.
pub async fn together<T, F>(n: usize, task: impl Fn(usize) -> F) -> Checked<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(n));
    let mut tasks = Vec::with_capacity(n);
    for i in 0..n {
        let (start, task) = (Arc::clone(&start), task(i));
        tasks.push(tokio::spawn(async move {
            start.wait().await;
            task.await
        }));
    }
    let mut results = Vec::with_capacity(n);
    for task in tasks {
        results.push(task.await??);
    }
    Ok(results)
}

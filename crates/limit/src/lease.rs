//! Leases of a `concurrency` policy that release themselves exactly once, however the work ends.
//!
//! The id is chosen and the guard is armed before the store is called: a future that is dropped in the middle of the call still
//! releases its slot.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use keystead_core::{Key, Outcome, Result, Store, StoreExt};

use crate::bounds::WHOLE_MAX;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::strategy::{Ask, Release};

/// Generates ids for leases. They must be unique among all processes that share a store.
#[derive(Debug)]
pub struct LeaseIds {
    seed: Option<RandomState>,
    node: u64,
    count: AtomicU64,
}

impl Default for LeaseIds {
    /// Hashes of a counter with a random seed.
    fn default() -> Self {
        LeaseIds { seed: Some(RandomState::new()), node: 0, count: AtomicU64::new(0) }
    }
}

impl LeaseIds {
    /// A plain counter that begins with the number of a node, up to 2^21: for tests and replays, and where there is no random source
    /// (wasm32).
    #[must_use]
    pub fn of_node(node: u32) -> Self {
        LeaseIds { seed: None, node: u64::from(node) << 32, count: AtomicU64::new(0) }
    }

    /// The next id, from 1 to 2^53 - 1.
    pub fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let id = self.seed.as_ref().map_or(self.node + count, |seed| seed.hash_one(count));
        (id & WHOLE_MAX).max(1)
    }
}

/// A slot that is held. Dropping it releases the slot.
///
/// ```
/// use std::sync::Arc;
///
/// use keystead_limit::strategy::Concurrency;
/// use keystead_limit::{FailMode, Lease, Limiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let limiter = Arc::new(Limiter::in_memory(Concurrency::new(1, 30_000)?, FailMode::Closed));
/// let (decision, lease) = Lease::acquire(&limiter, "export").await?;
/// assert!(decision.allowed);
/// assert!(!Lease::acquire(&limiter, "export").await?.0.allowed, "the slot is taken");
/// drop(lease);
/// assert!(Lease::acquire(&limiter, "export").await?.0.allowed);
/// # Ok::<(), keystead_core::Error>(())
/// # }).unwrap();
/// ```
pub struct Lease<S: Store + 'static> {
    limiter: Arc<Limiter<S>>,
    key: Key,
    lease_id: u64,
    held: bool,
}

impl<S: Store + 'static> Lease<S> {
    /// Requests a slot. There is a lease exactly if the decision is to allow.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn acquire(
        limiter: &Arc<Limiter<S>>,
        key: impl AsRef<[u8]>,
    ) -> Result<(Decision, Option<Self>)> {
        let key = limiter.key(key.as_ref())?;
        let ask = limiter.ask(1)?;
        let (decision, _, lease) = Lease::ask(limiter, key, ask).await?;
        Ok((decision, lease))
    }

    pub(crate) async fn ask(
        limiter: &Arc<Limiter<S>>,
        key: Key,
        ask: Ask,
    ) -> Result<(Decision, keystead_core::Millis, Option<Self>)> {
        let lease = Lease { limiter: limiter.clone(), key, lease_id: ask.lease_id, held: true };
        let result = limiter.run(&lease.key, ask, None).await;
        let keep = match &result {
            Ok((decision, _)) => decision.lease_id.is_some(),
            // The outcome is unknown and the slot may be held: dropping the lease releases it.
            Err(error) => error.outcome() == Outcome::Unknown,
        };
        let granted = result.is_ok() && keep;
        let lease = if keep { Some(lease) } else { lease.forget() };
        let (decision, now) = limiter.settled(result)?;
        Ok((decision, now, lease.filter(|_| granted)))
    }

    /// Extends the lease to `leaseMs` from now. Returns whether that was granted: a lease that has expired is acquired anew, if a slot
    /// is free.
    ///
    /// # Errors
    /// The store's error.
    pub async fn renew(&self) -> Result<bool> {
        let ask = Ask { cost: 1, lease_id: self.lease_id };
        Ok(self.limiter.run(&self.key, ask, None).await?.0.allowed)
    }

    /// The id of the lease.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.lease_id
    }

    /// Releases the slot and waits for the store. Returns whether it was still held.
    ///
    /// # Errors
    /// The store's error; the lease then expires.
    pub async fn release(mut self) -> Result<bool> {
        let result = self.limiter.apply(&self.key, &Release { lease_id: self.lease_id }).await;
        self.held = false;
        result
    }

    /// Disarms the guard: nothing is held, so nothing is released.
    fn forget(mut self) -> Option<Self> {
        self.held = false;
        None
    }
}

impl<S: Store + 'static> Drop for Lease<S> {
    fn drop(&mut self) {
        if !std::mem::replace(&mut self.held, false) {
            return;
        }
        let (limiter, key, lease_id) = (self.limiter.clone(), self.key.clone(), self.lease_id);
        let spawn = limiter.spawner().cloned();
        let sync = limiter.store().capabilities().sync;
        let release = async move {
            // There is no caller to report an error to; a lease that could not be released expires.
            let _ = limiter.store().apply(&key, &Release { lease_id }).await;
        };
        match spawn {
            Some(spawn) if !sync => spawn(Box::pin(release)),
            // Without a spawner, the call to an asynchronous store is polled only once.
            _ => drop(pin!(release).poll(&mut Context::from_waker(Waker::noop()))),
        }
    }
}

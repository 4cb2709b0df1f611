//! What decides a recorded request: the policy in memory, or on a store whose clock shows the time of each request. Touches that store.

use std::sync::Arc;

use keystead_core::{Code, Error, ManualClock, Millis, Result, Store};
use keystead_limit::lease::LeaseIds;
use keystead_limit::{Decision, FailMode, Limiter, Policy, Replay};
use tokio::runtime::Runtime;

use super::super::store::{Target, random_prefix, runtime};
use crate::failure::failure;

/// A policy, and the state of a replay so far.
pub(super) enum Decider {
    Memory(Replay),
    Store(OnStore),
}

impl Decider {
    /// A policy that decides in memory, or on a store.
    pub(super) fn new(policy: Policy, store: Option<&Opened>) -> Result<Decider> {
        match store {
            None => Replay::new(policy).map(Decider::Memory),
            Some(opened) => Ok(Decider::Store(opened.limiter(policy))),
        }
    }

    pub(super) fn check(&mut self, now_ms: u64, key: &[u8], cost: u64) -> Result<Decision> {
        match self {
            Decider::Memory(replay) => replay.check(now_ms, key, cost),
            Decider::Store(on_store) => on_store.check(now_ms, key, cost),
        }
    }
}

/// A store for a replay.
pub(super) struct Opened {
    target: Target,
    store: Arc<dyn Store>,
    clock: ManualClock,
    runtime: Arc<Runtime>,
}

impl Opened {
    /// Opens the store that a URL names.
    pub(super) fn new(url: &str) -> Result<Opened> {
        let (target, clock, runtime) = (Target::new(url), ManualClock::default(), Arc::new(runtime()?));
        // A store may start tasks when it is opened.
        let opened = runtime.block_on(async { target.open(clock.clone()) });
        let store: Arc<dyn Store> = Arc::new(opened.map_err(|error| error.context("--store"))?);
        if !store.capabilities().injected_clock {
            return Err(failure(
                "--store: this store uses its own clock, and a replay has times of its own",
                "leave out clock=server",
            ));
        }
        Ok(Opened { target, store, clock, runtime })
    }

    fn limiter(&self, policy: Policy) -> OnStore {
        let limiter = Limiter::new(policy, Arc::clone(&self.store), FailMode::Closed);
        let limiter = limiter.lease_ids(LeaseIds::of_node(0)).prefix(random_prefix("replay"));
        OnStore { limiter, clock: self.clock.clone(), runtime: Arc::clone(&self.runtime) }
    }

    /// Removes what was written.
    pub(super) fn close(self) -> Result<()> {
        self.runtime.block_on(async {
            self.store.close().await?;
            self.target.clean().await
        })?;
        Ok(())
    }
}

pub(super) struct OnStore {
    limiter: Limiter<Arc<dyn Store>>,
    clock: ManualClock,
    runtime: Arc<Runtime>,
}

impl OnStore {
    fn check(&self, now_ms: u64, key: &[u8], cost: u64) -> Result<Decision> {
        self.clock.set(Millis(now_ms));
        let decision = self.runtime.block_on(self.limiter.check(key, cost))?;
        match decision.failed_open {
            true => Err(Error::new(Code::StoreUnavailable, "the store failed, and this policy fails open")),
            false => Ok(decision),
        }
    }
}

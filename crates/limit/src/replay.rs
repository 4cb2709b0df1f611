//! Runs a policy on a recorded history of (now, key, cost) and returns its decisions. No clock is read.

use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis, Result};

use crate::decision::Decision;
use crate::fail_mode::FailMode;
use crate::lease::LeaseIds;
use crate::limiter::Limiter;
use crate::policy::Policy;

/// A policy and its state so far.
///
/// ```
/// use keystead_limit::{Policy, Replay};
///
/// let mut replay = Replay::new(Policy::from_json(r#"{"kind": "fixedWindow", "limit": 1, "windowMs": 1000}"#)?)?;
/// assert!(replay.check(5000, "ada", 1)?.allowed);
/// let denied = replay.check(5400, "ada", 1)?;
/// assert_eq!(
///     denied.to_json()?,
///     r#"{"allowed":false,"limit":1,"remaining":0,"resetAt":6000,"retryAfterMs":600}"#
/// );
/// # Ok::<(), keystead_core::Error>(())
/// ```
pub struct Replay {
    limiter: Limiter<MemoryStore>,
    clock: ManualClock,
}

impl Replay {
    /// A replay with an empty history.
    ///
    /// # Errors
    /// The store's error; it is in memory and does not fail.
    pub fn new(policy: Policy) -> Result<Self> {
        let clock = ManualClock::default();
        let store = MemoryStore::open(MemoryOptions::default().shards(1).clock(clock.clone()))?;
        let limiter = Limiter::new(policy, store, FailMode::Closed).lease_ids(LeaseIds::of_node(0));
        Ok(Replay { limiter, clock })
    }

    /// The decision for this request at `now_ms`, which may be earlier than the previous one.
    ///
    /// # Errors
    /// `bad_request` or `too_large` for an invalid key or cost.
    pub fn check(&mut self, now_ms: u64, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        self.clock.set(Millis(now_ms));
        self.limiter.check_sync(key, cost)
    }
}

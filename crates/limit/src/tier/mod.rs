//! A local tier in front of a shared store, so that not every check needs a round trip.
//!
//! | Mode | Local state | Cost |
//! |---|---|---|
//! | [`Strict`](Mode::Strict) | nothing: every check goes to the shared store | a round trip a check |
//! | [`CachedDeny`](Mode::CachedDeny) | denials, until they can change, or [for a minute](Tiered::max_denial) | a round trip an allowed check |
//! | [`Leased`](Mode::Leased) | units taken in advance, until their window ends | a round trip a lease |
//!
//! No mode admits more than the limit, whatever the number of nodes. Leased units are consumed in the shared store before they are
//! spent locally, and are dropped shortly before the end of the window in which they were consumed; the units of a node that crashes
//! are lost. The clocks of the nodes need not be synchronized, only run at the same speed; the local clock must be monotonic:
//! [`SteadyClock`].

mod coalesce;
mod local;
mod units;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Code, Error, Key, Millis, Result, SteadyClock, Store};

use crate::bounds::WHOLE_MAX;
use crate::decision::Decision;
use crate::limiter::{Limiter, ask};
use crate::strategy::{AnyStrategy, Ask, Grant, Take};

use coalesce::Turn;
use local::Local;
pub use units::Units;

/// What the local tier stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Strict,
    /// Denials, until they can change, or [for a minute](Tiered::max_denial).
    CachedDeny,
    /// Units that are taken in advance. For `fixedWindow` and `quota`, whose windows end at known times.
    Leased {
        /// How many units a lease takes, if they are available.
        units: u64,
    },
}

impl Mode {
    /// Its name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::CachedDeny => "cached-deny",
            Mode::Leased { .. } => "leased",
        }
    }
}

/// A limiter on a shared store with a local tier in front.
///
/// ```
/// use keystead_core::MemoryStore;
/// use keystead_limit::strategy::FixedWindow;
/// use keystead_limit::{FailMode, Limiter, Mode, Tiered};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let shared = MemoryStore::new();
/// let node = || {
///     let limiter = Limiter::new(FixedWindow::new(100, 86_400_000)?, shared.clone(), FailMode::Closed);
///     Tiered::new(limiter, Mode::Leased { units: 10 })
/// };
/// let (one, other) = (node()?, node()?);
/// let mut admitted = 0;
/// for _ in 0..100 {
///     admitted += u32::from(one.check("ada", 1).await?.allowed);
///     admitted += u32::from(other.check("ada", 1).await?.allowed);
/// }
/// assert_eq!(admitted, 100);
/// # Ok::<(), keystead_core::Error>(())
/// # }).unwrap();
/// ```
pub struct Tiered<S> {
    limiter: Limiter<S>,
    mode: Mode,
    local: Local,
    clock: Arc<dyn Clock>,
}

impl<S: Store> Tiered<S> {
    /// A local tier in front of this limiter's store.
    ///
    /// # Errors
    /// `config_invalid` for leases of a policy whose windows have no known end, for leases of 0 units, and for cached denials of a
    /// `concurrency` policy.
    pub fn new(limiter: Limiter<S>, mode: Mode) -> Result<Self> {
        let policy = limiter.policy();
        if mode == Mode::CachedDeny && matches!(policy.strategy(), AnyStrategy::Concurrency(_)) {
            // A lease may be released at any time, so it is not known how long a denial holds.
            return Err(Error::new(Code::ConfigInvalid, "denials of a concurrency policy cannot be cached"));
        }
        if let Mode::Leased { units } = mode {
            if !matches!(policy.strategy(), AnyStrategy::FixedWindow(_) | AnyStrategy::Quota(_)) {
                return Err(Error::new(
                    Code::ConfigInvalid,
                    format!(
                        "leased units need a fixedWindow or a quota that is not rolling, not {}",
                        policy.kind()
                    ),
                ));
            }
            if !(1..=WHOLE_MAX).contains(&units) {
                let message = format!("a lease takes from 1 to {WHOLE_MAX} units, not {units}");
                return Err(Error::new(Code::ConfigInvalid, message));
            }
        }
        let clock = Arc::new(SteadyClock);
        Ok(Tiered { limiter, mode, local: Local::new(), clock })
    }

    /// The clock that measures how long units and denials are valid (default: a monotonic clock).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Most keys that the local tier stores (default 100,000). Beyond it a key that was not used recently is evicted.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.local.max_keys = max_keys.max(1);
        self
    }

    /// Longest time that a denial is cached before the shared store is checked again (default a minute): so long may a key that another
    /// node has reset still be denied. It never admits more; a longer time saves requests.
    #[must_use]
    pub fn max_denial(mut self, longest: Duration) -> Self {
        self.local.denial_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// The underlying limiter.
    #[must_use]
    pub fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }

    /// Checks the limit, and consumes `cost` units if the decision is to allow.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision> {
        let key = self.limiter.key(key.as_ref())?;
        match self.mode {
            Mode::Strict => Ok(self.limiter.check_timed(&key, self.limiter.ask(cost)?).await?.0),
            Mode::CachedDeny => self.check_cached(&key, self.limiter.ask(cost)?).await,
            Mode::Leased { units } => {
                ask(cost, 0)?;
                self.check_leased(&key, cost, units).await
            }
        }
    }

    /// Deletes the state of a key, locally and in the shared store. Other nodes keep the units that they hold until their window ends.
    ///
    /// # Errors
    /// The store's error.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.local.forget(&self.limiter.key(key.as_ref())?);
        self.limiter.reset(key).await
    }

    async fn check_cached(&self, key: &Key, ask: Ask) -> Result<Decision> {
        if let Some(denied) = self.local.denied(key, || self.now(), ask.cost) {
            return Ok(denied);
        }
        let sent_at = self.now();
        let (decision, _) = self.limiter.check_timed(key, ask).await?;
        if !decision.allowed {
            self.local.deny(key, sent_at, ask.cost, &decision);
        }
        Ok(decision)
    }

    async fn check_leased(&self, key: &Key, cost: u64, units: u64) -> Result<Decision> {
        loop {
            let turn = match self.local.turn(key, || self.now(), cost) {
                Turn::Decided(decision) => return Ok(decision),
                Turn::Wait(generation) => {
                    match self.local.wait(key, generation).await {
                        None => continue,
                        // A check that waited for a failed request gets the same error.
                        Some(error) => return self.limiter.settled(Err(error)).map(|(decision, _)| decision),
                    }
                }
                Turn::Lead(turn) => turn,
            };
            let sent_at = self.now();
            let result = self.take(key, cost, units.max(cost)).await;
            turn.finish(sent_at, cost, result.as_ref());
            let result = result.map(|grant| (grant.decision, grant.now));
            let (decision, _) = self.limiter.settled(result)?;
            return Ok(self.local.with_local_units(key, decision));
        }
    }

    async fn take(&self, key: &Key, need: u64, want: u64) -> Result<Grant> {
        match *self.limiter.policy().strategy() {
            AnyStrategy::FixedWindow(strategy) => {
                self.limiter.apply(key, &Take { strategy, need, want }).await
            }
            AnyStrategy::Quota(strategy) => self.limiter.apply(key, &Take { strategy, need, want }).await,
            _ => Err(Error::new(Code::Internal, "this policy cannot be leased")),
        }
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

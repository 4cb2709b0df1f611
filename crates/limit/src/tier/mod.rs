//! A local tier in front of a shared store, so that not every check has to travel.
//!
//! | Mode | What stays here | What it costs |
//! |---|---|---|
//! | [`Strict`](Mode::Strict) | nothing: every check asks the shared store | a round trip a check |
//! | [`CachedDeny`](Mode::CachedDeny) | denials, until they can change, or [for a minute](Tiered::max_denial) | a round trip an allowed check |
//! | [`Leased`](Mode::Leased) | units taken in advance, until their window ends | a round trip a lease |
//!
//! No mode admits more than the limit, whatever the number of nodes. Leased units are consumed in the shared store before
//! they are spent here, and are forgotten a moment before the window ends in which they were consumed; a node that
//! crashes takes its units with it. That needs no common clock, only clocks that run at the same speed, and a clock here that
//! nobody sets: [`SteadyClock`].

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

/// What the local tier keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Strict,
    /// Denials, until they can change, or [for a minute](Tiered::max_denial).
    CachedDeny,
    /// That many units at a time, taken in advance. For `fixedWindow` and `quota`, whose windows end at known moments.
    Leased {
        /// How many units a lease takes, if they are there.
        units: u64,
    },
}

impl Mode {
    /// The word in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::CachedDeny => "cached-deny",
            Mode::Leased { .. } => "leased",
        }
    }
}

/// A limiter on a shared store with a local tier before it.
///
/// ```
/// use keystead_core::MemoryStore;
/// use keystead_limit::strategy::FixedWindow;
/// use keystead_limit::{Fail, Limiter, Mode, Tiered};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let shared = MemoryStore::new();
/// let node = || {
///     let limiter = Limiter::new(FixedWindow::new(100, 86_400_000)?, shared.clone(), Fail::Closed);
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
    /// A local tier before this limiter's store.
    ///
    /// # Errors
    /// `config_invalid` when units are to be leased from a policy whose windows have no known end, or none at a time, and
    /// when denials of a `concurrency` policy are to be cached.
    pub fn new(limiter: Limiter<S>, mode: Mode) -> Result<Self> {
        let policy = limiter.policy();
        if mode == Mode::CachedDeny && matches!(policy.strategy(), AnyStrategy::Concurrency(_)) {
            // Somebody may release a lease at any moment: no denial is known to last.
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

    /// Who counts how long units and denials are good here (default: a clock that nobody can set).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Most keys that the local tier remembers (default 100,000). Beyond it one that was not used lately is forgotten.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.local.max_keys = max_keys.max(1);
        self
    }

    /// Longest that a denial is believed here before the shared store is asked again (default a minute): for so long a key that was
    /// reset elsewhere may still be denied. It admits no more and no less; a longer one saves questions.
    #[must_use]
    pub fn max_denial(mut self, longest: Duration) -> Self {
        self.local.denial_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// The limiter below.
    #[must_use]
    pub fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }

    /// Asks for `cost` units and consumes them when they are there.
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

    /// Forgets everything about a key, here and in the shared store. Units that other nodes hold stay theirs until their
    /// window ends.
    ///
    /// # Errors
    /// What the store says.
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
                        // Who waited for an answer that never came is told the same as who asked.
                        Some(error) => return self.limiter.settled(Err(error)).map(|(decision, _)| decision),
                    }
                }
                Turn::Lead(turn) => turn,
            };
            let sent_at = self.now();
            let answer = self.take(key, cost, units.max(cost)).await;
            turn.finish(sent_at, cost, answer.as_ref());
            let answer = answer.map(|grant| (grant.decision, grant.now));
            let (decision, _) = self.limiter.settled(answer)?;
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

//! Who tells the time. This is the only folder of the workspace that reads the system's clocks.
//!
//! A store hands `now` to a step. Tests move a [`ManualClock`], also backwards; every step must survive that.

#![allow(clippy::disallowed_methods)]

mod steady;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use steady::SteadyClock;
pub use system::SystemClock;

/// A moment: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// A moment that never comes.
    pub const NEVER: Millis = Millis(u64::MAX);

    /// The moment `ms` later; [`Millis::NEVER`] when that is beyond the range.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` until this moment, 0 when the clock has jumped back.
    #[must_use]
    pub const fn since_ms(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Tells the time in milliseconds since the Unix epoch.
pub trait Clock: Send + Sync + 'static {
    /// The present moment. It may be earlier than the last answer.
    fn now(&self) -> Millis;
}

/// A clock that stands still until it is moved. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        ManualClock(Arc::new(AtomicU64::new(now.0)))
    }

    /// Moves the time forward.
    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the time, also backwards.
    pub fn set(&self, now: Millis) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Millis {
        (**self).now()
    }
}

/// Measures how long something took, on a clock that never jumps. For metrics and benches, never for decisions.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_both_ways_and_clones_share_it() {
        let clock = ManualClock::at(Millis(1000));
        let same = clock.clone();
        clock.advance_ms(5);
        assert_eq!(same.now(), Millis(1005));
        same.set(Millis(10));
        assert_eq!(clock.now(), Millis(10));
    }

    #[test]
    fn distances_never_go_below_zero_or_wrap() {
        assert_eq!(Millis(5).since_ms(Millis(9)), 0);
        assert_eq!(Millis(9).since_ms(Millis(5)), 4);
        assert_eq!(Millis(9).plus_ms(u64::MAX), Millis::NEVER);
    }
}

//! Clocks. This is the only module of the workspace that reads the system's clocks.
//!
//! A store passes `now` to a step. Tests move a [`ManualClock`], also backwards; every step must tolerate that.

#![allow(clippy::disallowed_methods)]

mod steady;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
#[cfg(not(target_family = "wasm"))]
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use steady::SteadyClock;
pub use system::SystemClock;

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than every other time: "does not expire".
    pub const NEVER: Millis = Millis(u64::MAX);

    /// The time `ms` later; [`Millis::NEVER`] on overflow.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 when the clock has jumped back.
    #[must_use]
    pub const fn since_ms(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A source of time, in milliseconds since the Unix epoch.
pub trait Clock: Send + Sync + 'static {
    /// The current time. It may be earlier than the last one returned.
    fn now(&self) -> Millis;
}

/// A clock that only moves when it is set or advanced. Clones share the time.
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

/// Measures elapsed time on the monotonic clock. For metrics and benchmarks, never for decisions.
///
/// In wasm32 no time passes: there is no such clock, and a Worker's own stands still while it computes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(#[cfg(not(target_family = "wasm"))] Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    pub fn start() -> Self {
        Stopwatch(
            #[cfg(not(target_family = "wasm"))]
            Instant::now(),
        )
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        #[cfg(not(target_family = "wasm"))]
        return self.0.elapsed();
        #[cfg(target_family = "wasm")]
        Duration::ZERO
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

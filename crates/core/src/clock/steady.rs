//! A clock that nobody sets.

use super::{Clock, Millis, SystemClock};

/// Runs on evenly from the wall clock's time at which it was made, also while somebody sets the wall clock and while the machine sleeps. For
/// what must not last longer than it says.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began_at: Millis,
    uptime_ms: u64,
}

impl SteadyClock {
    /// A clock that shows the wall clock's time now.
    #[must_use]
    pub fn new() -> Self {
        SteadyClock { began_at: SystemClock.now(), uptime_ms: uptime_ms() }
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        SteadyClock::new()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Millis {
        self.began_at.plus_ms(uptime_ms().saturating_sub(self.uptime_ms))
    }
}

/// Milliseconds since some moment before.
#[cfg(unix)]
fn uptime_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    // Others than Linux count sleep in the monotonic clock.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(not(unix))]
fn uptime_ms() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;

    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_wall_clock_as_long_as_nobody_sets_that() {
        let clock = SteadyClock::new();
        let (before, mut last) = (SystemClock.now(), clock.now());
        while last.0 < before.0 + 20 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(SystemClock.now().0.abs_diff(clock.now().0) < 1000);
    }
}

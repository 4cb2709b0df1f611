//! A clock that nobody sets.

use std::sync::LazyLock;

use super::{Clock, Millis, SystemClock};

/// Runs on evenly from the wall clock's time at which it was first asked, also while somebody sets the wall clock and while the
/// machine sleeps. For what must not last longer than it says.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyClock;

/// When it was first asked, by the wall clock and by the count that nobody sets.
static BEGAN: LazyLock<(Millis, u64)> = LazyLock::new(|| (SystemClock.now(), uptime_ms()));

impl Clock for SteadyClock {
    fn now(&self) -> Millis {
        let (began_at, began_ms) = *BEGAN;
        began_at.plus_ms(uptime_ms().saturating_sub(began_ms))
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
    use std::time::Instant;

    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(FIRST.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_wall_clock_as_long_as_nobody_sets_that() {
        let (before, mut last) = (SystemClock.now(), SteadyClock.now());
        while last.0 < before.0 + 20 {
            let now = SteadyClock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(SystemClock.now().0.abs_diff(SteadyClock.now().0) < 1000);
    }
}

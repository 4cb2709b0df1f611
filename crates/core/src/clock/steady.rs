//! A clock that is not affected by changes of the wall clock.

use std::sync::LazyLock;

use super::{Clock, Millis, SystemClock};

/// Starts at the wall clock's time of its first use and advances evenly from there: setting the wall clock does not move it, and
/// it includes the time that the machine is suspended. For durations that must not be exceeded, such as leases.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyClock;

/// The first use, by the wall clock and by the monotonic clock.
static FIRST_USE: LazyLock<(Millis, u64)> = LazyLock::new(|| (SystemClock.now(), uptime_ms()));

impl Clock for SteadyClock {
    fn now(&self) -> Millis {
        let (first_at, first_ms) = *FIRST_USE;
        first_at.plus_ms(uptime_ms().saturating_sub(first_ms))
    }
}

/// Milliseconds since an arbitrary moment in the past.
#[cfg(unix)]
fn uptime_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    // On other systems the monotonic clock includes suspended time.
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
    fn it_agrees_with_a_wall_clock_that_is_not_set() {
        let (before, mut last) = (SystemClock.now(), SteadyClock.now());
        while last.0 < before.0 + 20 {
            let now = SteadyClock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(SystemClock.now().0.abs_diff(SteadyClock.now().0) < 1000);
    }
}

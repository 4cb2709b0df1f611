//! The machine's wall clock.
//!
//! Reading the system clock takes a third of the time of a rate limit check, and its value changes once a millisecond.
//! So each thread caches it until that millisecond is over, which the processor's cycle counter shows at half the cost.
//! The cached value is the one that the system would return, except that a change of the system's clock is seen up to a
//! millisecond late. Where the cycle counter is not reliable, it is not used.

use super::{Clock, Millis};

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(not(unix))]
impl Clock for SystemClock {
    fn now(&self) -> Millis {
        use std::time::{Duration, SystemTime, UNIX_EPOCH};
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Millis(since_epoch.as_secs() * 1000 + u64::from(since_epoch.subsec_millis()))
    }
}

#[cfg(unix)]
impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Millis {
        let Some(counter) = &*unix::COUNTER else {
            return unix::system().0;
        };
        counter.now()
    }
}

#[cfg(unix)]
mod unix {
    use std::cell::Cell;
    use std::sync::LazyLock;

    use rustix::time::{ClockId, clock_gettime};

    use super::Millis;

    const NS_PER_MS: u64 = 1_000_000;

    /// The part of a millisecond for which the value is cached. The remainder allows for error in the counter's rate.
    const CACHED_PART: f64 = 0.999;

    pub(super) static COUNTER: LazyLock<Option<Counter>> = LazyLock::new(Counter::new);

    thread_local! {
        static CACHE: Cell<Cached> = const { Cell::new(Cached { at: 0, ticks: 0, now: Millis(0) }) };
    }

    /// The last value of the system's clock, the counter at that time, and for how many ticks it is valid.
    #[derive(Clone, Copy)]
    struct Cached {
        at: u64,
        ticks: u64,
        now: Millis,
    }

    /// The processor's cycle counter.
    pub(super) struct Counter {
        counter: quanta::Clock,
        ticks_per_ns: f64,
    }

    impl Counter {
        /// `None` where there is no counter that runs evenly.
        fn new() -> Option<Self> {
            const TICKS: u64 = 1 << 32;
            let counter = quanta::Clock::new();
            let ns = counter.delta_as_nanos(0, TICKS);
            // A counter of nanoseconds is the system's own clock again.
            (ns != 0 && ns != TICKS).then(|| Counter { counter, ticks_per_ns: TICKS as f64 / ns as f64 })
        }

        #[inline]
        pub(super) fn now(&self) -> Millis {
            let at = self.counter.raw();
            let cached = CACHE.get();
            // A counter that went backwards, as after a suspend, wraps to a large difference here.
            match at.wrapping_sub(cached.at) < cached.ticks {
                true => cached.now,
                false => self.refresh(at),
            }
        }

        #[cold]
        fn refresh(&self, at: u64) -> Millis {
            let (now, left_ns) = system();
            let ticks = (left_ns as f64 * self.ticks_per_ns * CACHED_PART) as u64;
            CACHE.set(Cached { at, ticks, now });
            now
        }
    }

    /// The operating system's time, and the nanoseconds left of that millisecond. Without the standard library, whose arithmetic
    /// on it costs as much again.
    pub(super) fn system() -> (Millis, u64) {
        let now = clock_gettime(ClockId::Realtime);
        let (seconds, ns) = (u64::try_from(now.tv_sec).unwrap_or(0), now.tv_nsec as u64);
        (Millis(seconds * 1000 + ns / NS_PER_MS), NS_PER_MS - ns % NS_PER_MS)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::clock::{Clock, SystemClock};

        #[test]
        fn the_cached_value_equals_the_systems() {
            let mut changes = 0;
            let mut last = Millis(0);
            while changes < 50 {
                let (before, now, after) = (system().0, SystemClock.now(), system().0);
                assert!(before <= now && now <= after, "{before:?} {now:?} {after:?}");
                changes += u32::from(now != last);
                last = now;
            }
        }

        #[test]
        fn a_counter_that_went_backwards_invalidates_the_cache() {
            let Some(counter) = &*COUNTER else { return };
            CACHE.set(Cached { at: counter.counter.raw(), ticks: 1 << 40, now: Millis(7) });
            assert_eq!(counter.now(), Millis(7), "the cached value is returned");
            CACHE.set(Cached { at: counter.counter.raw() + (1 << 62), ticks: 1 << 40, now: Millis(7) });
            assert!(counter.now() > Millis(7));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_in_this_century() {
        let now = SystemClock.now();
        assert!(now > Millis(1_700_000_000_000) && now < Millis(4_100_000_000_000));
    }
}

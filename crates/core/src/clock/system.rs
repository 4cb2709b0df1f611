//! The machine's wall clock.
//!
//! Asking the operating system is a third of what a check of a rate limit costs, and its answer changes once a millisecond.
//! So a thread remembers it until that millisecond is over, which the processor's cycle counter tells for half the price.
//! The answer is the one that the system would have given; only when somebody sets the system's clock is that seen up to a
//! millisecond later. A processor whose counter cannot be relied on is never asked for it.

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

    /// How much of a millisecond is remembered. The rest is for what the counter's rate may be off by.
    const SURE: f64 = 0.999;

    pub(super) static COUNTER: LazyLock<Option<Counter>> = LazyLock::new(Counter::new);

    thread_local! {
        static SEEN: Cell<Seen> = const { Cell::new(Seen { at: 0, ticks: 0, now: Millis(0) }) };
    }

    /// What the system said last, and from which count on it holds for how many ticks.
    #[derive(Clone, Copy)]
    struct Seen {
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
        /// `None` where it does not run evenly, or is not there.
        fn new() -> Option<Self> {
            const TICKS: u64 = 1 << 32;
            let counter = quanta::Clock::new();
            let ns = counter.delta_as_nanos(0, TICKS);
            // A count of nanoseconds is the system's own clock again.
            (ns != 0 && ns != TICKS).then(|| Counter { counter, ticks_per_ns: TICKS as f64 / ns as f64 })
        }

        #[inline]
        pub(super) fn now(&self) -> Millis {
            let at = self.counter.raw();
            let seen = SEEN.get();
            // A counter that went back, as after a sleep, is far ahead by this.
            match at.wrapping_sub(seen.at) < seen.ticks {
                true => seen.now,
                false => self.look(at),
            }
        }

        #[cold]
        fn look(&self, at: u64) -> Millis {
            let (now, left_ns) = system();
            let ticks = (left_ns as f64 * self.ticks_per_ns * SURE) as u64;
            SEEN.set(Seen { at, ticks, now });
            now
        }
    }

    /// What the operating system says, and how many nanoseconds are left of that millisecond. Without the standard library,
    /// whose arithmetic on it costs as much again.
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
        fn what_is_remembered_is_what_the_system_would_say() {
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
        fn a_counter_that_went_back_is_not_believed() {
            let Some(counter) = &*COUNTER else { return };
            SEEN.set(Seen { at: counter.counter.raw(), ticks: 1 << 40, now: Millis(7) });
            assert_eq!(counter.now(), Millis(7), "what is remembered is answered");
            SEEN.set(Seen { at: counter.counter.raw() + (1 << 62), ticks: 1 << 40, now: Millis(7) });
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

//! How fast a node takes slots in: bytes a second, as the operator wants. Touches the time.
//!
//! The rate is kept until another operator names another one, also when the one who named it has died.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keystead_core::Stopwatch;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::bounds::MIGRATION_RATE_BURST;

pub(super) struct Throttle {
    /// Bytes a second; 0: no limit.
    rate: AtomicU64,
    since: Stopwatch,
    /// When the bytes that were taken are paid for, after `since`.
    paid: Mutex<Duration>,
    is_other: Notify,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            rate: AtomicU64::new(0),
            since: Stopwatch::start(),
            paid: Mutex::default(),
            is_other: Notify::new(),
        }
    }
}

impl Throttle {
    pub(super) fn set(&self, bytes_per_second: u64) {
        if self.rate.swap(bytes_per_second, Ordering::Relaxed) != bytes_per_second {
            // What waits at the rate before waits no longer.
            *self.paid.lock().unwrap_or_else(PoisonError::into_inner) = self.since.elapsed();
            self.is_other.notify_waiters();
        }
    }

    /// Waits as long as these bytes need at the rate, after those of all migrations before, or until there is another rate.
    pub(super) async fn take(&self, bytes: usize) {
        let is_other = self.is_other.notified();
        let wait = self.take_at(bytes, self.since.elapsed());
        if !wait.is_zero() {
            let _ = timeout(wait, is_other).await;
        }
    }

    fn take_at(&self, bytes: usize, now: Duration) -> Duration {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(now.saturating_sub(MIGRATION_RATE_BURST));
        if rate == 0 {
            return Duration::ZERO;
        }
        *paid += Duration::from_secs_f64(bytes as f64 / rate as f64);
        paid.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_take_together_has_the_rate() {
        let (throttle, second) = (Throttle::default(), Duration::from_secs(1));
        assert_eq!(
            throttle.take_at(usize::MAX / 2, second),
            Duration::ZERO,
            "without a rate there is no limit"
        );
        throttle.set(1000);
        let waits: Vec<u128> = (0..3).map(|_| throttle.take_at(500, second).as_millis()).collect();
        assert_eq!(waits, [400, 900, 1400]);
        assert_eq!(throttle.take_at(500, second * 60).as_millis(), 400, "what was not used is not saved up");
    }
}

//! The shaper of a `leakyBucket` policy: it returns how long to wait, or waits itself.

use std::future::Future;
use std::time::Duration;

use keystead_core::{Code, Error, Result, Store};

use crate::limiter::Limiter;
use crate::strategy::AnyStrategy;

/// The result of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The request is queued: proceed after this time.
    Departs {
        /// How long to wait.
        delay_ms: u64,
    },
    /// The queue is too long (`queue_full`). Nothing was reserved.
    Full {
        /// When the queue will have space.
        retry_after_ms: u64,
    },
}

/// Delays requests to an even rate.
///
/// ```
/// use std::time::Duration;
///
/// use keystead_limit::strategy::LeakyBucket;
/// use keystead_limit::{FailMode, Limiter, Reservation, Shaper};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let shaper = Shaper::new(Limiter::in_memory(LeakyBucket::new(100.0, 25)?, FailMode::Closed))?;
/// // Waits for its turn with the runtime's own timer.
/// let reservation = shaper.schedule("mail", 1, tokio::time::sleep).await?;
/// assert_eq!(reservation, Reservation::Departs { delay_ms: 0 });
/// # Ok::<(), keystead_core::Error>(())
/// # }).unwrap();
/// ```
pub struct Shaper<S> {
    limiter: Limiter<S>,
}

impl<S: Store> Shaper<S> {
    /// A shaper of a limiter whose policy is a `leakyBucket`.
    ///
    /// # Errors
    /// `config_invalid` for another kind.
    pub fn new(limiter: Limiter<S>) -> Result<Self> {
        match limiter.policy().strategy() {
            AnyStrategy::LeakyBucket(_) => Ok(Shaper { limiter }),
            _ => Err(Error::new(
                Code::ConfigInvalid,
                format!("a shaper needs a leakyBucket policy, not {}", limiter.policy().kind()),
            )),
        }
    }

    /// Queues a request and returns how long to wait. The caller waits.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn reserve(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Reservation> {
        let decision = self.limiter.check(key, cost).await?;
        Ok(match decision.allowed {
            true => Reservation::Departs { delay_ms: decision.delay_ms.unwrap_or(0) },
            false => Reservation::Full { retry_after_ms: decision.retry_after_ms },
        })
    }

    /// Queues a request and waits with `sleep`. A full queue returns at once.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn schedule<F: Future>(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        sleep: impl FnOnce(Duration) -> F,
    ) -> Result<Reservation> {
        let reservation = self.reserve(key, cost).await?;
        if let Reservation::Departs { delay_ms } = reservation
            && delay_ms > 0
        {
            sleep(Duration::from_millis(delay_ms)).await;
        }
        Ok(reservation)
    }

    /// The underlying limiter.
    #[must_use]
    pub fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis};

    use super::*;
    use crate::fail_mode::FailMode;
    use crate::strategy::{Gcra, LeakyBucket};

    #[tokio::test]
    async fn schedule_waits_and_a_full_queue_returns_at_once() {
        let clock = ManualClock::at(Millis(1_000_000));
        let store = MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap();
        let shaper =
            Shaper::new(Limiter::new(LeakyBucket::new(10.0, 150).unwrap(), store, FailMode::Closed)).unwrap();
        let slept = RefCell::new(Vec::new());
        let sleep = |time: Duration| {
            slept.borrow_mut().push(time.as_millis());
            std::future::ready(())
        };
        for delay_ms in [0, 100] {
            let reservation = shaper.schedule("k", 1, sleep).await.unwrap();
            assert_eq!(reservation, Reservation::Departs { delay_ms });
        }
        let full = Reservation::Full { retry_after_ms: 50 };
        assert_eq!(shaper.schedule("k", 1, sleep).await.unwrap(), full);
        assert_eq!(*slept.borrow(), [100], "only a delayed request sleeps");
        clock.advance_ms(50);
        assert_eq!(shaper.reserve("k", 1).await.unwrap(), Reservation::Departs { delay_ms: 150 });
    }

    #[test]
    fn another_kind_is_no_shaper() {
        let limiter = Limiter::in_memory(Gcra::new(1, 1, None).unwrap(), FailMode::Open);
        assert_eq!(Shaper::new(limiter).err().unwrap().code(), Code::ConfigInvalid);
    }
}

//! Deadlines and pauses of one batch. Reads time only through the timer of the runtime, so that a test can stop it.

use std::future::Future;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::nonce::random;
use crate::bounds::{ATTEMPT_PARTS, DEADLINE_MS_RANGE, DEADLINE_PARTS, PAUSE_MS_MAX, WAIT_PARTS};

/// How the deadline of a call is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// One network call.
    part: Duration,
}

impl Pace {
    pub(crate) fn new(deadline_ms: u64) -> Result<Pace> {
        if !DEADLINE_MS_RANGE.contains(&deadline_ms) {
            let (first, last) = (DEADLINE_MS_RANGE.start(), DEADLINE_MS_RANGE.end());
            let message = format!("a deadline of {deadline_ms} ms is not between {first} and {last} ms");
            return Err(Error::new(Code::ConfigInvalid, message));
        }
        Ok(Pace { part: Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 })
    }

    /// The times of a batch that begins now.
    pub(super) fn begin(self) -> Times {
        let now = now();
        let batch_parts = DEADLINE_PARTS - WAIT_PARTS;
        Times {
            part: self.part,
            attempts_end: now + self.part * ATTEMPT_PARTS as u32,
            end: now + self.part * batch_parts as u32,
        }
    }

    /// Whether what was queued then has waited too long.
    pub(super) fn is_late(self, since: Instant) -> bool {
        now() > since + self.part * WAIT_PARTS as u32
    }
}

/// The time on the runtime's timer.
pub(super) fn now() -> Instant {
    sleep(Duration::ZERO).deadline()
}

/// The times of one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    part: Duration,
    attempts_end: Instant,
    end: Instant,
}

impl Times {
    /// Whether another attempt may begin.
    pub(super) fn may_attempt(&self) -> bool {
        now() < self.attempts_end
    }

    /// Whether there is time left to settle an outcome.
    pub(super) fn is_over(&self) -> bool {
        now() >= self.end
    }

    /// One network call; `None` if it did not return in time.
    pub(super) async fn call<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        timeout_at(self.end.min(now() + self.part), call).await.ok()
    }

    /// Waits for a random part of a bound that doubles with each attempt. The first repetition follows at once.
    pub(super) async fn pause(&self, attempt: u32) {
        let bound_ms = (1u64 << attempt.min(16)).min(PAUSE_MS_MAX);
        if attempt > 0 {
            let micros = random() % (bound_ms * 1000);
            sleep_until(self.end.min(now() + Duration::from_micros(micros))).await;
        }
    }

    /// How long one network call may take, in words.
    pub(super) fn patience(&self) -> String {
        format!("{} ms", self.part.as_millis())
    }
}

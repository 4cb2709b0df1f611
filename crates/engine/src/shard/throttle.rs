//! Backpressure: as the journal nears its bound, acknowledgements are delayed to the pace of the archive. It touches nothing.
//!
//! A client that waits for its replies slows down with them, so the journal grows ever more slowly, and no write has to be
//! rejected. Reads are not delayed, unless they depend on a write that is not acknowledged yet.

use std::time::Duration;

use keystead_core::{Revision, Stopwatch};

use super::Shard;
use crate::health::Vitals;

/// How often delayed acknowledgements are sent.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// The pace at the beginning, in multiples of the archive's. It falls to 0 at the bound, so it equals the archive's in between.
const START_PACE: f64 = 3.0;

/// Sizes of the journal between which acknowledgements are delayed, and how far they are.
pub(super) struct Throttle {
    from_bytes: u64,
    to_bytes: u64,
    /// The last revision that may be acknowledged, with a fraction; `None` while there is no delay.
    released: Option<f64>,
}

impl Throttle {
    /// Delays between three quarters of `journal_bytes_max` and all of it. The last `kept_bytes` of a journal are there at any time.
    pub(super) fn new(journal_bytes_max: u64, kept_bytes: u64) -> Self {
        let from_bytes = journal_bytes_max - journal_bytes_max.saturating_sub(kept_bytes) / 4;
        Throttle { from_bytes, to_bytes: journal_bytes_max, released: None }
    }

    /// Ends the delay for good.
    pub(super) fn end(&mut self) {
        (self.from_bytes, self.to_bytes, self.released) = (u64::MAX, u64::MAX, None);
    }

    pub(super) fn is_delaying(&self) -> bool {
        self.released.is_some()
    }

    /// The last revision that may be acknowledged.
    #[inline]
    pub(super) fn release(&self, durable: Revision) -> Revision {
        match &self.released {
            None => durable,
            Some(released) => durable.min(Revision(*released as u64)),
        }
    }

    /// Takes the journal's size into account, the archive's pace in revisions a second, and the time since the last call.
    pub(super) fn update(&mut self, journal_bytes: u64, durable: Revision, pace: f64, elapsed: Duration) {
        if journal_bytes < self.from_bytes {
            self.released = None;
            return;
        }
        let free = self.to_bytes.saturating_sub(journal_bytes) as f64
            / (self.to_bytes - self.from_bytes).max(1) as f64;
        let released = match &self.released {
            None => durable.0 as f64,
            Some(released) => released + pace * START_PACE * free.min(1.0) * elapsed.as_secs_f64(),
        };
        // What was not used is not saved up.
        self.released = Some(released.min(durable.0 as f64));
    }
}

/// Whether a journal of this size rejects writes.
pub(crate) fn is_full(bytes: u64, bytes_max: u64, vitals: &Vitals) -> bool {
    bytes > bytes_max && (bytes > bytes_max + bytes_max / 4 || vitals.is_archive_failing())
}

impl Shard {
    /// Whether writes are rejected. While the archive works, delayed acknowledgements keep the journal near its bound.
    pub(super) fn is_journal_full(&self) -> bool {
        let Some(files) = &self.shared.files else { return false };
        is_full(files.bytes(), self.shared.journal_bytes_max, &self.shared.vitals)
    }

    /// The last revision whose changes may be acknowledged.
    #[inline]
    pub(super) fn acknowledged(&self) -> Revision {
        self.throttle.release(self.shared.progress.durable())
    }

    pub(super) fn update_throttle(&mut self) {
        let Some(files) = &self.shared.files else { return };
        let (durable, pace) = (self.shared.progress.durable(), self.shared.vitals.archive_pace());
        // Reading the time costs more than the rest, and is needed only while it delays.
        let elapsed =
            if self.throttle.is_delaying() { self.throttle_updated.elapsed() } else { Duration::ZERO };
        // An archive that cannot be written has no pace: the journal takes what fits, and then writes are rejected.
        let bytes = if self.shared.vitals.is_archive_failing() { 0 } else { files.bytes() };
        self.throttle.update(bytes, durable, pace, elapsed);
        if self.throttle.is_delaying() {
            self.throttle_updated = Stopwatch::start();
        }
        self.shared.vitals.set_throttled(self.throttle.is_delaying());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(throttle: &mut Throttle, journal_bytes: u64, durable: u64) {
        throttle.update(journal_bytes, Revision(durable), 100.0, Duration::from_millis(100));
    }

    #[test]
    fn it_delays_between_three_quarters_and_the_bound() {
        let mut throttle = Throttle::new(1000, 0);
        update(&mut throttle, 749, 10);
        assert!(!throttle.is_delaying());
        assert_eq!(throttle.release(Revision(20)), Revision(20));
        update(&mut throttle, 750, 20);
        assert!(throttle.is_delaying());
        assert_eq!(throttle.release(Revision(90)), Revision(20), "what is durable later waits");
        update(&mut throttle, 750, 90);
        assert_eq!(throttle.release(Revision(90)), Revision(50), "three times the pace at the beginning");
        update(&mut throttle, 875, 90);
        assert_eq!(throttle.release(Revision(90)), Revision(65), "half of that in the middle");
        update(&mut throttle, 100, 90);
        assert_eq!(throttle.release(Revision(90)), Revision(90));
    }

    #[test]
    fn at_the_bound_nothing_is_released_until_there_is_room() {
        let mut throttle = Throttle::new(1000, 0);
        update(&mut throttle, 1000, 10);
        update(&mut throttle, 1200, 20);
        assert_eq!(throttle.release(Revision(20)), Revision(10));
        throttle.end();
        update(&mut throttle, 1200, 20);
        assert_eq!(throttle.release(Revision(20)), Revision(20), "a closing shard releases everything");
    }

    #[test]
    fn segments_that_are_always_kept_do_not_count() {
        let mut throttle = Throttle::new(1000, 800);
        update(&mut throttle, 900, 10);
        assert!(!throttle.is_delaying());
        update(&mut throttle, 950, 10);
        assert!(throttle.is_delaying());
    }
}

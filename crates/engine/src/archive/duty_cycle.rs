//! How fast the archive thread works: in short slices with pauses between them while there is time, without a pause when the journal fills up.
//!
//! On a machine whose processors are busy, a thread that never pauses takes a share from the shards, and one of low priority gets too little to keep
//! up, so that writes are delayed in the end. Touches the thread: it sleeps.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::Stopwatch;

use super::archiver::Closing;
use crate::journal::segments::Segments;

/// Work after which it pauses.
const SLICE: Duration = Duration::from_millis(4);

/// Longest pause, so that a close does not wait for it.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How many times as long as it works it pauses while the journal is almost empty.
const PAUSE_PER_WORK: f64 = 2.0;

/// When the archive thread works and when it pauses.
pub(crate) struct DutyCycle {
    segments: Arc<Segments>,
    /// From this size of the journal on it does not pause.
    full_bytes: u64,
    closing: Arc<Closing>,
    /// Whether somebody waits for the batch.
    is_urgent: Cell<bool>,
    worked: Cell<Duration>,
}

impl DutyCycle {
    pub(crate) fn new(segments: Arc<Segments>, full_bytes: u64, closing: Arc<Closing>) -> Self {
        DutyCycle { segments, full_bytes, closing, is_urgent: Cell::new(false), worked: Cell::default() }
    }

    /// Sets whether somebody waits for what follows.
    pub(crate) fn set_urgent(&self, is_urgent: bool) {
        self.is_urgent.set(is_urgent);
    }

    /// Adds a piece of work that began with `work`, and pauses when that was enough for a slice.
    pub(crate) fn worked(&self, work: &Stopwatch) {
        let worked = self.worked.get() + work.elapsed();
        if worked < SLICE {
            self.worked.set(worked);
            return;
        }
        self.worked.set(Duration::ZERO);
        let pause = worked.mul_f64(self.pause_per_work()).min(PAUSE_MAX);
        if !pause.is_zero() && !self.is_urgent.get() && !self.closing.has_begun() {
            std::thread::park_timeout(pause);
        }
    }

    fn pause_per_work(&self) -> f64 {
        let full = self.segments.bytes() as f64 / self.full_bytes.max(1) as f64;
        PAUSE_PER_WORK * (1.0 - full).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keystead_core::Revision;

    use super::*;

    #[test]
    fn the_fuller_the_journal_the_shorter_the_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Arc::new(Segments::new(dir.path(), 1024, BTreeMap::new(), 0).unwrap());
        let duty = DutyCycle::new(Arc::clone(&segments), 4096, Arc::new(Closing::new(Duration::ZERO)));
        let mut pauses = Vec::new();
        for first in 1..=6 {
            pauses.push(duty.pause_per_work());
            segments.add(Revision(first), 1024);
        }
        assert_eq!(pauses, [2.0, 1.5, 1.0, 0.5, 0.0, 0.0]);
    }
}

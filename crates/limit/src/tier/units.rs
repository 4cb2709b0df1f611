//! Units that were taken in advance, and how long they are valid. This is all of the leasing algorithm; the model checker runs
//! exactly this code.
//!
//! The store returns the remaining time of its window. That time is measured from *before* the request was sent, so the units
//! expire locally before the window ends in the store, whatever the latency and whatever the node's clock shows. One millisecond is
//! subtracted because both clocks show whole milliseconds.

use keystead_core::Millis;

/// What a node holds for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Units {
    left: u64,
    /// The end of their window, by the store's clock.
    window_end: u64,
    good_until: Millis,
    newest: Millis,
}

impl Units {
    /// Spends `cost` units if they are available and still valid.
    pub fn spend(&mut self, now: Millis, cost: u64) -> bool {
        if now < self.newest {
            // The clock has jumped back: it is no longer known how long the units are valid.
            *self = Units::default();
        }
        self.newest = now;
        if now >= self.good_until {
            self.left = 0;
        }
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Adds `units` that the store granted for a request of `sent_at`, valid for `good_ms` of the store's time, until its `window_end`.
    /// Units that are left stay valid only if they are of the same window.
    pub fn receive(&mut self, sent_at: Millis, units: u64, good_ms: u64, window_end: u64) {
        let good_until = sent_at.plus_ms(good_ms.saturating_sub(1));
        let left = if window_end == self.window_end { self.left } else { 0 };
        let left = units.saturating_add(left);
        *self = Units { left, window_end, good_until, newest: sent_at };
    }

    /// Units that are left, valid or not.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_valid_until_shortly_before_the_window_ends() {
        let mut units = Units::default();
        assert!(!units.spend(Millis(5), 1));
        units.receive(Millis(1000), 3, 100, 5100);
        assert!(units.spend(Millis(1000), 1));
        assert!(!units.spend(Millis(1050), 3), "only 2 are left");
        assert!(units.spend(Millis(1098), 1));
        assert!(!units.spend(Millis(1099), 1));
        assert_eq!(units.left(), 0);
    }

    #[test]
    fn units_left_are_valid_in_the_same_window_only() {
        let mut units = Units::default();
        units.receive(Millis(1000), 3, 100, 5100);
        units.receive(Millis(1050), 4, 50, 5100);
        assert_eq!(units.left(), 7);
        units.receive(Millis(1098), 5, 100, 5200);
        assert_eq!(units.left(), 5, "the store was in the next window already");
    }

    #[test]
    fn a_clock_that_jumps_back_drops_the_units() {
        let mut units = Units::default();
        units.receive(Millis(1000), 3, 100, 5100);
        assert!(units.spend(Millis(1090), 1));
        assert!(!units.spend(Millis(1089), 1));
        assert!(!units.spend(Millis(1091), 1));
    }
}

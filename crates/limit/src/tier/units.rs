//! Units that were taken in advance, and how long they are good. This is the whole of the leasing bound; the model checker
//! runs exactly this code.
//!
//! The store says how long its window still lasts. That time is counted from *before* the question was sent, so the units
//! are gone here before the window ends there, however long the answer took and whatever this node's clock shows. A
//! millisecond is taken off because both clocks show whole ones.

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
    /// Spends `cost` units if they are there and still good.
    pub fn spend(&mut self, now: Millis, cost: u64) -> bool {
        if now < self.newest {
            // The clock has jumped back: how long the units are good is no longer known.
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

    /// Takes in `units` that the store gave for a question of `sent_at`, good for `good_ms` of the store's time, until its
    /// `window_end`. What was left is good beside them in the same window, and only there.
    pub fn receive(&mut self, sent_at: Millis, units: u64, good_ms: u64, window_end: u64) {
        let good_until = sent_at.plus_ms(good_ms.saturating_sub(1));
        let left = if window_end == self.window_end { self.left } else { 0 };
        let left = units.saturating_add(left);
        *self = Units { left, window_end, good_until, newest: sent_at };
    }

    /// Units that are left, good or not.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_good_until_a_moment_before_the_window_ends() {
        let mut units = Units::default();
        assert!(!units.spend(Millis(5), 1));
        units.receive(Millis(1000), 3, 100, 5100);
        assert!(units.spend(Millis(1000), 1));
        assert!(!units.spend(Millis(1050), 3), "not so many");
        assert!(units.spend(Millis(1098), 1));
        assert!(!units.spend(Millis(1099), 1));
        assert_eq!(units.left(), 0);
    }

    #[test]
    fn what_is_left_counts_on_in_the_same_window_only() {
        let mut units = Units::default();
        units.receive(Millis(1000), 3, 100, 5100);
        units.receive(Millis(1050), 4, 50, 5100);
        assert_eq!(units.left(), 7);
        units.receive(Millis(1098), 5, 100, 5200);
        assert_eq!(units.left(), 5, "the store was in the next window already");
    }

    #[test]
    fn a_clock_that_jumps_back_takes_them_away() {
        let mut units = Units::default();
        units.receive(Millis(1000), 3, 100, 5100);
        assert!(units.spend(Millis(1090), 1));
        assert!(!units.spend(Millis(1089), 1));
        assert!(!units.spend(Millis(1091), 1));
    }
}

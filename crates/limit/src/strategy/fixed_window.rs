//! `fixedWindow`: a count that resets at every multiple of the window since the epoch.
//!
//! The simplest strategy. Across one boundary up to twice the limit can pass in a short time: at the end of one window and at the
//! beginning of the next.

use keystead_core::{Millis, Result, Script};

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, Windowed, script, window};
use crate::number::exact;
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "fixedWindow",
    required: &["limit", "windowMs"],
    optional: &[],
    about: "a plain count a window; up to twice the limit can pass across one boundary",
    example: r#"{"kind":"fixedWindow","limit":5,"windowMs":1000}"#,
    build,
};

/// `limit` units in every window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedWindow {
    limit: u64,
    window_ms: i64,
}

impl FixedWindow {
    /// `limit` units in every `window_ms`, counted from the epoch.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range.
    pub fn new(limit: u64, window_ms: u64) -> Result<Self> {
        let limit = check::whole("limit", limit)?;
        Ok(FixedWindow { limit, window_ms: check::span_ms("windowMs", window_ms)? as i64 })
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    Ok(AnyStrategy::FixedWindow(FixedWindow::new(fields.whole("limit")?, fields.span_ms("windowMs")?)?))
}

impl Windowed for FixedWindow {
    #[inline]
    fn window(&self, now: i64) -> (i64, i64) {
        let start = now / self.window_ms * self.window_ms;
        (start, exact(start + self.window_ms))
    }
}

impl Strategy for FixedWindow {
    type State = (u64, u64);

    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline(always)]
    fn decide(&self, state: Option<&(u64, u64)>, now: Millis, ask: &Ask) -> Ruling<(u64, u64)> {
        window::decide(self, state, now, ask)
    }

    fn refund(&self, state: &(u64, u64), spent: &Spent, _now: Millis, ask: &Ask) -> Option<(u64, u64)> {
        window::refund(self, state, spent, ask)
    }

    fn charge(&self, state: Option<&(u64, u64)>, now: Millis, ask: &Ask) -> Option<((u64, u64), u64)> {
        FixedWindow { limit: u64::MAX, ..*self }.decide(state, now, ask).put
    }

    fn window_ms(&self) -> f64 {
        self.window_ms as f64
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("fixed_window.lua"), window::SCRIPT];
        let window_ms = self.window_ms.unsigned_abs();
        Some(script("fixedWindow", SOURCE, [ask.cost.into(), self.limit.into(), window_ms.into()]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bounds::{SPAN_MS_MAX, WHOLE_MAX};
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    #[test]
    fn a_window_is_aligned_to_the_epoch() {
        let mut lab = Lab::new(FixedWindow::new(5, 1000).unwrap());
        assert_eq!(lab.check(61_300, 3), allow(5, 2, 62_000));
        assert_eq!((lab.state(), lab.ttl_ms()), (Some(&(61_000, 3)), 700));
        assert_eq!(lab.check(61_300, 3), deny(5, 2, 62_000, 700));
        assert_eq!(lab.check(61_999, 2), allow(5, 0, 62_000));
        assert_eq!(lab.check(61_999, 1), deny(5, 0, 62_000, 1));
        assert_eq!(lab.check(62_000, 5), allow(5, 0, 63_000), "twice the limit across a boundary");
        assert_eq!(lab.check(62_000, 6), deny(5, 0, 63_000, 1000));
    }

    proptest! {
        /// The specification is in doubles.
        #[test]
        fn whole_numbers_find_the_window_that_doubles_find(
            now in prop_oneof![0..=WHOLE_MAX, 1_600_000_000_000..=1_900_000_000_000u64, WHOLE_MAX - 100..=WHOLE_MAX],
            window_ms in prop_oneof![1..=SPAN_MS_MAX, 1..=100_000u64],
            near in any::<bool>(),
        ) {
            // Right before a boundary a quotient is closest to the next whole number.
            let now = if near { (now / window_ms * window_ms).saturating_sub(1) } else { now };
            let (now_f, window_f) = (now as f64, window_ms as f64);
            let start = (now_f / window_f).floor() * window_f;
            let strategy = FixedWindow::new(1, window_ms).unwrap();
            prop_assert_eq!(strategy.window(now as i64), (start as i64, (start + window_f) as i64));
        }
    }

    #[test]
    fn a_window_ahead_of_the_clock_goes_on() {
        let mut lab = Lab::new(FixedWindow::new(5, 1000).unwrap());
        assert_eq!(lab.check(7000, 4), allow(5, 1, 8000));
        assert_eq!(lab.check(5500, 2), deny(5, 1, 8000, 2500), "the clock has jumped back");
        assert_eq!(lab.check(5500, 1), allow(5, 0, 8000));
        assert_eq!(lab.check(7999, 1), deny(5, 0, 8000, 1));
        assert_eq!(lab.check(8000, 1), allow(5, 4, 9000), "and has caught up");
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(FixedWindow::new(0, 1000), "limit must be");
        rejected(FixedWindow::new(1, 0), "windowMs must be");
        rejected(FixedWindow::new(1, u64::MAX), "windowMs must be");
    }
}

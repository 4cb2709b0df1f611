//! `gcra`: the generic cell rate algorithm. One number, an even pace, a burst on top. The default.
//!
//! The state is the theoretical arrival time: when everything admitted so far would be replenished at an even pace.

use keystead_core::{Millis, Result, Script};

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::decision::Decision;
use crate::number::{ceil, double, floor, moment, ttl_ms};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "gcra",
    required: &["limit", "periodMs"],
    optional: &["burst"],
    about: "an even pace with a burst; one number a key; the default",
    example: r#"{"kind":"gcra","limit":5,"periodMs":1000}"#,
    build,
};

/// `limit` units a period at an even pace, up to `burst` of them at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gcra {
    interval_ms: f64,
    burst: u64,
    burst_ms: f64,
}

impl Gcra {
    /// `limit` units every `period_ms`, at most `burst` at once (default: `limit`).
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range, alone or in combination with the others.
    pub fn new(limit: u64, period_ms: u64, burst: Option<u64>) -> Result<Self> {
        let limit = check::whole("limit", limit)? as f64;
        let interval_ms = check::span_ms("periodMs", period_ms)? as f64 / limit;
        check::step_ms("periodMs / limit", interval_ms)?;
        let burst = check::whole("burst", burst.unwrap_or(limit as u64))?;
        let burst_ms = check::replenish_ms("burst", interval_ms * burst as f64)?;
        Ok(Gcra { interval_ms, burst, burst_ms })
    }

    fn left(&self, ahead_ms: f64) -> u64 {
        floor((self.burst_ms - ahead_ms) / self.interval_ms)
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    let (limit, period_ms) = (fields.whole("limit")?, fields.span_ms("periodMs")?);
    Ok(AnyStrategy::Gcra(Gcra::new(limit, period_ms, fields.whole_if("burst")?)?))
}

impl Strategy for Gcra {
    type State = f64;

    fn limit(&self) -> u64 {
        self.burst
    }

    #[inline(always)]
    fn decide(&self, state: Option<&f64>, now: Millis, ask: &Ask) -> Ruling<f64> {
        let now = moment(now);
        let arrival = state.copied().unwrap_or(now).max(now);
        let new = arrival + self.interval_ms * double(ask.cost);
        let allow_at = new - self.burst_ms;
        if now < allow_at {
            let (left, reset_at) = (self.left(arrival - now), ceil(arrival));
            return Ruling::deny(Decision::deny(self.burst, left, reset_at, ceil(allow_at - now)));
        }
        let decision = Decision::allow(self.burst, self.left(new - now), ceil(new));
        Ruling::allow(decision, new, ttl_ms(new - now))
    }

    fn refund(&self, state: &f64, spent: &Spent, now: Millis, ask: &Ask) -> Option<f64> {
        let owed_ms = spent.owed_ms(self.interval_ms, now);
        Some(state - (self.interval_ms * double(ask.cost)).min(owed_ms))
    }

    fn charge(&self, state: Option<&f64>, now: Millis, ask: &Ask) -> Option<(f64, u64)> {
        Gcra { burst_ms: f64::INFINITY, ..*self }.decide(state, now, ask).put
    }

    fn window_ms(&self) -> f64 {
        self.burst_ms
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("gcra.lua")];
        Some(script("gcra", SOURCE, [ask.cost.into(), self.interval_ms.into(), self.burst_ms.into()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    #[test]
    fn a_burst_then_an_even_pace() {
        let mut lab = Lab::new(Gcra::new(10, 1000, Some(3)).unwrap());
        assert_eq!(lab.check(50_000, 1), allow(3, 2, 50_100));
        assert_eq!(lab.check(50_000, 1), allow(3, 1, 50_200));
        assert_eq!(lab.check(50_000, 1), allow(3, 0, 50_300));
        assert_eq!(lab.check(50_000, 1), deny(3, 0, 50_300, 100));
        assert_eq!(lab.check(50_001, 1), deny(3, 0, 50_300, 99));
        assert_eq!(lab.check(50_099, 1), deny(3, 0, 50_300, 1));
        assert_eq!(lab.check(50_100, 1), allow(3, 0, 50_400), "equality allows");
        assert_eq!(lab.check(50_250, 1), allow(3, 0, 50_500));
        assert_eq!(lab.check(50_500, 1), allow(3, 2, 50_600), "all replenished");
    }

    #[test]
    fn a_cost_counts_as_so_many_and_one_above_the_burst_never_passes() {
        let mut lab = Lab::new(Gcra::new(10, 1000, None).unwrap());
        assert_eq!(lab.check(0, 7), allow(10, 3, 700));
        assert_eq!(lab.check(0, 4), deny(10, 3, 700, 100));
        assert_eq!(lab.check(0, 3), allow(10, 0, 1000));
        assert_eq!(lab.check(1_000_000, 11), deny(10, 10, 1_000_000, 100));
        assert_eq!(lab.check(1_000_000, 10), allow(10, 0, 1_001_000));
    }

    #[test]
    fn a_fractional_pace_rounds_up() {
        let mut lab = Lab::new(Gcra::new(3, 1000, Some(1)).unwrap());
        assert_eq!(lab.check(0, 1), allow(1, 0, 334));
        assert_eq!(lab.state(), Some(&(1000.0 / 3.0)));
        assert_eq!(lab.ttl_ms(), 334);
        assert_eq!(lab.check(1, 1), deny(1, 0, 334, 333));
        assert_eq!(lab.check(333, 1), deny(1, 0, 334, 1));
        assert_eq!(lab.check(334, 1), allow(1, 0, 668));
    }

    /// Doubles near the current time are exact to 1/4096 of a millisecond, which bounds the error of a large burst.
    #[test]
    fn a_burst_of_thousands_is_off_by_the_rounding_of_doubles_at_most() {
        let now = 1_700_000_000_123;
        for limit in [10, 100, 1000, 3000, 7000, 10_000, 100_000, 1_000_000] {
            let mut lab = Lab::new(Gcra::new(limit, 1000, None).unwrap());
            let admitted = (0..2 * limit).take_while(|_| lab.check(now, 1).allowed).count() as f64;
            let interval_ms = 1000.0 / limit as f64;
            let share = 1.0 / 8192.0 / interval_ms;
            let off = (admitted - limit as f64).abs();
            assert!(off <= limit as f64 * share * 1.2 + 1e-9, "{admitted} of {limit}");
            assert!(limit > 1000 || off == 0.0, "{admitted} of {limit}: small ones are exact");
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(Gcra::new(0, 1000, None), "limit must be");
        rejected(Gcra::new(1 << 53, 1000, None), "limit must be");
        rejected(Gcra::new(1, 0, None), "periodMs must be");
        rejected(Gcra::new(1, u64::MAX, None), "periodMs must be");
        rejected(Gcra::new(1, 1000, Some(0)), "burst must be");
        rejected(Gcra::new(1, 1000, Some((1 << 53) - 1)), "takes longer");
        rejected(Gcra::new((1 << 53) - 1, 1, None), "periodMs / limit");
    }
}

//! `leakyBucket`: a shaper. It delays requests instead of denying them, and denies only when the queue is too long.
//!
//! The state is the next departure: when the next request may proceed.

use keystead_core::{Millis, Result, Script};

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::bounds::WHOLE_MAX;
use crate::decision::Decision;
use crate::number::{ceil, double, floor, moment, ttl_ms};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "leakyBucket",
    required: &["ratePerSec", "maxQueueMs"],
    optional: &[],
    about: "an even flow out: requests wait for their turn",
    example: r#"{"kind":"leakyBucket","ratePerSec":5,"maxQueueMs":800}"#,
    build,
};

/// One unit after the other at a steady rate, with a bounded wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeakyBucket {
    interval_ms: f64,
    max_queue_ms: f64,
    limit: u64,
}

impl LeakyBucket {
    /// `rate_per_sec` units proceed a second; a request that would wait longer than `max_queue_ms` is denied.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range.
    pub fn new(rate_per_sec: f64, max_queue_ms: u64) -> Result<Self> {
        let interval_ms = 1000.0 / check::rate_per_sec("ratePerSec", rate_per_sec)?;
        check::replenish_ms("ratePerSec", interval_ms)?;
        check::step_ms("1000 / ratePerSec", interval_ms)?;
        // 0 is valid: a request that cannot proceed at once is denied.
        let max_queue_ms = match max_queue_ms {
            0 => 0.0,
            _ => check::span_ms("maxQueueMs", max_queue_ms)? as f64,
        };
        let mut shaper = LeakyBucket { interval_ms, max_queue_ms, limit: 0 };
        shaper.limit = shaper.free(0.0);
        Ok(shaper)
    }

    /// How many single units would still be queued when the next departure is `delay_ms` away.
    fn free(&self, delay_ms: f64) -> u64 {
        if delay_ms > self.max_queue_ms {
            return 0;
        }
        (floor((self.max_queue_ms - delay_ms) / self.interval_ms) + 1).min(WHOLE_MAX)
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    let shaper = LeakyBucket::new(fields.number("ratePerSec")?, fields.span_ms("maxQueueMs")?)?;
    Ok(AnyStrategy::LeakyBucket(shaper))
}

impl Strategy for LeakyBucket {
    type State = f64;

    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline(always)]
    fn decide(&self, state: Option<&f64>, now: Millis, ask: &Ask) -> Ruling<f64> {
        let now = moment(now);
        let departure = state.copied().unwrap_or(now).max(now);
        let delay = departure - now;
        // A cost of 0 is never denied and reports the current state.
        if delay > self.max_queue_ms && ask.cost > 0 {
            let retry_after_ms = ceil(delay - self.max_queue_ms);
            return Ruling::deny(Decision::deny(self.limit, 0, ceil(departure), retry_after_ms));
        }
        let next = departure + self.interval_ms * double(ask.cost);
        let mut decision = Decision::allow(self.limit, self.free(next - now), ceil(next));
        decision.delay_ms = Some(ceil(delay));
        Ruling::allow(decision, next, ttl_ms(next - now))
    }

    fn refund(&self, state: &f64, spent: &Spent, now: Millis, ask: &Ask) -> Option<f64> {
        let owed_ms = spent.owed_ms(self.interval_ms, now);
        Some(state - (self.interval_ms * double(ask.cost)).min(owed_ms))
    }

    fn charge(&self, state: Option<&f64>, now: Millis, ask: &Ask) -> Option<(f64, u64)> {
        LeakyBucket { max_queue_ms: f64::INFINITY, ..*self }.decide(state, now, ask).put
    }

    fn window_ms(&self) -> f64 {
        self.max_queue_ms.max(self.interval_ms)
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("leaky_bucket.lua")];
        Some(script(
            "leakyBucket",
            SOURCE,
            [ask.cost.into(), self.interval_ms.into(), self.max_queue_ms.into()],
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    fn wait(delay_ms: u64, decision: Decision) -> Decision {
        Decision { delay_ms: Some(delay_ms), ..decision }
    }

    #[test]
    fn units_leave_one_after_the_other() {
        let mut lab = Lab::new(LeakyBucket::new(10.0, 250).unwrap());
        assert_eq!(lab.check(5000, 1), wait(0, allow(3, 2, 5100)));
        assert_eq!(lab.check(5000, 1), wait(100, allow(3, 1, 5200)));
        assert_eq!(lab.check(5000, 1), wait(200, allow(3, 0, 5300)));
        assert_eq!(lab.check(5000, 1), deny(3, 0, 5300, 50), "300 ms is longer than 250");
        assert_eq!(lab.check(5050, 1), wait(250, allow(3, 0, 5400)), "equality is allowed");
        assert_eq!(
            lab.check(9000, 5),
            wait(0, allow(3, 0, 9500)),
            "the first request proceeds at once, whatever its cost"
        );
        assert_eq!(lab.check(9000, 1), deny(3, 0, 9500, 250));
    }

    #[test]
    fn a_fractional_rate_rounds_the_wait_up() {
        let mut lab = Lab::new(LeakyBucket::new(3.0, 1000).unwrap());
        assert_eq!(lab.check(0, 1).delay_ms, Some(0));
        assert_eq!(lab.check(0, 1).delay_ms, Some(334));
        assert_eq!(lab.check(0, 1).delay_ms, Some(667));
    }

    #[test]
    fn without_a_queue_only_what_can_proceed_at_once_is_allowed() {
        let mut lab = Lab::new(LeakyBucket::new(1.0, 0).unwrap());
        assert_eq!(lab.check(0, 1), wait(0, allow(1, 0, 1000)));
        assert_eq!(lab.check(999, 1), deny(1, 0, 1000, 1));
        assert_eq!(lab.check(1000, 1), wait(0, allow(1, 0, 2000)));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, f64::MIN_POSITIVE / 4.0, 1e-300] {
            rejected(LeakyBucket::new(rate, 1000), "");
        }
        rejected(LeakyBucket::new(1.0, u64::MAX), "maxQueueMs must be");
    }
}

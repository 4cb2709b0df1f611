//! `tokenBucket`: a bucket that is refilled all the time, up to its capacity.
//!
//! The state is (tokens, when they were counted). When the clock jumps back nothing is refilled until it moves on again,
//! so what passes is never more than the capacity and what the clock's own way forward has refilled.

use keystead_core::{Millis, Result};

use super::{AnyStrategy, Ask, Kind, Ruling, Strategy};
use crate::decision::Decision;
use crate::limits::WHOLE_MAX;
use crate::number::{ceil, double, floor, moment, ttl_ms, whole_moment};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "tokenBucket",
    required: &["capacity", "refillPerSec"],
    optional: &[],
    about: "bursts up to the capacity, a steady rate over time",
    build,
};

/// `capacity` tokens, refilled at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    capacity: u64,
    refill_per_ms: f64,
    /// How long an empty bucket takes to fill, which is how long its state must live.
    fill_ms: u64,
}

impl TokenBucket {
    /// `capacity` tokens at most, `refill_per_sec` new ones a second.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range or the bucket would take too long to fill.
    pub fn new(capacity: u64, refill_per_sec: f64) -> Result<Self> {
        let capacity = check::whole("capacity", capacity)?;
        let refill_per_ms = check::rate_per_sec("refillPerSec", refill_per_sec)? / 1000.0;
        let fill_ms = ttl_ms(check::replenish_ms("capacity", capacity as f64 / refill_per_ms)?);
        Ok(TokenBucket { capacity, refill_per_ms, fill_ms })
    }

    /// What is in the bucket.
    #[inline(always)]
    fn tokens(&self, state: Option<&(f64, u64)>, now: f64) -> f64 {
        let capacity = double(self.capacity);
        match state {
            Some((tokens, last)) => {
                let filled = tokens + (now - moment(Millis(*last))).max(0.0) * self.refill_per_ms;
                // The smaller one. Not by `min`, which costs as much as all the rest where neither is known to be a number.
                if filled < capacity { filled } else { capacity }
            }
            None => capacity,
        }
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    Ok(AnyStrategy::TokenBucket(TokenBucket::new(fields.whole("capacity")?, fields.number("refillPerSec")?)?))
}

impl Strategy for TokenBucket {
    type State = (f64, u64);

    fn limit(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn decide(&self, state: Option<&(f64, u64)>, at: Millis, ask: &Ask) -> Ruling<(f64, u64)> {
        let (capacity, rate, cost) = (double(self.capacity), self.refill_per_ms, double(ask.cost));
        let now = whole_moment(at);
        let tokens = self.tokens(state, double(now));
        // When the bucket is full. A sum of whole numbers up to 2^53 - 1 is the same in doubles and in integers, and the
        // integers are at hand sooner.
        let full_at = |tokens: f64| (now + ceil((capacity - tokens) / rate)).min(WHOLE_MAX);
        if tokens >= cost {
            let left = tokens - cost;
            let decision = Decision::allow(self.capacity, floor(left), full_at(left));
            return Ruling::allow(decision, (left, now), self.fill_ms);
        }
        let reset_at = full_at(tokens);
        let retry_after_ms = ceil((cost - tokens) / rate);
        Ruling::deny(Decision::deny(self.capacity, floor(tokens), reset_at, retry_after_ms))
    }

    fn refund(&self, state: &(f64, u64), _at: Millis, ask: &Ask) -> Option<(f64, u64)> {
        Some(((state.0 + ask.cost as f64).min(self.capacity as f64), state.1))
    }

    fn charge(&self, state: Option<&(f64, u64)>, now: Millis, ask: &Ask) -> Option<((f64, u64), u64)> {
        let now = moment(now);
        let left = self.tokens(state, now) - double(ask.cost);
        Some(((left, floor(now)), ttl_ms((double(self.capacity) - left) / self.refill_per_ms)))
    }

    fn window_ms(&self) -> f64 {
        self.capacity as f64 / self.refill_per_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, refused};

    #[test]
    fn a_cold_bucket_is_full_and_refills() {
        let mut lab = Lab::new(TokenBucket::new(10, 2.0).unwrap());
        assert_eq!(lab.check(1000, 4), allow(10, 6, 3000));
        assert_eq!(lab.state(), Some(&(6.0, 1000)));
        assert_eq!(lab.ttl_ms(), 5000);
        assert_eq!(lab.check(1000, 7), deny(10, 6, 3000, 500));
        assert_eq!(lab.check(1250, 7), deny(10, 6, 3000, 250));
        assert_eq!(lab.check(1499, 7), deny(10, 6, 3000, 1));
        assert_eq!(lab.check(1500, 7), allow(10, 0, 6500));
        assert_eq!(lab.check(1750, 1), deny(10, 0, 6500, 250));
        assert_eq!(lab.check(100_000, 1), allow(10, 9, 100_500), "never more than full");
    }

    #[test]
    fn nothing_is_refilled_while_the_clock_is_back() {
        let mut lab = Lab::new(TokenBucket::new(10, 1.0).unwrap());
        assert_eq!(lab.check(100_000, 10), allow(10, 0, 110_000));
        assert_eq!(lab.check(40_000, 1), deny(10, 0, 50_000, 1000));
        assert_eq!(lab.check(101_000, 1), allow(10, 0, 111_000), "a denial has left the time of the count");
    }

    #[test]
    fn parameters_that_cannot_work_are_refused() {
        refused(TokenBucket::new(0, 1.0), "capacity must be");
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, f64::MIN_POSITIVE / 4.0] {
            refused(TokenBucket::new(10, rate), "");
        }
        refused(TokenBucket::new(10, 0.0), "refillPerSec must be");
        refused(TokenBucket::new(10, 1e-300), "takes longer");
        refused(TokenBucket::new((1 << 53) - 1, 1.0), "takes longer");
    }
}

//! `tokenBucket`: a bucket that is refilled continuously, up to its capacity.
//!
//! The state is (tokens, when they were counted). The time of the count never goes back with the clock, so no time is refilled
//! twice. Until the clock has caught up nothing is refilled; a state that is not used in the meantime expires, that is, becomes full.

use keystead_core::{Millis, Result, Script};

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::bounds::WHOLE_MAX;
use crate::decision::Decision;
use crate::number::{ceil, double, floor, ttl_ms, whole_moment};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "tokenBucket",
    required: &["capacity", "refillPerSec"],
    optional: &[],
    about: "bursts up to the capacity, a steady rate over time",
    example: r#"{"kind":"tokenBucket","capacity":5,"refillPerSec":5}"#,
    build,
};

/// `capacity` tokens, refilled at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    capacity: u64,
    refill_per_ms: f64,
    /// How long an empty bucket takes to fill, which is the TTL of its state.
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

    /// The tokens in the bucket. A difference of whole numbers is the same in doubles and in integers, here and below, and integers are
    /// faster.
    #[inline]
    fn tokens(&self, state: Option<&(f64, u64)>, now: u64) -> f64 {
        let capacity = double(self.capacity);
        match state {
            Some((tokens, last)) => {
                let filled = match now.saturating_sub(whole_moment(Millis(*last))) {
                    // The fast path of a busy key: no time has passed, so there is nothing to add.
                    0 => *tokens,
                    elapsed_ms => tokens + double(elapsed_ms) * self.refill_per_ms,
                };
                // A comparison, because `f64::min` is slower: it handles NaN.
                if filled < capacity { filled } else { capacity }
            }
            None => capacity,
        }
    }
}

/// The time of the count: the latest time of any check.
#[inline]
fn counted_at(state: Option<&(f64, u64)>, now: u64) -> u64 {
    state.map_or(now, |(_, last)| now.max(whole_moment(Millis(*last))))
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
        let tokens = self.tokens(state, now);
        let full_at = |tokens: f64| (now + ceil((capacity - tokens) / rate)).min(WHOLE_MAX);
        if tokens >= cost {
            let left = tokens - cost;
            let decision = Decision::allow(self.capacity, floor(left), full_at(left));
            return Ruling::allow(decision, (left, counted_at(state, now)), self.fill_ms);
        }
        let reset_at = full_at(tokens);
        let retry_after_ms = ceil((cost - tokens) / rate);
        Ruling::deny(Decision::deny(self.capacity, floor(tokens), reset_at, retry_after_ms))
    }

    fn refund(&self, state: &(f64, u64), spent: &Spent, now: Millis, ask: &Ask) -> Option<(f64, u64)> {
        let owed = spent.owed_ms(1.0 / self.refill_per_ms, now) * self.refill_per_ms;
        Some(((state.0 + double(ask.cost).min(owed)).min(self.capacity as f64), state.1))
    }

    fn charge(&self, state: Option<&(f64, u64)>, now: Millis, ask: &Ask) -> Option<((f64, u64), u64)> {
        let now = whole_moment(now);
        let left = self.tokens(state, now) - double(ask.cost);
        let at = counted_at(state, now);
        Some(((left, at), ttl_ms((double(self.capacity) - left) / self.refill_per_ms)))
    }

    fn window_ms(&self) -> f64 {
        self.capacity as f64 / self.refill_per_ms
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("token_bucket.lua")];
        let bucket = [self.capacity.into(), self.refill_per_ms.into(), self.fill_ms.into()];
        let [capacity, refill_per_ms, fill_ms] = bucket;
        Some(script("tokenBucket", SOURCE, [ask.cost.into(), capacity, refill_per_ms, fill_ms]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategy::Strategy as _;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

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

    proptest! {
        /// The specification is in doubles, and in this order.
        #[test]
        fn a_check_is_what_doubles_make_of_it(
            now in prop_oneof![0..=WHOLE_MAX, 1_600_000_000_000..=1_900_000_000_000u64, WHOLE_MAX - 100..=WHOLE_MAX],
            ago in 0..10_000u64,
            (capacity, rate, cost) in (1..1_000_000u64, 0.01..1e6f64, 1..1000u64),
            share in -0.5..1.0f64,
        ) {
            let bucket = TokenBucket::new(capacity, rate).unwrap();
            let state = (capacity as f64 * share, now.saturating_sub(ago));
            let ruling = bucket.decide(Some(&state), Millis(now), &Ask::units(cost));
            let (cap, rate, now_f, cost) = (capacity as f64, rate / 1000.0, now as f64, cost as f64);
            let tokens = cap.min(state.0 + (now_f - state.1 as f64).max(0.0) * rate);
            let left = if tokens >= cost { tokens - cost } else { tokens };
            let reset_at = floor(now_f + double(ceil((cap - left) / rate)));
            prop_assert_eq!(ruling.decision.reset_at, reset_at);
            prop_assert_eq!(ruling.decision.remaining, floor(left));
            let put = (tokens >= cost).then(|| ((left, floor(now_f)), ttl_ms(cap / rate)));
            prop_assert_eq!(ruling.put, put);
        }
    }

    #[test]
    fn nothing_is_refilled_while_the_clock_is_back() {
        let mut lab = Lab::new(TokenBucket::new(10, 1.0).unwrap());
        assert_eq!(lab.check(100_000, 10), allow(10, 0, 110_000));
        assert_eq!(lab.check(40_000, 1), deny(10, 0, 50_000, 1000));
        assert_eq!(
            lab.check(101_000, 1),
            allow(10, 0, 111_000),
            "a denial has not changed the time of the count"
        );
    }

    #[test]
    fn no_time_is_refilled_twice() {
        let mut lab = Lab::new(TokenBucket::new(10, 1.0).unwrap());
        assert_eq!(lab.check(100_000, 5), allow(10, 5, 105_000));
        assert_eq!(lab.check(95_000, 1), allow(10, 4, 101_000));
        assert_eq!(lab.state(), Some(&(4.0, 100_000)), "the latest time counts");
        assert_eq!(lab.check(100_000, 1), allow(10, 3, 107_000));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(TokenBucket::new(0, 1.0), "capacity must be");
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, f64::MIN_POSITIVE / 4.0] {
            rejected(TokenBucket::new(10, rate), "");
        }
        rejected(TokenBucket::new(10, 0.0), "refillPerSec must be");
        rejected(TokenBucket::new(10, 1e-300), "takes longer");
        rejected(TokenBucket::new((1 << 53) - 1, 1.0), "takes longer");
    }
}

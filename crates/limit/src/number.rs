//! Conversion of doubles to the whole numbers of a decision, so that every strategy rounds alike.
//!
//! Casts instead of `floor` and `ceil`: on baseline x86-64 those are library calls, and a check has several.

use keystead_core::Millis;

use crate::bounds::WHOLE_MAX;

/// A double rounded down to a whole number of a decision: never negative, never over [`WHOLE_MAX`].
#[inline]
pub(crate) fn floor(number: f64) -> u64 {
    // A cast truncates, saturates, and converts NaN to 0.
    whole(number as i64)
}

/// A double rounded up to a whole number of a decision.
#[inline]
pub(crate) fn ceil(number: f64) -> u64 {
    let below = number as i64;
    let up = i64::from((below as f64) < number);
    whole(below.saturating_add(up))
}

/// A whole number as a double. Numbers above [`WHOLE_MAX`], which only a broken clock shows, are clamped to it.
#[inline]
pub(crate) fn double(number: u64) -> f64 {
    number.min(WHOLE_MAX) as i64 as f64
}

/// A time as a double, clamped to the range of exact doubles.
#[inline]
pub(crate) fn moment(now: Millis) -> f64 {
    double(whole_moment(now))
}

/// The same as a whole number.
#[inline]
pub(crate) fn whole_moment(now: Millis) -> u64 {
    now.0.min(WHOLE_MAX)
}

/// A whole number, clamped to the range of decisions.
#[inline]
pub(crate) fn whole(number: i64) -> u64 {
    number.clamp(0, WHOLE_MAX as i64) as u64
}

/// A whole number as it is after conversion to a double and back, which differs only for a broken clock.
#[inline]
pub(crate) fn exact(number: i64) -> i64 {
    match number <= WHOLE_MAX as i64 {
        true => number,
        false => number as f64 as i64,
    }
}

/// The TTL of a state that must be kept for at least `ms`.
#[inline]
pub(crate) fn ttl_ms(ms: f64) -> u64 {
    ceil(ms).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The specification, with the functions of the standard library.
    fn in_range(number: f64) -> u64 {
        (number as u64).min(WHOLE_MAX)
    }

    proptest! {
        #[test]
        fn rounding_is_that_of_the_library(any in any::<f64>(), near in -2.0f64..1e7, far in 1e15f64..1e16) {
            for number in [any, near, far, near.floor(), near.ceil(), far.floor(), f64::INFINITY, f64::NAN, -0.0] {
                prop_assert_eq!(floor(number), in_range(number.floor()), "{}", number);
                prop_assert_eq!(ceil(number), in_range(number.ceil()), "{}", number);
            }
        }
    }

    #[test]
    fn moments_are_exact_as_far_as_doubles_are() {
        assert_eq!(moment(Millis(1_700_000_000_123)), 1_700_000_000_123.0);
        assert_eq!(moment(Millis(u64::MAX)), 9_007_199_254_740_991.0);
    }
}

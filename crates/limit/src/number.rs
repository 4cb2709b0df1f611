//! From doubles to the whole numbers of a decision, in one place, so that every strategy rounds the same way.

use keystead_core::Millis;

use crate::limits::WHOLE_MAX;

/// A double as a whole number of a decision: never negative, never over [`WHOLE_MAX`].
#[inline]
pub(crate) fn whole(number: f64) -> u64 {
    // A cast of a double saturates, and NaN becomes 0.
    (number as u64).min(WHOLE_MAX)
}

/// A moment as a double. Clocks beyond the range of exact doubles stand still at its end.
#[inline]
pub(crate) fn moment(now: Millis) -> f64 {
    now.0.min(WHOLE_MAX) as f64
}

/// How long a state lives that must live at least `ms`.
#[inline]
pub(crate) fn ttl_ms(ms: f64) -> u64 {
    whole(ms.ceil()).max(1)
}

//! Validation of the numbers of a policy. A valid policy only makes finite decisions.

use keystead_core::{Code, Error, Result};

use crate::bounds::{RATE_PER_SEC_MAX, REPLENISH_MS_MAX, SPAN_MS_MAX, STEP_MS_MIN, WHOLE_MAX};

pub(crate) fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(Code::ConfigInvalid, message))
}

/// A count: at least 1.
pub(crate) fn whole(name: &str, number: u64) -> Result<u64> {
    up_to(name, number, WHOLE_MAX)
}

/// A count from 1 to `max`.
pub(crate) fn up_to(name: &str, number: u64, max: u64) -> Result<u64> {
    match (1..=max).contains(&number) {
        true => Ok(number),
        false => invalid(format!("{name} must be a whole number from 1 to {max}, not {number}")),
    }
}

/// A duration.
pub(crate) fn span_ms(name: &str, ms: u64) -> Result<u64> {
    match (1..=SPAN_MS_MAX).contains(&ms) {
        true => Ok(ms),
        false => {
            invalid(format!("{name} must be from 1 to {SPAN_MS_MAX} milliseconds (100 years), not {ms}"))
        }
    }
}

/// A time since the epoch.
pub(crate) fn moment(name: &str, ms: u64) -> Result<u64> {
    match ms <= SPAN_MS_MAX {
        true => Ok(ms),
        false => invalid(format!("{name} must be a moment from 0 to {SPAN_MS_MAX}, not {ms}")),
    }
}

/// The time between two units: it must be larger than the rounding error of a double near the current time.
pub(crate) fn step_ms(what: &str, ms: f64) -> Result<f64> {
    match ms.is_finite() && ms >= STEP_MS_MIN {
        true => Ok(ms),
        false => invalid(format!("{what} must be at least 1/1024 of a millisecond, not {ms:e}")),
    }
}

/// How long a policy takes to replenish.
pub(crate) fn replenish_ms(name: &str, ms: f64) -> Result<f64> {
    match ms.is_finite() && ms <= REPLENISH_MS_MAX {
        true => Ok(ms),
        false => {
            invalid(format!("{name}: this policy takes longer than {REPLENISH_MS_MAX:e} ms to replenish"))
        }
    }
}

/// Units a second.
pub(crate) fn rate_per_sec(name: &str, rate: f64) -> Result<f64> {
    match rate.is_normal() && rate > 0.0 && rate <= RATE_PER_SEC_MAX {
        true => Ok(rate),
        false => invalid(format!("{name} must be above 0 and at most {RATE_PER_SEC_MAX}, not {rate:e}")),
    }
}

pub(crate) fn between(name: &str, number: i64, min: i64, max: i64) -> Result<()> {
    match (min..=max).contains(&number) {
        true => Ok(()),
        false => invalid(format!("{name} must be from {min} to {max}, not {number}")),
    }
}

/// Whether the largest state still fits into a store.
pub(crate) fn fits(name: &str, fits: bool) -> Result<()> {
    match fits {
        true => Ok(()),
        false => invalid(format!(
            "{name} is too large: a key's state would not fit into a store (take fewer buckets, or slidingWindow instead of a log)"
        )),
    }
}

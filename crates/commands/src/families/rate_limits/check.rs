//! What `THROTTLE` and `CL.THROTTLE` share: their arguments, and the check itself. It touches the keyspace.
//!
//! The algorithm is `gcra` of keystead-limit. Its state is stored in the key like that of any step, so a check is an ordinary
//! atomic write, and a denied check or one with quantity 0 writes nothing.

use std::ops::RangeInclusive;

use keystead_core::{Code, Error};
use keystead_limit::Decision;
use keystead_limit::strategy::{Ask, Check, Forecast, Gcra};

use crate::bounds::{THROTTLE_PERIOD_SECONDS_MAX, THROTTLE_UNITS_MAX};
use crate::errors::{self, Fail};
use crate::number;
use crate::{Args, Ctx};

/// The result of a check.
pub(super) struct Checked {
    pub(super) decision: Decision,
    /// The requested units.
    pub(super) quantity: u64,
    /// Milliseconds until the limit is fully replenished.
    pub(super) reset_after_ms: u64,
}

/// Runs the check of `key max_burst count_per_period period [quantity]`. A replenished key admits `max_burst` plus
/// `beside` units at once.
pub(super) fn check(ctx: &mut Ctx<'_>, args: Args<'_>, name: &str, beside: u64) -> Result<Checked, Fail> {
    if args.len() > 6 {
        return Err(errors::wrong_arity(name));
    }
    let units = 1..=THROTTLE_UNITS_MAX;
    let burst = whole(args, 2, "max_burst", 1 - beside..=THROTTLE_UNITS_MAX - beside)? + beside;
    let count = whole(args, 3, "count_per_period", units)?;
    let period = whole(args, 4, "period", 1..=THROTTLE_PERIOD_SECONDS_MAX)?;
    let quantity = if args.len() == 6 { whole(args, 5, "quantity", 0..=THROTTLE_UNITS_MAX)? } else { 1 };
    let strategy = Gcra::new(count, period * 1000, Some(burst)).map_err(|error| inconsistent(&error))?;
    let (key, ask) = (args.at(1), Ask::units(quantity));
    let outcome = match quantity {
        0 => ctx.keys.apply(key, &Forecast { strategy, ask, after_ms: 0 }, ctx.now),
        _ => ctx.keys.apply(key, &Check { strategy, ask, at: None }, ctx.now),
    };
    let (decision, now) = outcome.map_err(to_fail)?;
    Ok(Checked { decision, quantity, reset_after_ms: decision.reset_at.saturating_sub(now.0) })
}

fn whole(args: Args<'_>, index: usize, name: &str, range: RangeInclusive<u64>) -> Result<u64, Fail> {
    let number = number::parse_int(args.at(index)).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (min, max) = range.into_inner();
        Fail::text(format!("ERR invalid {name}: it must be a whole number from {min} to {max}"))
    })
}

/// Numbers that are valid on their own, but not together: a rate that is too high, or a replenishment that takes too long.
#[cold]
fn inconsistent(error: &Error) -> Fail {
    Fail::text(format!("ERR max_burst, count_per_period and period do not go together: {}", error.message()))
}

#[cold]
fn to_fail(error: Error) -> Fail {
    if error.code() == Code::WrongType { errors::WRONG_TYPE } else { error.into() }
}

/// An integer of a reply. The numbers of a decision are at most 2^53 - 1.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

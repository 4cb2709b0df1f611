//! Rate limits with their parameters in the command: the table of this family.

mod check;
mod cl_throttle;
mod throttle;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::WRITE_OOM_FAST;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("cl.throttle", -5, WRITE_OOM_FAST, Keys::At(1), cl_throttle::cl_throttle).doc(
        "key max_burst count_per_period period [quantity]",
        "Checks a GCRA rate limit and consumes quota if the request is allowed. Compatible with redis-cell in arguments and reply.",
        "0.1.0",
    ),
    Spec::data("throttle", -5, WRITE_OOM_FAST, Keys::At(1), throttle::throttle).doc(
        "key max_burst count_per_period period [quantity]",
        "Checks a GCRA rate limit and consumes quota if the request is allowed. Compatible with throttlecrab in arguments and reply.",
        "0.1.0",
    ),
];

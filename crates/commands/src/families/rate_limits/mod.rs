//! Rate limits whose numbers come with the command: the table of this family.

mod check;
mod cl_throttle;
mod throttle;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::WRITE_OOM_FAST;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("CL.THROTTLE", "cl.throttle", -5, WRITE_OOM_FAST, Keys::At(1), cl_throttle::run).doc(
        "key max_burst count_per_period period [quantity]",
        "Asks a rate limit, and consumes when it is allowed; arguments and answer are those of redis-cell.",
        "0.1.0",
    ),
    Spec::data("THROTTLE", "throttle", -5, WRITE_OOM_FAST, Keys::At(1), throttle::run).doc(
        "key max_burst count_per_period period [quantity]",
        "Asks a rate limit, and consumes when it is allowed; arguments and answer are those of throttlecrab.",
        "0.1.0",
    ),
];

//! The rows of transactions. They only steer: `dispatch` and the doors know what they mean.

use crate::spec::flag::{FAST, NO_SCRIPT, and};
use crate::spec::{Control, Flags, Spec};

const STEERS: Flags = and(FAST, NO_SCRIPT);

pub(crate) const TABLE: &[Spec] = &[
    Spec::control("MULTI", "multi", 1, STEERS, Control::Multi).doc(
        "",
        "Begins a transaction: what follows is queued.",
        "1.2.0",
    ),
    Spec::control("EXEC", "exec", 1, NO_SCRIPT, Control::Exec).doc(
        "",
        "Runs what was queued as one change, unless a watched key has changed.",
        "1.2.0",
    ),
    Spec::control("DISCARD", "discard", 1, STEERS, Control::Discard).doc(
        "",
        "Forgets what was queued, and the watched keys.",
        "2.0.0",
    ),
    Spec::control("WATCH", "watch", -2, STEERS, Control::Watch).doc(
        "key [key ...]",
        "Lets the next transaction run only if these keys stay as they are.",
        "2.2.0",
    ),
    Spec::control("UNWATCH", "unwatch", 1, STEERS, Control::Unwatch).doc(
        "",
        "Forgets the watched keys.",
        "2.2.0",
    ),
];

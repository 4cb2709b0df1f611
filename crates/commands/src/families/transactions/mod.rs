//! The rows of transactions. `dispatch` and the listeners implement them.

use crate::spec::flag::{FAST, NO_SCRIPT, and};
use crate::spec::{Control, Flags, Spec};

const CONTROL_FLAGS: Flags = and(FAST, NO_SCRIPT);

pub(crate) const TABLE: &[Spec] = &[
    Spec::control("multi", 1, CONTROL_FLAGS, Control::Multi).doc(
        "",
        "Starts a transaction: the commands that follow are queued.",
        "1.2.0",
    ),
    Spec::control("exec", 1, NO_SCRIPT, Control::Exec).doc(
        "",
        "Executes the queued commands of a transaction atomically, unless a watched key was modified.",
        "1.2.0",
    ),
    Spec::control("discard", 1, CONTROL_FLAGS, Control::Discard).doc(
        "",
        "Discards a transaction and unwatches all keys.",
        "2.0.0",
    ),
    Spec::control("watch", -2, CONTROL_FLAGS, Control::Watch).doc(
        "key [key ...]",
        "Watches keys: the next transaction is not executed if one of them is modified before EXEC.",
        "2.2.0",
    ),
    Spec::control("unwatch", 1, CONTROL_FLAGS, Control::Unwatch).doc(
        "",
        "Unwatches all keys of the connection.",
        "2.2.0",
    ),
];

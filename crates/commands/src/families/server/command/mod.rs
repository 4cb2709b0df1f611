//! COMMAND: what the table says of itself.

pub(super) mod about;
mod docs;
mod getkeys;
mod info;
mod list;
mod syntax;

use crate::help;
use crate::spec::Spec;
use crate::spec::flag::NONE;

/// INFO comes first: `COMMAND` alone does the same.
pub(super) const TABLE: &[Spec] = &[
    Spec::conn("INFO", "command|info", -2, NONE, info::run).doc(
        "[command-name [command-name ...]]",
        "Tells how commands are called: all of them, or these. COMMAND alone does the same.",
        "2.8.13",
    ),
    Spec::conn("COUNT", "command|count", 2, NONE, list::count).doc(
        "",
        "Gives how many commands there are.",
        "2.8.13",
    ),
    Spec::conn("LIST", "command|list", -2, NONE, list::list).doc(
        "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
        "Gives the names of commands.",
        "7.0.0",
    ),
    Spec::conn("DOCS", "command|docs", -2, NONE, docs::run).doc(
        "[command-name [command-name ...]]",
        "Tells what commands do.",
        "7.0.0",
    ),
    Spec::conn("GETKEYS", "command|getkeys", -3, NONE, getkeys::keys).doc(
        "command [arg [arg ...]]",
        "Gives the keys among the arguments of a command.",
        "2.8.13",
    ),
    Spec::conn("GETKEYSANDFLAGS", "command|getkeysandflags", -3, NONE, getkeys::keys_and_flags).doc(
        "command [arg [arg ...]]",
        "Gives the keys among the arguments of a command, and what it does with them.",
        "7.0.0",
    ),
    Spec::conn("HELP", "command|help", 2, NONE, help::conn).doc("", "Prints this help.", "5.0.0"),
];

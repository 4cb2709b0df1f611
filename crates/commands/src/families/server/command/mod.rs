//! COMMAND: introspection of the command table.

pub(super) mod about;
mod docs;
mod getkeys;
mod info;
mod list;
mod syntax;

use crate::help;
use crate::spec::Spec;
use crate::spec::flag::NONE;

/// INFO is first: `COMMAND` alone does the same.
pub(super) const TABLE: &[Spec] = &[
    Spec::conn("command|info", -2, NONE, info::info).doc(
        "[command-name [command-name ...]]",
        "Returns information about one, several or all commands. COMMAND without a subcommand does the same.",
        "2.8.13",
    ),
    Spec::conn("command|count", 2, NONE, list::count).doc("", "Returns the number of commands.", "2.8.13"),
    Spec::conn("command|list", -2, NONE, list::list).doc(
        "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
        "Returns the names of the commands.",
        "7.0.0",
    ),
    Spec::conn("command|docs", -2, NONE, docs::docs).doc(
        "[command-name [command-name ...]]",
        "Returns the documentation of one, several or all commands.",
        "7.0.0",
    ),
    Spec::conn("command|getkeys", -3, NONE, getkeys::getkeys).doc(
        "command [arg [arg ...]]",
        "Returns the keys among the arguments of a command.",
        "2.8.13",
    ),
    Spec::conn("command|getkeysandflags", -3, NONE, getkeys::getkeysandflags).doc(
        "command [arg [arg ...]]",
        "Returns the keys among the arguments of a command and how the command accesses them.",
        "7.0.0",
    ),
    Spec::conn("command|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of COMMAND.",
        "5.0.0",
    ),
];

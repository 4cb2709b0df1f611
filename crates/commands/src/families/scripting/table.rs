//! The rows of this family. It touches nothing.

use super::{eval, fcall, function, script};
use crate::help;
use crate::keys_of::Keys;
use crate::spec::Flags;
use crate::spec::Spec;
use crate::spec::flag::{NO_SCRIPT, NONE, READ, WRITE, and};

/// It may write, and does not call itself.
const RUNS: Flags = and(WRITE, NO_SCRIPT);
/// It reads only.
const READS: Flags = and(READ, NO_SCRIPT);

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("EVAL", "eval", -3, RUNS, Keys::Counted(2), eval::eval).doc(
        "script numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a script.",
        "2.6.0",
    ),
    Spec::data("EVALSHA", "evalsha", -3, RUNS, Keys::Counted(2), eval::evalsha).doc(
        "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a script that is known by its SHA1.",
        "2.6.0",
    ),
    Spec::data("EVAL_RO", "eval_ro", -3, READS, Keys::Counted(2), eval::eval_ro).doc(
        "script numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a script that may only read.",
        "7.0.0",
    ),
    Spec::data("EVALSHA_RO", "evalsha_ro", -3, READS, Keys::Counted(2), eval::evalsha_ro).doc(
        "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a script that is known by its SHA1 and may only read.",
        "7.0.0",
    ),
    Spec::data("FCALL", "fcall", -3, RUNS, Keys::Counted(2), fcall::fcall).doc(
        "function numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a function of a library.",
        "7.0.0",
    ),
    Spec::data("FCALL_RO", "fcall_ro", -3, READS, Keys::Counted(2), fcall::fcall_ro).doc(
        "function numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a function of a library that only reads.",
        "7.0.0",
    ),
    Spec::within("SCRIPT", "script", SCRIPT),
    Spec::within("FUNCTION", "function", FUNCTION),
];

const SCRIPT: &[Spec] = &[
    Spec::shared("LOAD", "script|load", 3, NO_SCRIPT, script::load).doc(
        "script",
        "Remembers a script and gives its SHA1.",
        "2.6.0",
    ),
    Spec::shared("EXISTS", "script|exists", -3, NO_SCRIPT, script::exists).doc(
        "sha1 [sha1 ...]",
        "Tells which scripts are known.",
        "2.6.0",
    ),
    Spec::shared("FLUSH", "script|flush", -2, NO_SCRIPT, script::flush).doc(
        "[ASYNC | SYNC]",
        "Forgets all scripts.",
        "2.6.0",
    ),
    Spec::conn("KILL", "script|kill", 2, NO_SCRIPT, script::kill).doc(
        "",
        "Stops the scripts that run; what they changed is undone.",
        "2.6.0",
    ),
    Spec::conn("DEBUG", "script|debug", 3, NO_SCRIPT, script::debug).doc(
        "YES | SYNC | NO",
        "Is accepted for NO only: there is no debugger.",
        "3.2.0",
    ),
    Spec::conn("HELP", "script|help", 2, NONE, help::conn).doc("", "Prints this help.", "5.0.0"),
];

const FUNCTION: &[Spec] = &[
    Spec::shared("LOAD", "function|load", -3, RUNS, function::load).doc(
        "[REPLACE] function-code",
        "Creates a library.",
        "7.0.0",
    ),
    Spec::shared("DELETE", "function|delete", 3, RUNS, function::delete).doc(
        "library-name",
        "Deletes a library.",
        "7.0.0",
    ),
    Spec::shared("FLUSH", "function|flush", -2, RUNS, function::flush).doc(
        "[ASYNC | SYNC]",
        "Deletes all libraries.",
        "7.0.0",
    ),
    Spec::shared("LIST", "function|list", -2, NO_SCRIPT, function::list).doc(
        "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        "Gives the libraries and their functions.",
        "7.0.0",
    ),
    Spec::shared("STATS", "function|stats", 2, NO_SCRIPT, function::stats).doc(
        "",
        "Gives how many libraries and functions there are.",
        "7.0.0",
    ),
    Spec::shared("DUMP", "function|dump", 2, NO_SCRIPT, function::dump).doc(
        "",
        "Gives all libraries in one payload.",
        "7.0.0",
    ),
    Spec::shared("RESTORE", "function|restore", -3, RUNS, function::restore).doc(
        "serialized-value [FLUSH | APPEND | REPLACE]",
        "Restores libraries from a payload.",
        "7.0.0",
    ),
    Spec::conn("KILL", "function|kill", 2, NO_SCRIPT, function::kill).doc(
        "",
        "Stops the functions that run; what they changed is undone.",
        "7.0.0",
    ),
    Spec::conn("HELP", "function|help", 2, NONE, help::conn).doc("", "Prints this help.", "7.0.0"),
];

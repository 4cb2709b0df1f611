//! The rows of this family. It touches nothing.

use super::{eval, fcall, function, script};
use crate::help;
use crate::keys_of::Keys;
use crate::spec::Flags;
use crate::spec::Spec;
use crate::spec::flag::{NO_SCRIPT, NONE, READ, WRITE, and};

/// It may write, and cannot be called by a script.
const WRITER_FLAGS: Flags = and(WRITE, NO_SCRIPT);
/// It reads only.
const READER_FLAGS: Flags = and(READ, NO_SCRIPT);

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("eval", -3, WRITER_FLAGS, Keys::Counted(2), eval::eval).doc(
        "script numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a Lua script on the server.",
        "2.6.0",
    ),
    Spec::data("evalsha", -3, WRITER_FLAGS, Keys::Counted(2), eval::evalsha).doc(
        "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a cached Lua script by its SHA-1 digest.",
        "2.6.0",
    ),
    Spec::data("eval_ro", -3, READER_FLAGS, Keys::Counted(2), eval::eval_ro).doc(
        "script numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a Lua script that must not write.",
        "7.0.0",
    ),
    Spec::data("evalsha_ro", -3, READER_FLAGS, Keys::Counted(2), eval::evalsha_ro).doc(
        "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        "Runs a cached Lua script that must not write by its SHA-1 digest.",
        "7.0.0",
    ),
    Spec::data("fcall", -3, WRITER_FLAGS, Keys::Counted(2), fcall::fcall).doc(
        "function numkeys [key [key ...]] [arg [arg ...]]",
        "Calls a function of a library.",
        "7.0.0",
    ),
    Spec::data("fcall_ro", -3, READER_FLAGS, Keys::Counted(2), fcall::fcall_ro).doc(
        "function numkeys [key [key ...]] [arg [arg ...]]",
        "Calls a function of a library that must not write.",
        "7.0.0",
    ),
    Spec::within("script", SCRIPT).doc("", "A container for script management commands.", "2.6.0"),
    Spec::within("function", FUNCTION).doc("", "A container for function library commands.", "7.0.0"),
];

const SCRIPT: &[Spec] = &[
    Spec::shared("script|load", 3, NO_SCRIPT, script::load).doc(
        "script",
        "Loads a Lua script into the script cache and returns its SHA-1 digest.",
        "2.6.0",
    ),
    Spec::shared("script|exists", -3, NO_SCRIPT, script::exists).doc(
        "sha1 [sha1 ...]",
        "Returns which of the given scripts are in the script cache.",
        "2.6.0",
    ),
    Spec::shared("script|flush", -2, NO_SCRIPT, script::flush).doc(
        "[ASYNC | SYNC]",
        "Removes all scripts from the script cache.",
        "2.6.0",
    ),
    Spec::conn("script|kill", 2, NO_SCRIPT, script::kill).doc(
        "",
        "Stops the running scripts. Their changes are rolled back.",
        "2.6.0",
    ),
    Spec::conn("script|debug", 3, NO_SCRIPT, script::debug).doc(
        "YES | SYNC | NO",
        "Accepts only NO: there is no debugger.",
        "3.2.0",
    ),
    Spec::conn("script|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of SCRIPT.",
        "5.0.0",
    ),
];

const FUNCTION: &[Spec] = &[
    Spec::shared("function|load", -3, WRITER_FLAGS, function::load).doc(
        "[REPLACE] function-code",
        "Creates a library of functions.",
        "7.0.0",
    ),
    Spec::shared("function|delete", 3, WRITER_FLAGS, function::delete).doc(
        "library-name",
        "Deletes a library and its functions.",
        "7.0.0",
    ),
    Spec::shared("function|flush", -2, WRITER_FLAGS, function::flush).doc(
        "[ASYNC | SYNC]",
        "Deletes all libraries.",
        "7.0.0",
    ),
    Spec::shared("function|list", -2, NO_SCRIPT, function::list).doc(
        "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        "Returns the libraries and their functions.",
        "7.0.0",
    ),
    Spec::shared("function|stats", 2, NO_SCRIPT, function::stats).doc(
        "",
        "Returns the number of libraries and functions.",
        "7.0.0",
    ),
    Spec::shared("function|dump", 2, NO_SCRIPT, function::dump).doc(
        "",
        "Returns a serialized payload of all libraries.",
        "7.0.0",
    ),
    Spec::shared("function|restore", -3, WRITER_FLAGS, function::restore).doc(
        "serialized-value [FLUSH | APPEND | REPLACE]",
        "Restores libraries from a payload of FUNCTION DUMP.",
        "7.0.0",
    ),
    Spec::conn("function|kill", 2, NO_SCRIPT, function::kill).doc(
        "",
        "Stops the running functions. Their changes are rolled back.",
        "7.0.0",
    ),
    Spec::conn("function|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of FUNCTION.",
        "7.0.0",
    ),
];

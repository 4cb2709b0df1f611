//! `MODULE LIST`, `MODULE LOAD path [arg [arg ...]]`, `MODULE LOADEX path ...`, `MODULE UNLOAD name`: there are none.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::families::server::RUNS;
use crate::help;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::NONE;

const NOT_SUPPORTED: Fail = Fail::fixed("ERR modules are not supported");

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("LIST", "module|list", 2, RUNS, list).doc("", "Gives the modules: none.", "4.0.0"),
    Spec::conn("LOAD", "module|load", -3, RUNS, refuse).doc("path [arg [arg ...]]", "Is refused.", "4.0.0"),
    Spec::conn("LOADEX", "module|loadex", -3, RUNS, refuse).doc(
        "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
        "Is refused.",
        "7.0.0",
    ),
    Spec::conn("UNLOAD", "module|unload", 3, RUNS, refuse).doc("name", "Is refused.", "4.0.0"),
    Spec::conn("HELP", "module|help", 2, NONE, help::conn).doc("", "Prints this help.", "5.0.0"),
];

fn list(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

fn refuse(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_are_no_modules() {
        Desk::new().expect(&[("MODULE LIST", "*0"), ("MODULE LOAD /x", "-ERR modules are not supported")]);
    }
}

//! `MODULE LIST`, `MODULE LOAD path [arg [arg ...]]`, `MODULE LOADEX path ...`, `MODULE UNLOAD name`: not supported.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::families::server::ADMIN_FLAGS;
use crate::help;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::NONE;

const NOT_SUPPORTED: Fail = Fail::fixed("ERR modules are not supported");

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("module|list", 2, ADMIN_FLAGS, list).doc(
        "",
        "Returns the loaded modules: always empty.",
        "4.0.0",
    ),
    Spec::conn("module|load", -3, ADMIN_FLAGS, load).doc(
        "path [arg [arg ...]]",
        "Always returns an error: modules are not supported.",
        "4.0.0",
    ),
    Spec::conn("module|loadex", -3, ADMIN_FLAGS, load).doc(
        "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
        "Always returns an error: modules are not supported.",
        "7.0.0",
    ),
    Spec::conn("module|unload", 3, ADMIN_FLAGS, load).doc(
        "name",
        "Always returns an error: modules are not supported.",
        "4.0.0",
    ),
    Spec::conn("module|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of MODULE.",
        "5.0.0",
    ),
];

fn list(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

fn load(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
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

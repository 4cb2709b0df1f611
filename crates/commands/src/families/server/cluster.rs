//! `CLUSTER subcommand ...`, `READONLY`, `READWRITE`, `ASKING`: as in Redis when cluster mode is disabled.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};

pub(super) const SUMMARY: &str = "Always returns an error, as Redis does when cluster mode is disabled.";

const DISABLED: Fail = Fail::fixed("ERR This instance has cluster support disabled");

pub(super) fn cluster(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(DISABLED)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_is_no_cluster() {
        let disabled = "-ERR This instance has cluster support disabled";
        Desk::new().expect(&[
            ("CLUSTER INFO", disabled),
            ("READONLY", disabled),
            ("READWRITE", disabled),
            ("ASKING", disabled),
            ("CLUSTER", "-ERR wrong number of arguments for 'cluster' command"),
        ]);
    }
}

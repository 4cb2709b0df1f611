//! `SLOWLOG GET [count]`, `SLOWLOG LEN`, `SLOWLOG RESET`: slow commands are not recorded.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::help;
use crate::number;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::{ADMIN, NONE};

const BAD_COUNT: Fail = Fail::fixed("ERR count should be greater than or equal to -1");

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("slowlog|get", -2, ADMIN, get).doc(
        "[count]",
        "Returns the entries of the slow log: always empty, as they are not recorded.",
        "2.2.12",
    ),
    Spec::conn("slowlog|len", 2, ADMIN, len).doc(
        "",
        "Returns the number of entries of the slow log: always 0.",
        "2.2.12",
    ),
    Spec::conn("slowlog|reset", 2, ADMIN, reset).doc(
        "",
        "Does nothing and returns OK: the slow log is always empty.",
        "2.2.12",
    ),
    Spec::conn("slowlog|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of SLOWLOG.",
        "6.2.0",
    ),
];

fn get(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(errors::subcommand_or_arity(args));
    }
    if let Some(count) = args.get(2) {
        number::parse_int(count).filter(|count| *count >= -1).ok_or(BAD_COUNT)?;
    }
    Ok(Reply::Array(Vec::new()))
}

fn len(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Int(0))
}

fn reset(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_slow_log_is_empty() {
        Desk::new().expect(&[
            ("SLOWLOG GET", "*0"),
            ("SLOWLOG GET -1", "*0"),
            ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
            ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1"),
            (
                "slowlog get 1 2",
                "-ERR unknown subcommand or wrong number of arguments for 'get'. Try SLOWLOG HELP.",
            ),
            ("SLOWLOG LEN", ":0"),
            ("SLOWLOG RESET", "+OK"),
        ]);
    }
}

//! `DEBUG subcommand [argument [argument ...]]`
//!
//! The subcommands that test suites of clients and of Redis use and that need no debugger. As in Redis, DEBUG is not a
//! container, so the error for an unknown subcommand has its own text.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;
use crate::session::Protocol;

const NO_SLEEP: Fail = Fail::fixed("ERR DEBUG SLEEP is not supported: it would hold up every connection");
const NO_RESP2: Fail = Fail::fixed("ERR RESP2 is not supported by this command");
const BAD_TYPE: Fail = Fail::fixed(
    "ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|push|verbatim|true|false",
);

/// A subcommand: HELP and the lookup derive from this row.
struct Sub {
    name: &'static str,
    /// Its arguments, as HELP shows them: one, or none where this is empty.
    argument: &'static str,
    summary: &'static str,
    run: fn(&mut Conn<'_>, Args<'_>) -> CommandResult,
}

#[rustfmt::skip]
const SUBCOMMANDS: &[Sub] = &[
    Sub { name: "CHANGE-REPL-ID", argument: "", summary: "Does nothing: there is no replication.", run: ok },
    Sub { name: "DICT-RESIZING", argument: "<0|1>", summary: "Does nothing: tables grow and shrink automatically.", run: ok },
    Sub { name: "ERROR", argument: "<string>", summary: "Returns an error with this text.", run: error },
    Sub { name: "PAUSE-CRON", argument: "<0|1>", summary: "Does nothing: no reply depends on background work.", run: ok },
    Sub { name: "PROTOCOL", argument: "<type>", summary: "Returns a value of this type: string, integer, double, null, array, set, map, push, verbatim, true, false.", run: protocol },
    Sub { name: "QUICKLIST-PACKED-THRESHOLD", argument: "<size>", summary: "Does nothing: lists have another encoding.", run: ok },
    Sub { name: "SET-ACTIVE-EXPIRE", argument: "<0|1>", summary: "Does nothing: an expired key is never returned, even before its memory is freed.", run: ok },
    Sub { name: "SET-DISABLE-DENY-SCRIPTS", argument: "<0|1>", summary: "Does nothing.", run: ok },
    Sub { name: "SLEEP", argument: "<seconds>", summary: "Accepts only 0.", run: sleep },
    Sub { name: "HELP", argument: "", summary: "Prints this help.", run: help },
];

pub(super) fn debug(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let named = |sub: &&Sub| sub.name.as_bytes().eq_ignore_ascii_case(args.at(1));
    let sub = SUBCOMMANDS.iter().find(named);
    match sub.filter(|sub| args.len() == if sub.argument.is_empty() { 2 } else { 3 }) {
        Some(sub) => (sub.run)(conn, args),
        None => Err(errors::subcommand_or_arity(args)),
    }
}

fn ok(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Ok)
}

fn error(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    Err(Fail::text(String::from_utf8_lossy(args.at(2))))
}

fn protocol(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    sample(args.at(2), conn.session.protocol)
}

fn sleep(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let sleeps = number::parse_float(args.at(2)).is_some_and(|seconds| seconds > 0.0);
    if sleeps { Err(NO_SLEEP) } else { Ok(Reply::Ok) }
}

fn help(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let mut lines = vec!["DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".to_owned()];
    for sub in SUBCOMMANDS {
        lines.push(format!("{} {}", sub.name, sub.argument).trim_end().to_owned());
        lines.push(format!("    {}", sub.summary));
    }
    Ok(Reply::Array(lines.into_iter().map(|line| Reply::Status(line.into())).collect()))
}

/// A sample value of each RESP3 type.
fn sample(kind: &[u8], protocol: Protocol) -> CommandResult {
    let ints = || (0..3).map(Reply::Int);
    Ok(match kind.to_ascii_lowercase().as_slice() {
        b"string" => Reply::bulk(b"Hello World"),
        b"integer" => Reply::Int(12345),
        b"double" => Reply::Double(3141.0 / 1000.0),
        b"null" => Reply::Nil,
        b"array" => Reply::Array(ints().collect()),
        b"set" => Reply::Set(ints().collect()),
        b"map" => Reply::Map((0..3).map(|i| (Reply::Int(i), Reply::Bool(i == 1))).collect()),
        b"push" if protocol == Protocol::Resp2 => return Err(NO_RESP2),
        b"push" => Reply::Several(vec![
            Reply::Push(vec![Reply::bulk(b"server-cpu-usage"), Reply::Int(42)]),
            Reply::bulk(b"Some real reply following the push reply"),
        ]),
        b"verbatim" => Reply::Verbatim("This is a verbatim\nstring".into()),
        b"true" => Reply::Bool(true),
        b"false" => Reply::Bool(false),
        _ => return Err(BAD_TYPE),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn subcommands_of_test_suites_are_supported() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
            ("DEBUG CHANGE-REPL-ID", "+OK"),
            ("DEBUG QUICKLIST-PACKED-THRESHOLD 100b", "+OK"),
            ("DEBUG SLEEP 0", "+OK"),
            ("DEBUG SLEEP 0.1", "-ERR DEBUG SLEEP is not supported: it would hold up every connection"),
            ("DEBUG ERROR MYERR", "-MYERR"),
            ("DEBUG PROTOCOL map", "*6 :0 :0 :1 :1 :2 :0"),
            ("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command"),
            ("DEBUG PROTOCOL double", "$5 3.141"),
            (
                "DEBUG jmap",
                "-ERR unknown subcommand or wrong number of arguments for 'jmap'. Try DEBUG HELP.",
            ),
            (
                "DEBUG SLEEP",
                "-ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.",
            ),
        ]);
        assert!(desk.resp("DEBUG PROTOCOL foo").starts_with("-ERR Wrong protocol type name."));
        assert!(desk.resp("DEBUG HELP").starts_with("*21 +DEBUG <subcommand>"));
    }
}

//! `DEBUG subcommand [argument [argument ...]]`
//!
//! What test suites of clients and of Redis ask for and what needs nothing. It is no container in Redis either, so an
//! unknown subcommand has a text of its own.

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

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Does nothing: there is no replication.",
    "DICT-RESIZING <0|1>",
    "    Does nothing: tables grow and shrink by themselves.",
    "ERROR <string>",
    "    Answers an error of this text.",
    "PAUSE-CRON <0|1>",
    "    Does nothing: no answer depends on what runs in the background.",
    "PROTOCOL <type>",
    "    Answers a value of this type: string, integer, double, null, array, set, map, push, verbatim, true, false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Does nothing: lists have another form.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Does nothing: a key is gone when its time is up, whether or not its space is reclaimed.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Does nothing.",
    "SLEEP <seconds>",
    "    Only 0.",
    "HELP",
    "    Prints this help.",
];

pub(super) fn run(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"help", 2) => Ok(Reply::Array(HELP.iter().map(|line| Reply::status(line)).collect())),
        (b"change-repl-id", 2) => Ok(Reply::Ok),
        (
            b"set-active-expire"
            | b"dict-resizing"
            | b"pause-cron"
            | b"quicklist-packed-threshold"
            | b"set-disable-deny-scripts",
            3,
        ) => Ok(Reply::Ok),
        (b"sleep", 3) if number::parse_float(args.at(2)).is_some_and(|seconds| seconds > 0.0) => {
            Err(NO_SLEEP)
        }
        (b"sleep", 3) => Ok(Reply::Ok),
        (b"error", 3) => Err(Fail::text(String::from_utf8_lossy(args.at(2)))),
        (b"protocol", 3) => sample(args.at(2), conn.session.protocol),
        _ => Err(errors::subcommand_or_arity(args)),
    }
}

/// A value of each type that RESP3 has.
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
    fn test_suites_get_what_they_ask_for() {
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

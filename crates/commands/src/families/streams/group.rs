//! `XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]`, `XGROUP SETID key group <id | $>
//! [ENTRIESREAD entries-read]`, `XGROUP DESTROY key group`, `XGROUP CREATECONSUMER key group consumer`, `XGROUP
//! DELCONSUMER key group consumer`, `XGROUP HELP`

use keystead_model::Bytes;
use keystead_model::keyspace::StreamMut;

use super::{groups, id};
use crate::errors::{self, Fail};
use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{NONE, WRITE, WRITE_OOM};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) const TABLE: &[Spec] = &[
    Spec::data("xgroup|create", -5, WRITE_OOM, Keys::At(2), create).doc(
        "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
        "Creates a consumer group of a stream.",
        "5.0.0",
    ),
    Spec::data("xgroup|setid", -5, WRITE, Keys::At(2), setid).doc(
        "key group <id | $> [ENTRIESREAD entries-read]",
        "Sets the last delivered ID of a consumer group.",
        "5.0.0",
    ),
    Spec::data("xgroup|destroy", 4, WRITE, Keys::At(2), destroy).doc(
        "key group",
        "Deletes a consumer group with its consumers and pending entries.",
        "5.0.0",
    ),
    Spec::data("xgroup|createconsumer", 5, WRITE_OOM, Keys::At(2), createconsumer).doc(
        "key group consumer",
        "Creates a consumer in a consumer group.",
        "6.2.0",
    ),
    Spec::data("xgroup|delconsumer", 5, WRITE, Keys::At(2), delconsumer).doc(
        "key group consumer",
        "Deletes a consumer from a consumer group with its pending entries.",
        "5.0.0",
    ),
    Spec::data("xgroup|help", 2, NONE, Keys::None, help).doc(
        "",
        "Returns a list of the subcommands of XGROUP.",
        "5.0.0",
    ),
];

const BUSY: &str = "BUSYGROUP Consumer Group name already exists";
const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
    the MKSTREAM option to create an empty stream automatically.";
const READ_NEGATIVE: &str = "ERR value for ENTRIESREAD must be positive or -1";

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Prints this help.",
];

/// The maximum arguments of CREATE and SETID: repeated options are one too many.
const CREATE_ARGS_MAX: usize = 8;
const SETID_ARGS_MAX: usize = 7;

/// The options of CREATE and SETID.
fn parse_options(args: Args<'_>, create: bool) -> Result<(bool, Option<u64>), Fail> {
    let (mut make, mut entries_read) = (false, None);
    let mut rest = args.cursor(5);
    while !rest.is_done() {
        if create && rest.accept("MKSTREAM") {
            make = true;
        } else if rest.accept_with("ENTRIESREAD", 1) {
            let count = rest.int()?;
            if count < -1 {
                return Err(Fail::Text(READ_NEGATIVE.into()));
            }
            entries_read = u64::try_from(count).ok();
        } else {
            return Err(errors::subcommand_or_arity(args));
        }
    }
    Ok((make, entries_read))
}

/// The stream of a subcommand, which must exist.
fn existing<'a>(ctx: &'a mut Ctx<'_>, args: Args<'a>) -> Result<StreamMut<'a>, Fail> {
    let stream = ctx.keys.stream_mut(args.at(2), ctx.now)?;
    if stream.is_there() { Ok(stream) } else { Err(Fail::Text(NO_STREAM.into())) }
}

/// The stream of a subcommand, and the name of its group, which must both exist.
fn with_group<'a>(ctx: &'a mut Ctx<'_>, args: Args<'a>) -> Result<(StreamMut<'a>, Bytes), Fail> {
    let stream = existing(ctx, args)?;
    match stream.group(args.at(3)) {
        Some(_) => Ok((stream, Bytes::from(args.at(3)))),
        None => Err(groups::none_of_key(args.at(2), args.at(3))),
    }
}

fn create(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (make, entries_read) = parse_options(args, true)?;
    let mut stream = if make { ctx.keys.stream_mut(args.at(2), ctx.now)? } else { existing(ctx, args)? };
    if args.len() > CREATE_ARGS_MAX {
        return Err(errors::subcommand_or_arity(args));
    }
    let last_id = match args.at(4) {
        b"$" => stream.meta().last_id,
        text => id::strict(text, 0)?,
    };
    if stream.group(args.at(3)).is_some() {
        return Err(Fail::Text(BUSY.into()));
    }
    stream.put_group(&Bytes::from(args.at(3)), last_id, entries_read);
    Ok(Reply::Ok)
}

fn setid(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (_, entries_read) = parse_options(args, false)?;
    let (mut stream, group) = with_group(ctx, args)?;
    if args.len() > SETID_ARGS_MAX {
        return Err(errors::subcommand_or_arity(args));
    }
    let last_id = match args.at(4) {
        b"$" => stream.meta().last_id,
        text => id::any(text, 0)?,
    };
    stream.put_group(&group, last_id, entries_read);
    Ok(Reply::Ok)
}

fn destroy(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::yes(existing(ctx, args)?.remove_group(&Bytes::from(args.at(3)))))
}

fn createconsumer(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let now = ctx.now;
    let (mut stream, group) = with_group(ctx, args)?;
    let consumer = Bytes::from(args.at(4));
    let known = stream.group(&group).is_some_and(|group| group.consumer(&consumer).is_some());
    Ok(Reply::yes(!known && stream.put_consumer(&group, &consumer, now, None)))
}

fn delconsumer(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (mut stream, group) = with_group(ctx, args)?;
    Ok(Reply::count(stream.remove_consumer(&group, &Bytes::from(args.at(4))).unwrap_or(0)))
}

fn help(_: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(HELP.iter().map(|line| Reply::status(line)).collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn groups_are_created_and_destroyed() {
        let mut desk = Desk::new();
        let no_stream = format!("-{}", super::NO_STREAM);
        let no_group = "-NOGROUP No such consumer group 'h' for key name 's'";
        desk.expect(&[
            ("XGROUP CREATE s g $", &no_stream),
            ("XGROUP DESTROY s g", &no_stream),
            ("XGROUP CREATE s g x MKSTREAM", "-ERR Invalid stream ID specified as stream command argument"),
            ("TYPE s", "+none"),
            ("XGROUP CREATE s g $ MKSTREAM", "+OK"),
            ("TYPE s", "+stream"),
            ("XGROUP CREATE s g x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XGROUP CREATE s g 0", "-BUSYGROUP Consumer Group name already exists"),
            ("XGROUP CREATECONSUMER s h c", no_group),
            ("XGROUP CREATECONSUMER s g c", ":1"),
            ("XGROUP CREATECONSUMER s g c", ":0"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XREADGROUP GROUP g c STREAMS s >", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 a $1 1"),
            ("XGROUP DELCONSUMER s h c", no_group),
            ("XGROUP DELCONSUMER s g x", ":0"),
            ("XGROUP DELCONSUMER s g c", ":1"),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
            ("XGROUP SETID s h 0", no_group),
            ("XGROUP SETID s g -", "+OK"),
            ("XREADGROUP GROUP g c STREAMS s >", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 a $1 1"),
            ("XGROUP DESTROY s g", ":1"),
            ("XGROUP DESTROY s g", ":0"),
        ]);
        desk.now = desk.now.plus_ms(10);
        desk.expect(&[("XGROUP CREATE s g 0", "+OK"), ("XGROUP CREATECONSUMER s g c", ":1")]);
        desk.now = desk.now.plus_ms(10);
        desk.expect(&[
            ("XGROUP CREATECONSUMER s g c", ":0"),
            ("XINFO CONSUMERS s g", "*1 *8 $4 name $1 c $7 pending :0 $4 idle :10 $8 inactive :-1"),
        ]);
    }

    #[test]
    fn errors_in_arguments_are_reported_in_order() {
        let mut desk = Desk::new();
        let usage = "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.";
        desk.expect(&[
            ("SADD t m", ":1"),
            ("XGROUP CREATE t g x FOO", usage),
            ("XGROUP CREATE t g x ENTRIESREAD", usage),
            ("XGROUP CREATE t g x ENTRIESREAD y", "-ERR value is not an integer or out of range"),
            ("XGROUP CREATE t g x ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1"),
            ("XGROUP CREATE t g x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XGROUP CREATE s g 0 MKSTREAM MKSTREAM MKSTREAM MKSTREAM", usage),
            ("XGROUP CREATE s g", "-ERR wrong number of arguments for 'xgroup|create' command"),
            ("XGROUP foo", "-ERR unknown subcommand 'foo'. Try XGROUP HELP."),
            ("XGROUP CREATE s g 0 ENTRIESREAD -1 MKSTREAM", "+OK"),
            (
                "xgroup setid s g 0 ENTRIESREAD 1 ENTRIESREAD 1",
                "-ERR unknown subcommand or wrong number of arguments for 'setid'. Try XGROUP HELP.",
            ),
        ]);
        assert!(desk.resp("XGROUP HELP").starts_with("*17 +XGROUP <subcommand>"));
    }
}

//! `XINFO STREAM key [FULL [COUNT count]]`, `XINFO GROUPS key`, `XINFO CONSUMERS key group`, `XINFO HELP`

mod full;
mod radix;

use keystead_core::Millis;
use keystead_model::value::stream::{Consumer, Group, Stream, StreamId};

use super::{entry, groups, id, progress};
use crate::errors::{self, Fail};
use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{NONE, READ};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) const TABLE: &[Spec] = &[
    Spec::data("xinfo|stream", -3, READ, Keys::At(2), stream).doc(
        "key [FULL [COUNT count]]",
        "Returns information about a stream.",
        "5.0.0",
    ),
    Spec::data("xinfo|groups", 3, READ, Keys::At(2), groups).doc(
        "key",
        "Returns information about the consumer groups of a stream.",
        "5.0.0",
    ),
    Spec::data("xinfo|consumers", 4, READ, Keys::At(2), consumers).doc(
        "key group",
        "Returns information about the consumers of a consumer group.",
        "5.0.0",
    ),
    Spec::data("xinfo|help", 2, NONE, Keys::None, help).doc(
        "",
        "Returns a list of the subcommands of XINFO.",
        "5.0.0",
    ),
];

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

/// The default number of elements of each list in FULL.
const COUNT_DEFAULT: usize = 10;

fn existing<'a>(ctx: &'a mut Ctx<'_>, key: &[u8]) -> Result<&'a Stream, Fail> {
    ctx.keys.stream(key, ctx.now)?.ok_or(errors::NO_KEY)
}

fn pair(name: &'static str, value: Reply) -> (Reply, Reply) {
    (Reply::bulk(name.as_bytes()), value)
}

fn stream(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let stream = existing(ctx, args.at(2))?;
    let mut pairs = common(stream);
    if let Some(count) = parse_full(args)? {
        pairs.extend(full::pairs(stream, count));
    } else {
        let shown = |found: Option<_>| found.map_or(Reply::Nil, entry::reply);
        pairs.push(pair("groups", Reply::count(stream.groups().len())));
        pairs.push(pair("first-entry", shown(stream.first())));
        pairs.push(pair("last-entry", shown(stream.last())));
    }
    Ok(Reply::Map(pairs))
}

/// The number of elements in FULL, if it is requested.
fn parse_full(args: Args<'_>) -> Result<Option<usize>, Fail> {
    let mut rest = args.cursor(3);
    if rest.is_done() {
        return Ok(None);
    }
    if !matches!(rest.left(), 1 | 3) || !rest.accept("FULL") {
        return Err(errors::subcommand_or_arity(args));
    }
    if rest.is_done() {
        return Ok(Some(COUNT_DEFAULT));
    }
    if !rest.accept("COUNT") {
        return Err(errors::subcommand_or_arity(args));
    }
    Ok(Some(match rest.int()? {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(COUNT_DEFAULT),
    }))
}

fn common(stream: &Stream) -> Vec<(Reply, Reply)> {
    let (meta, radix) = (stream.meta(), radix::shape(stream));
    vec![
        pair("length", Reply::count(stream.len())),
        pair("radix-tree-keys", Reply::count(radix.keys)),
        pair("radix-tree-nodes", Reply::count(radix.nodes)),
        pair("last-generated-id", id::reply(meta.last_id)),
        pair("max-deleted-entry-id", id::reply(meta.max_deleted_id)),
        pair("entries-added", Reply::Int(meta.entries_added as i64)),
        pair("recorded-first-entry-id", id::reply(stream.first().map_or(StreamId::MIN, |(id, _)| id))),
    ]
}

fn groups(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let stream = existing(ctx, args.at(2))?;
    let replies = stream.groups().map(|(name, group)| {
        Reply::Map(vec![
            pair("name", Reply::shared(name.clone())),
            pair("consumers", Reply::count(group.consumers().len())),
            pair("pending", Reply::count(group.pending_len())),
            pair("last-delivered-id", id::reply(group.last_delivered_id())),
            pair("entries-read", entries_read(group)),
            pair("lag", lag(stream, group)),
        ])
    });
    Ok(Reply::Array(replies.collect()))
}

fn entries_read(group: &Group) -> Reply {
    group.entries_read().map_or(Reply::Nil, |count| Reply::Int(count as i64))
}

fn lag(stream: &Stream, group: &Group) -> Reply {
    progress::lag(stream, group).map_or(Reply::Nil, Reply::Int)
}

fn consumers(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (now, is_upstash) = (ctx.now, ctx.is_upstash());
    let stream = existing(ctx, args.at(2))?;
    let group = match stream.group(args.at(3)) {
        Some(group) => group,
        None if is_upstash => return Ok(Reply::Array(Vec::new())),
        None => return Err(groups::none_of_key(args.at(2), args.at(3))),
    };
    let replies = group.consumers().map(|(name, consumer)| {
        Reply::Map(vec![
            pair("name", Reply::shared(name.clone())),
            pair("pending", Reply::count(consumer.pending_len())),
            pair("idle", Reply::Int(ago_ms(now, consumer.seen_at()).max(0))),
            pair("inactive", Reply::Int(inactive_ms(now, consumer))),
        ])
    });
    Ok(Reply::Array(replies.collect()))
}

fn ago_ms(now: Millis, then: Millis) -> i64 {
    (now.0 as i64).saturating_sub(then.0 as i64)
}

fn inactive_ms(now: Millis, consumer: &Consumer) -> i64 {
    consumer.active_at().map_or(-1, |then| ago_ms(now, then))
}

fn help(_: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(HELP.iter().map(|line| Reply::status(line)).collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const ONE: &str = "*2 $3 1-0 *2 $1 a $1 1";

    #[test]
    fn a_stream_is_described() {
        let mut desk = Desk::new();
        desk.expect(&[("XINFO STREAM s", "-ERR no such key"), ("XGROUP CREATE s g 0 MKSTREAM", "+OK")]);
        let head = "$6 length :0 $15 radix-tree-keys :0 $16 radix-tree-nodes :1 $17 last-generated-id $3 0-0 \
            $20 max-deleted-entry-id $3 0-0 $13 entries-added :0 $23 recorded-first-entry-id $3 0-0";
        desk.expect(&[
            ("XINFO STREAM s", &format!("*20 {head} $6 groups :1 $11 first-entry $-1 $10 last-entry $-1")),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 1", "$3 2-0"),
            ("XDEL s 2", ":1"),
            ("XREADGROUP GROUP g c COUNT 1 STREAMS s >", &format!("*1 *2 $1 s *1 {ONE}")),
        ]);
        desk.now = desk.now.plus_ms(7);
        let head = "$6 length :1 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id $3 2-0 \
            $20 max-deleted-entry-id $3 2-0 $13 entries-added :2 $23 recorded-first-entry-id $3 1-0";
        let consumer = "*10 $4 name $1 c $9 seen-time :1700000000000 $11 active-time :1700000000000 $9 pel-count :1 \
            $7 pending *1 *3 $3 1-0 :1700000000000 :1";
        let group = "*14 $4 name $1 g $17 last-delivered-id $3 1-0 $12 entries-read $-1 $3 lag $-1 $9 pel-count :1 \
            $7 pending *1 *4 $3 1-0 $1 c :1700000000000 :1 $9 consumers";
        let full = format!("*18 {head} $7 entries *1 {ONE} $6 groups *1 {group} *1 {consumer}");
        desk.expect(&[
            ("XINFO STREAM s", &format!("*20 {head} $6 groups :1 $11 first-entry {ONE} $10 last-entry {ONE}")),
            ("XINFO STREAM s full", &full),
            ("XINFO STREAM s FULL COUNT -5", &full),
            ("XINFO STREAM s FULL COUNT 0", &full),
            (
                "XINFO GROUPS s",
                "*1 *12 $4 name $1 g $9 consumers :1 $7 pending :1 $17 last-delivered-id $3 1-0 $12 entries-read $-1 \
                $3 lag $-1",
            ),
            ("XINFO CONSUMERS s g", "*1 *8 $4 name $1 c $7 pending :1 $4 idle :7 $8 inactive :7"),
        ]);
    }

    #[test]
    fn the_lag_of_a_group_is_known_while_nothing_is_deleted_before_it() {
        let mut desk = Desk::new();
        let mut lag = |lines: &[&str]| {
            lines.iter().for_each(|line| drop(desk.run(line)));
            let replies = desk.resp("XINFO GROUPS s");
            replies[replies.find("$12 entries-read").unwrap_or(0)..].to_owned()
        };
        let add = ["XADD s 1 a 1", "XADD s 2 a 1", "XADD s 3 a 1", "XADD s 4 a 1", "XADD s 5 a 1"];
        lag(&add);
        assert_eq!(lag(&["XGROUP CREATE s g 0"]), "$12 entries-read $-1 $3 lag :5");
        assert_eq!(lag(&["XREADGROUP GROUP g c COUNT 1 STREAMS s >"]), "$12 entries-read :1 $3 lag :4");
        assert_eq!(lag(&["XTRIM s MAXLEN 3"]), "$12 entries-read :1 $3 lag :4");
        assert_eq!(lag(&["XREADGROUP GROUP g c COUNT 1 STREAMS s >"]), "$12 entries-read :3 $3 lag :2");
        assert_eq!(lag(&["XDEL s 4"]), "$12 entries-read :3 $3 lag $-1");
        assert_eq!(lag(&["XREADGROUP GROUP g c STREAMS s >"]), "$12 entries-read :5 $3 lag :0");
        assert_eq!(lag(&["XGROUP SETID s g $ ENTRIESREAD 7"]), "$12 entries-read :7 $3 lag :-2");
    }

    #[test]
    fn errors_in_arguments_are_reported_in_order() {
        let mut desk = Desk::new();
        let usage = "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.";
        desk.expect(&[
            ("SADD t m", ":1"),
            ("XINFO STREAM t FOO", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XINFO STREAM s FOO", usage),
            ("XINFO STREAM s FULL COUNT", usage),
            ("XINFO STREAM s FULL FOO 1", usage),
            ("XINFO STREAM s FULL COUNT x", "-ERR value is not an integer or out of range"),
            ("XINFO CONSUMERS s g", "-NOGROUP No such consumer group 'g' for key name 's'"),
            ("XINFO CONSUMERS s", "-ERR wrong number of arguments for 'xinfo|consumers' command"),
            ("XINFO foo s", "-ERR unknown subcommand 'foo'. Try XINFO HELP."),
            ("XINFO GROUPS s", "*0"),
        ]);
        desk.dialect = crate::ctx::Dialect::Upstash;
        desk.expect(&[("XINFO CONSUMERS s g", "*0"), ("XINFO CONSUMERS none g", "-ERR no such key")]);
        assert!(desk.resp("XINFO HELP").starts_with("*9 +XINFO <subcommand>"));
    }
}

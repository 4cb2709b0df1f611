//! `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`
//! `PUBSUB NUMSUB [channel [channel ...]]`, `PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]`
//! `PUBSUB NUMPAT`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult};
use crate::glob;
use crate::hub::Subscribed;
use crate::reply::Reply;

pub(super) fn channels(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    names(conn, args, Subscribed::Channel)
}

pub(super) fn shardchannels(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    names(conn, args, Subscribed::Shard)
}

pub(super) fn numsub(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    counts(conn, args, Subscribed::Channel)
}

pub(super) fn shardnumsub(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    counts(conn, args, Subscribed::Shard)
}

pub(super) fn numpat(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::count(conn.hub.bus.count(Subscribed::Pattern)))
}

fn names(conn: &Conn<'_>, args: Args<'_>, kind: Subscribed) -> CommandResult {
    if args.len() > 3 {
        return Err(errors::subcommand_or_arity(args));
    }
    let fits = |name: &[u8]| args.get(2).is_none_or(|pattern| glob::matches(pattern, name));
    let names = conn.hub.bus.channels(kind).into_iter().map(|(name, _)| name);
    Ok(Reply::Array(names.filter(|name| fits(name)).map(Reply::shared).collect()))
}

fn counts(conn: &Conn<'_>, args: Args<'_>, kind: Subscribed) -> CommandResult {
    let subscribers = |name| Reply::count(conn.hub.bus.subscribers(kind, name));
    Ok(Reply::Array(args.from(2).flat_map(|name| [Reply::bulk(name), subscribers(name)]).collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn channels_are_listed_while_they_have_subscribers() {
        let mut desk = Desk::new();
        desk.run("SUBSCRIBE news");
        desk.run("SSUBSCRIBE shard");
        desk.run("PSUBSCRIBE n* x*");
        desk.expect(&[
            ("PUBSUB CHANNELS", "*1 $4 news"),
            ("PUBSUB CHANNELS n*", "*1 $4 news"),
            ("PUBSUB CHANNELS x*", "*0"),
            (
                "PUBSUB CHANNELS a b",
                "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
            ),
            ("PUBSUB SHARDCHANNELS", "*1 $5 shard"),
            ("PUBSUB NUMSUB", "*0"),
            ("PUBSUB NUMSUB news none", "*4 $4 news :1 $4 none :0"),
            ("PUBSUB SHARDNUMSUB shard news", "*4 $5 shard :1 $4 news :0"),
            ("PUBSUB NUMPAT", ":2"),
            ("PUBSUB NUMPAT x", "-ERR wrong number of arguments for 'pubsub|numpat' command"),
            ("PUBSUB FOO", "-ERR unknown subcommand 'FOO'. Try PUBSUB HELP."),
            ("PUBSUB", "-ERR wrong number of arguments for 'pubsub' command"),
        ]);
    }
}

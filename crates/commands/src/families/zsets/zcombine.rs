//! ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]
//! ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]
//! ZDIFF numkeys key [key ...] [WITHSCORES]
//! ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]
//! ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]
//! ZDIFFSTORE destination numkeys key [key ...]
//! ZINTERCARD numkeys key [key ...] [LIMIT limit]

use keystead_model::Bytes;
use keystead_model::value::ZSet;

use super::combine::{Combine, Operation, count_common, parse_keys};
use super::store::store;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;

const LIMIT_NEGATIVE: &str = "ERR LIMIT can't be negative";

pub(super) fn zunion(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Union, "zunion")
}

pub(super) fn zinter(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Inter, "zinter")
}

pub(super) fn zdiff(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    reply(ctx, args, Operation::Diff, "zdiff")
}

pub(super) fn zunionstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    keep(ctx, args, Operation::Union, "zunionstore")
}

pub(super) fn zinterstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    keep(ctx, args, Operation::Inter, "zinterstore")
}

pub(super) fn zdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    keep(ctx, args, Operation::Diff, "zdiffstore")
}

fn reply(ctx: &mut Ctx<'_>, args: Args<'_>, operation: Operation, name: &str) -> CommandResult {
    let combine = Combine::parse(ctx, args, 1, operation, name, false)?;
    let members = combine.run(ctx).into_iter();
    Ok(if combine.with_scores {
        Reply::Pairs(members.map(|(member, score)| (Reply::bulk(member), Reply::Double(score))).collect())
    } else {
        Reply::bulks(members.map(|(member, _)| member))
    })
}

fn keep(ctx: &mut Ctx<'_>, args: Args<'_>, operation: Operation, name: &str) -> CommandResult {
    let combine = Combine::parse(ctx, args, 2, operation, name, true)?;
    let mut result = ZSet::new();
    for (member, score) in combine.run(ctx) {
        result.insert(&Bytes::from(member), score);
    }
    store(ctx, args.at(1), result)
}

pub(super) fn zintercard(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(1);
    let keys = parse_keys(ctx, &mut cursor, "zintercard")?;
    let mut limit = 0;
    while !cursor.is_done() {
        if !cursor.accept_with("LIMIT", 1) {
            return Err(errors::SYNTAX);
        }
        let value = number::parse_int(cursor.bytes()?).and_then(number::size);
        limit = value.ok_or_else(|| Fail::text(LIMIT_NEGATIVE))?;
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    Ok(Reply::count(count_common(ctx, &keys, limit)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    fn desk() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[
            ("ZADD a 1 x 2 y 3 z", ":3"),
            ("ZADD b 10 y 20 z 30 w", ":3"),
            ("SADD s x y", ":2"),
            ("SET t text", "+OK"),
        ]);
        desk
    }

    #[test]
    fn scores_are_joined() {
        desk().expect(&[
            ("ZUNION 2 a b", "*4 $1 x $1 y $1 z $1 w"),
            ("ZUNION 2 a b WITHSCORES", "*8 $1 x $1 1 $1 y $2 12 $1 z $2 23 $1 w $2 30"),
            ("ZUNION 2 a b AGGREGATE MIN WITHSCORES", "*8 $1 x $1 1 $1 y $1 2 $1 z $1 3 $1 w $2 30"),
            (
                "ZUNION 2 a b WEIGHTS 1 -1 aggregate max WITHSCORES",
                "*8 $1 w $3 -30 $1 x $1 1 $1 y $1 2 $1 z $1 3",
            ),
            ("ZINTER 2 a b WITHSCORES", "*4 $1 y $2 12 $1 z $2 23"),
            ("ZINTER 2 a b WEIGHTS 2 0.5 WITHSCORES", "*4 $1 y $1 9 $1 z $2 16"),
            ("ZINTER 2 a s WITHSCORES", "*4 $1 x $1 2 $1 y $1 3"),
            ("ZINTER 2 a none", "*0"),
            ("ZUNION 1 s WITHSCORES", "*4 $1 x $1 1 $1 y $1 1"),
            ("ZUNION 2 a a WITHSCORES", "*6 $1 x $1 2 $1 y $1 4 $1 z $1 6"),
            ("ZINTER 2 a a WITHSCORES", "*6 $1 x $1 2 $1 y $1 4 $1 z $1 6"),
            ("ZDIFF 2 a b WITHSCORES", "*2 $1 x $1 1"),
            ("ZDIFF 2 a s", "*1 $1 z"),
            ("ZDIFF 2 s a", "*0"),
            ("ZDIFF 1 none", "*0"),
        ]);
    }

    #[test]
    fn infinities_make_zero() {
        desk().expect(&[
            ("ZADD p inf m", ":1"),
            ("ZADD n -inf m", ":1"),
            ("ZUNION 2 p n WITHSCORES", "*2 $1 m $1 0"),
            ("ZINTER 2 p n WITHSCORES", "*2 $1 m $1 0"),
            ("ZUNION 1 p WEIGHTS 0 WITHSCORES", "*2 $1 m $1 0"),
            ("ZINTER 2 n p WEIGHTS 1 0 WITHSCORES", "*2 $1 m $1 0"),
            ("ZINTER 2 n p WEIGHTS 1 0 AGGREGATE MAX WITHSCORES", "*2 $1 m $4 -inf"),
        ]);
    }

    #[test]
    fn results_replace_the_destination() {
        desk().expect(&[
            ("ZUNIONSTORE t 2 a b", ":4"),
            ("ZRANGE t 0 -1", "*4 $1 x $1 y $1 z $1 w"),
            ("ZINTERSTORE a 2 a b WEIGHTS 1 0", ":2"),
            ("ZRANGE a 0 -1 WITHSCORES", "*4 $1 y $1 2 $1 z $1 3"),
            ("ZDIFFSTORE a 2 b a", ":1"),
            ("ZRANGE a 0 -1 WITHSCORES", "*2 $1 w $2 30"),
            ("ZINTERSTORE a 2 s none", ":0"),
            ("EXISTS a", ":0"),
            ("ZUNIONSTORE t 1 b WITHSCORES", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn common_members_are_counted() {
        desk().expect(&[
            ("ZINTERCARD 2 a b", ":2"),
            ("ZINTERCARD 2 a b LIMIT 1", ":1"),
            ("ZINTERCARD 2 a b LIMIT 0", ":2"),
            ("ZINTERCARD 3 a b s", ":1"),
            ("ZINTERCARD 1 none", ":0"),
            ("ZINTERCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 2 a b LIMIT x", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 2 a b LIMIT", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn kinds_are_checked_before_options() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        desk().expect(&[
            ("ZUNION x a", "-ERR value is not an integer or out of range"),
            ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("ZINTERSTORE d -1 a", "-ERR at least 1 input key is needed for 'zinterstore' command"),
            ("ZUNION 2 a", "-ERR syntax error"),
            ("ZUNION 2 a t WHAT", wrong_type),
            ("ZINTERCARD 2 a t WHAT", wrong_type),
            ("ZUNION 1 a WHAT", "-ERR syntax error"),
            ("ZUNION 2 a b WEIGHTS 1", "-ERR syntax error"),
            ("ZUNION 2 a b WEIGHTS 1 x", "-ERR weight value is not a float"),
            ("ZUNION 2 a b AGGREGATE AVG", "-ERR syntax error"),
            ("ZDIFF 2 a b WEIGHTS 1 1", "-ERR syntax error"),
        ]);
    }
}

//! ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
//! ZREVRANGE key start stop [WITHSCORES]
//! ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
//! ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
//! ZRANGEBYLEX key min max [LIMIT offset count]
//! ZREVRANGEBYLEX key max min [LIMIT offset count]
//! ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]

use keystead_model::Bytes;
use keystead_model::value::ZSet;

use super::slice::{By, Shape, Slice};
use super::store::store;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn zrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, None, None)
}

pub(super) fn zrevrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, Some(By::Rank), Some(true))
}

pub(super) fn zrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, Some(By::Score), Some(false))
}

pub(super) fn zrevrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, Some(By::Score), Some(true))
}

pub(super) fn zrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, Some(By::Member), Some(false))
}

pub(super) fn zrevrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, Some(By::Member), Some(true))
}

fn range(ctx: &mut Ctx<'_>, args: Args<'_>, by: Option<By>, from_back: Option<bool>) -> CommandResult {
    let slice =
        Slice::parse(args, 1, Shape { by, from_back, stored: false, limits_ranks: ctx.is_upstash() })?;
    let Some(zset) = ctx.keys.zset(args.at(1), ctx.now)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    if slice.with_scores {
        let mut pairs = Vec::new();
        slice.each(zset, |(member, score)| pairs.push((Reply::bulk(member), Reply::Double(score))));
        return Ok(Reply::Pairs(pairs));
    }
    let mut members = Vec::new();
    slice.each(zset, |(member, _)| members.push(Reply::bulk(member)));
    Ok(Reply::Array(members))
}

pub(super) fn zrangestore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let shape = Shape { by: None, from_back: None, stored: true, limits_ranks: ctx.is_upstash() };
    let slice = Slice::parse(args, 2, shape)?;
    let mut result = ZSet::new();
    if let Some(zset) = ctx.keys.zset(args.at(2), ctx.now)? {
        slice.each(zset, |(member, score)| {
            result.insert(&Bytes::from(member), score);
        });
    }
    store(ctx, args.at(1), result)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    fn desk() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[
            ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
            ("ZADD l 0 a 0 b 0 c 0 d", ":4"),
            ("SET s x", "+OK"),
        ]);
        desk
    }

    #[test]
    fn by_rank() {
        desk().expect(&[
            ("ZRANGE z 0 -1", "*4 $1 a $1 b $1 c $1 d"),
            ("ZRANGE z 1 2 WITHSCORES", "*4 $1 b $1 2 $1 c $1 3"),
            ("ZRANGE z 0 1 REV", "*2 $1 d $1 c"),
            ("ZREVRANGE z -2 -1 WITHSCORES", "*4 $1 b $1 2 $1 a $1 1"),
            ("ZRANGE z 4 5", "*0"),
            ("ZRANGE z 2 1 REV", "*0"),
            ("ZRANGE none 0 -1", "*0"),
            ("ZRANGE none 0 -1 WITHSCORES", "*0"),
            ("ZRANGE z 0 -1 LIMIT 1 -1", "*4 $1 a $1 b $1 c $1 d"),
        ]);
    }

    #[test]
    fn upstash_limits_ranks() {
        let mut desk = desk();
        desk.dialect = crate::ctx::Dialect::Upstash;
        desk.expect(&[
            ("ZRANGE z 0 -1 LIMIT 1 2", "*2 $1 b $1 c"),
            ("ZRANGE z 0 -1 REV LIMIT 1 2", "*2 $1 c $1 b"),
            ("ZRANGE z 1 -1 LIMIT 1 -1 WITHSCORES", "*4 $1 c $1 3 $1 d $1 4"),
            ("ZRANGE z 0 -1 LIMIT -1 2", "*0"),
            ("ZRANGE z 0 1 LIMIT 2 9", "*0"),
            ("ZRANGESTORE d z 0 -1 LIMIT 1 1", ":1"),
            ("ZRANGE d 0 -1", "*1 $1 b"),
            ("ZRANGE z (1 3 BYSCORE LIMIT 1 1", "*1 $1 c"),
        ]);
    }

    #[test]
    fn by_score() {
        desk().expect(&[
            ("ZRANGE z (1 3 BYSCORE", "*2 $1 b $1 c"),
            ("ZRANGE z 3 (1 BYSCORE REV WITHSCORES", "*4 $1 c $1 3 $1 b $1 2"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 1 2", "*2 $1 b $1 c"),
            ("ZREVRANGEBYSCORE z +inf -inf LIMIT 1 2", "*2 $1 c $1 b"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 1 -5", "*3 $1 b $1 c $1 d"),
            ("ZRANGEBYSCORE z -inf inf LIMIT -1 2", "*0"),
            ("ZRANGEBYSCORE z -inf inf LIMIT 9223372036854775807 9223372036854775807", "*0"),
            ("ZRANGEBYSCORE z 1 4 LIMIT 0 0", "*0"),
            ("ZREVRANGEBYSCORE z 1 4", "*0"),
            ("ZRANGEBYSCORE z 2 3 WITHSCORES LIMIT 0 1", "*2 $1 b $1 2"),
        ]);
    }

    #[test]
    fn by_member() {
        desk().expect(&[
            ("ZRANGE l - + BYLEX", "*4 $1 a $1 b $1 c $1 d"),
            ("ZRANGE l + - BYLEX REV LIMIT 1 2", "*2 $1 c $1 b"),
            ("ZRANGEBYLEX l (a [c", "*2 $1 b $1 c"),
            ("ZREVRANGEBYLEX l [c (a", "*2 $1 c $1 b"),
            ("ZRANGEBYLEX l [b [a", "*0"),
        ]);
    }

    #[test]
    fn a_range_replaces_the_destination() {
        desk().expect(&[
            ("ZRANGESTORE s z 1 2", ":2"),
            ("ZRANGE s 0 -1 WITHSCORES", "*4 $1 b $1 2 $1 c $1 3"),
            ("EXPIRE s 100", ":1"),
            ("ZRANGESTORE s z (1 +inf BYSCORE LIMIT 0 1", ":1"),
            ("ZRANGE s 0 -1", "*1 $1 b"),
            ("TTL s", ":-1"),
            ("ZRANGESTORE z z 0 0 REV", ":1"),
            ("ZRANGE z 0 -1", "*1 $1 d"),
            ("ZRANGESTORE s z 5 6", ":0"),
            ("EXISTS s", ":0"),
            ("ZRANGESTORE z none 0 -1", ":0"),
            ("EXISTS z", ":0"),
            ("ZRANGESTORE d z 0 -1 WITHSCORES", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn arguments_are_checked_before_the_key() {
        let by_rank =
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        let by_lex = "-ERR syntax error, WITHSCORES not supported in combination with BYLEX";
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        desk().expect(&[
            ("ZRANGE s 0 1 LIMIT 0 1", by_rank),
            ("ZREVRANGE s 0 1 LIMIT 0 1", by_rank),
            ("ZRANGE s - + BYLEX WITHSCORES", by_lex),
            ("ZRANGEBYLEX s - + WITHSCORES", by_lex),
            ("ZRANGE s 0 1 REV REV", "-ERR syntax error"),
            ("ZRANGE s 0 1 BYLEX BYSCORE", "-ERR syntax error"),
            ("ZREVRANGE s 0 1 REV", "-ERR syntax error"),
            ("ZRANGE s 0 1 BYSCORE LIMIT 0", "-ERR syntax error"),
            ("ZRANGE s 0 1 BYSCORE LIMIT 0 x", "-ERR value is not an integer or out of range"),
            ("ZRANGE s x 1", "-ERR value is not an integer or out of range"),
            ("ZRANGE s x 1 BYSCORE", "-ERR min or max is not a float"),
            ("ZRANGE s x + BYLEX", "-ERR min or max not valid string range item"),
            ("ZRANGE s 0 1", wrong_type),
            ("ZRANGESTORE d s 0 1", wrong_type),
        ]);
    }
}

//! ZREMRANGEBYRANK key start stop
//! ZREMRANGEBYSCORE key min max
//! ZREMRANGEBYLEX key min max

use std::ops::Range;

use keystead_model::Bytes;
use keystead_model::value::ZSet;

use super::range::{Members, Scores};
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;
use crate::span::span;

pub(super) fn zremrangebyrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    remove(ctx, args, |zset| span(start, stop, zset.len()))
}

pub(super) fn zremrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let range = Scores::parse(args.at(2), args.at(3))?;
    remove(ctx, args, |zset| range.ranks(zset))
}

pub(super) fn zremrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let range = Members::parse(args.at(2), args.at(3))?;
    remove(ctx, args, |zset| range.ranks(zset, false))
}

fn remove(ctx: &mut Ctx<'_>, args: Args<'_>, ranks: impl FnOnce(&ZSet) -> Range<usize>) -> CommandResult {
    let mut zset = ctx.keys.zset_mut(args.at(1), ctx.now)?;
    let ranks = ranks(&zset);
    let members = zset.iter_from(ranks.start).take(ranks.len());
    let members: Vec<Bytes> = members.map(|(member, _)| Bytes::from(member)).collect();
    for member in &members {
        zset.remove(member);
    }
    Ok(Reply::count(members.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_in_a_range_are_removed() {
        Desk::new().expect(&[
            ("ZREMRANGEBYRANK z 0 -1", ":0"),
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZREMRANGEBYRANK z 0 -4", ":2"),
            ("ZREMRANGEBYSCORE z (3 4", ":1"),
            ("ZRANGE z 0 -1", "*2 $1 c $1 e"),
            ("ZREMRANGEBYSCORE z 6 7", ":0"),
            ("ZREMRANGEBYSCORE z -inf +inf", ":2"),
            ("EXISTS z", ":0"),
            ("ZADD l 0 a 0 b 0 c", ":3"),
            ("ZREMRANGEBYLEX l [a (c", ":2"),
            ("ZRANGE l 0 -1", "*1 $1 c"),
        ]);
    }

    #[test]
    fn ranges_are_checked_before_the_key() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("ZREMRANGEBYRANK s x 1", "-ERR value is not an integer or out of range"),
            ("ZREMRANGEBYSCORE s x 1", "-ERR min or max is not a float"),
            ("ZREMRANGEBYLEX s x 1", "-ERR min or max not valid string range item"),
            ("ZREMRANGEBYRANK s 0 1", wrong_type),
            ("ZREMRANGEBYSCORE s 0 1", wrong_type),
            ("ZREMRANGEBYLEX s - +", wrong_type),
        ]);
    }
}

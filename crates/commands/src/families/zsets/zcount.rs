//! ZCOUNT key min max
//! ZLEXCOUNT key min max

use super::range::{Members, Scores};
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn zcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let range = Scores::parse(args.at(2), args.at(3))?;
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    Ok(Reply::count(zset.map_or(0, |zset| range.ranks(zset).len())))
}

pub(super) fn zlexcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let range = Members::parse(args.at(2), args.at(3))?;
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    Ok(Reply::count(zset.map_or(0, |zset| range.ranks(zset, false).len())))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_in_a_range_are_counted() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Desk::new().expect(&[
            ("ZCOUNT z -inf +inf", ":0"),
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZCOUNT z -inf +inf", ":3"),
            ("ZCOUNT z (1 3", ":2"),
            ("ZCOUNT z 3 1", ":0"),
            ("ZADD l 0 a 0 b 0 c", ":3"),
            ("ZLEXCOUNT l - +", ":3"),
            ("ZLEXCOUNT l (a [c", ":2"),
            ("ZLEXCOUNT none - +", ":0"),
            ("SET s x", "+OK"),
            ("ZCOUNT s x 1", "-ERR min or max is not a float"),
            ("ZLEXCOUNT s x +", "-ERR min or max not valid string range item"),
            ("ZCOUNT s 1 1", wrong_type),
            ("ZLEXCOUNT s - +", wrong_type),
        ]);
    }
}

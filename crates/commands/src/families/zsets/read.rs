//! ZCARD key
//! ZSCORE key member
//! ZMSCORE key member [member ...]

use keystead_model::value::ZSet;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn zcard(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.zset(args.at(1), ctx.now)?.map_or(0, ZSet::len)))
}

pub(super) fn zscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    Ok(score(zset, args.at(2)))
}

pub(super) fn zmscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    Ok(Reply::Array(args.from(2).map(|member| score(zset, member)).collect()))
}

fn score(zset: Option<&ZSet>, member: &[u8]) -> Reply {
    zset.and_then(|zset| zset.score(member)).map_or(Reply::Nil, Reply::Double)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn scores_and_counts_are_returned() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Desk::new().expect(&[
            ("ZCARD z", ":0"),
            ("ZSCORE z a", "$-1"),
            ("ZMSCORE z a b", "*2 $-1 $-1"),
            ("ZADD z 1 a 2.5 b", ":2"),
            ("ZCARD z", ":2"),
            ("ZSCORE z b", "$3 2.5"),
            ("ZSCORE z c", "$-1"),
            ("ZMSCORE z a c b", "*3 $1 1 $-1 $3 2.5"),
            ("SET s x", "+OK"),
            ("ZCARD s", wrong_type),
            ("ZSCORE s a", wrong_type),
            ("ZMSCORE s a", wrong_type),
        ]);
    }
}

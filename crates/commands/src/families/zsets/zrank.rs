//! ZRANK key member [WITHSCORE]
//! ZREVRANK key member [WITHSCORE]

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;

pub(super) fn zrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    rank(ctx, args, false, "zrank")
}

pub(super) fn zrevrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    rank(ctx, args, true, "zrevrank")
}

fn rank(ctx: &mut Ctx<'_>, args: Args<'_>, from_back: bool, name: &str) -> CommandResult {
    if args.len() > 4 {
        return Err(errors::wrong_arity(name));
    }
    let mut options = args.cursor(3);
    let with_score = options.accept("WITHSCORE");
    options.finish()?;
    let found = ctx.keys.zset(args.at(1), ctx.now)?.and_then(|zset| {
        let rank = zset.rank(args.at(2))?;
        let rank = if from_back { zset.len() - 1 - rank } else { rank };
        Some((Reply::count(rank), zset.score(args.at(2))?))
    });
    Ok(match found {
        Some((rank, score)) if with_score => Reply::Array(vec![rank, Reply::Double(score)]),
        Some((rank, _)) => rank,
        None if with_score => Reply::NilArray,
        None => Reply::Nil,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn ranks_count_from_either_end() {
        Desk::new().expect(&[
            ("ZRANK z a", "$-1"),
            ("ZRANK z a WITHSCORE", "*-1"),
            ("ZADD z 1 a 2 b 2 c", ":3"),
            ("ZRANK z a", ":0"),
            ("ZREVRANK z a", ":2"),
            ("ZRANK z c withscore", "*2 :2 $1 2"),
            ("ZREVRANK z c WITHSCORE", "*2 :0 $1 2"),
            ("ZRANK z none", "$-1"),
            ("ZREVRANK z none WITHSCORE", "*-1"),
            ("SET s x", "+OK"),
            ("ZRANK s a WITH", "-ERR syntax error"),
            ("ZRANK s a WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command"),
            ("ZRANK s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

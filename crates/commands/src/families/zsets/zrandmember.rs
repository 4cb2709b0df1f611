//! ZRANDMEMBER key [count [WITHSCORES]]

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::meter;
use crate::random::Pick;
use crate::reply::Reply;

pub(super) fn zrandmember(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(count) = args.get(2) else {
        return one(ctx, args);
    };
    let count = Pick::parse_count(count)?;
    let mut options = args.cursor(3);
    let with_scores = options.accept("WITHSCORES");
    options.finish()?;
    let pick = Pick::new(count, with_scores)?;
    let Some(zset) = ctx.keys.zset(args.at(1), ctx.now)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let ranks = ctx.random.pick(pick, zset.len());
    let picked = ranks.into_iter().filter_map(|rank| zset.nth(rank));
    Ok(if with_scores {
        let pairs = picked.map(|(member, score)| (Reply::bulk(member), Reply::Double(score)));
        Reply::Pairs(pairs.take_while(|_| !meter::is_exceeded()).collect())
    } else {
        Reply::bulks(picked.map(|(member, _)| member))
    })
}

fn one(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(zset) = ctx.keys.zset(args.at(1), ctx.now)? else {
        return Ok(Reply::Nil);
    };
    Ok(Reply::maybe(zset.nth(ctx.random.below(zset.len())).map(|(member, _)| member)))
}

#[cfg(test)]
mod tests {
    use crate::reply::Reply;
    use crate::testing::Desk;

    #[test]
    fn members_are_chosen() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("ZRANDMEMBER z", "$-1"),
            ("ZRANDMEMBER z 2", "*0"),
            ("ZADD z 7 a", ":1"),
            ("ZRANDMEMBER z", "$1 a"),
            ("ZRANDMEMBER z 0", "*0"),
            ("ZRANDMEMBER z 9223372036854775807", "*1 $1 a"),
            ("ZRANDMEMBER z -3", "*3 $1 a $1 a $1 a"),
            ("ZRANDMEMBER z -2 withscores", "*4 $1 a $1 7 $1 a $1 7"),
            ("ZADD z 1 b 2 c", ":2"),
        ]);
        for count in 1..=3 {
            let Reply::Array(picked) = desk.run(&format!("ZRANDMEMBER z {count}")) else { panic!() };
            assert_eq!(picked.len(), count);
            assert!(picked.iter().enumerate().all(|(i, one)| !picked[..i].contains(one)), "{picked:?}");
        }
    }

    #[test]
    fn arguments_are_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("ZRANDMEMBER s x WITH", "-ERR value is not an integer or out of range"),
            ("ZRANDMEMBER s 1 WITH", "-ERR syntax error"),
            ("ZRANDMEMBER s 1 WITHSCORES x", "-ERR syntax error"),
            ("ZRANDMEMBER s 9223372036854775807 WITHSCORES", "-ERR value is out of range"),
            ("ZRANDMEMBER s 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

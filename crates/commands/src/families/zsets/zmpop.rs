//! ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]
//! BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]

use keystead_model::value::Kind;

use super::side::Side;
use crate::args::Args;
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::{CommandResult, Fail};
use crate::mpop::MultiPop;
use crate::reply::Reply;

pub(super) fn zmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pop = MultiPop::parse(args, 1, Side::of)?;
    Ok(take(ctx, args, &pop)?.unwrap_or(Reply::NilArray))
}

pub(super) fn bzmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pop = MultiPop::parse(args, 2, Side::of)?;
    let timeout_ms = blocking::timeout_seconds(args.at(1))?;
    if let Some(reply) = take(ctx, args, &pop)? {
        return Ok(reply);
    }
    ctx.wait_for(pop.keys(args), timeout_ms);
    Ok(Reply::NilArray)
}

fn take(ctx: &mut Ctx<'_>, args: Args<'_>, pop: &MultiPop<Side>) -> Result<Option<Reply>, Fail> {
    let Some(key) = blocking::first_of(ctx, pop.keys(args), Kind::ZSet)? else {
        return Ok(None);
    };
    let taken = pop.side.pop(&mut ctx.keys.zset_mut(key, ctx.now)?, pop.count).into_iter();
    let pairs = taken.map(|(member, score)| Reply::Array(vec![Reply::shared(member), Reply::Double(score)]));
    Ok(Some(Reply::Array(vec![Reply::bulk(key), Reply::Array(pairs.collect())])))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_first_existing_sorted_set_is_popped() {
        Desk::new().expect(&[
            ("ZMPOP 2 a b MIN", "*-1"),
            ("ZADD b 1 x 2 y 3 z", ":3"),
            ("ZMPOP 2 a b MIN", "*2 $1 b *1 *2 $1 x $1 1"),
            ("ZMPOP 2 a b max COUNT 5", "*2 $1 b *2 *2 $1 z $1 3 *2 $1 y $1 2"),
            ("EXISTS b", ":0"),
            ("SET s x", "+OK"),
            ("ZMPOP 2 a s MIN", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZMPOP 1 s LEFT", "-ERR syntax error"),
            ("ZMPOP 1 s MIN COUNT 0", "-ERR count should be greater than 0"),
        ]);
    }

    #[test]
    fn it_pops_or_blocks() {
        let mut desk = Desk::new();
        desk.expect(&[("BZMPOP 0 2 a b MIN", "*-1")]);
        let wait = desk.wait.clone().unwrap();
        assert_eq!((wait.keys.len(), wait.timeout_ms), (2, None));
        desk.expect(&[
            ("ZADD b 1 x", ":1"),
            ("BZMPOP 0 2 a b MIN", "*2 $1 b *1 *2 $1 x $1 1"),
            ("BZMPOP x 1 a MIN COUNT x", "-ERR count should be greater than 0"),
            ("BZMPOP x 1 a MIN", "-ERR timeout is not a float or out of range"),
        ]);
        assert!(desk.wait.is_none());
    }
}

//! ZPOPMIN key [count]
//! ZPOPMAX key [count]
//! BZPOPMIN key [key ...] timeout
//! BZPOPMAX key [key ...] timeout

use keystead_model::value::Kind;

use super::side::Side;
use crate::args::Args;
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::number;
use crate::reply::Reply;

pub(super) fn zpopmin(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, Side::Min)
}

pub(super) fn zpopmax(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, Side::Max)
}

pub(super) fn bzpopmin(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop_or_wait(ctx, args, Side::Min)
}

pub(super) fn bzpopmax(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop_or_wait(ctx, args, Side::Max)
}

fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, side: Side) -> CommandResult {
    if args.len() > 3 {
        return Err(errors::SYNTAX);
    }
    let count = match args.get(2) {
        Some(text) => {
            let count = number::parse_int(text).and_then(number::size);
            Some(count.ok_or(errors::NOT_POSITIVE)?)
        }
        None => None,
    };
    let mut zset = ctx.keys.zset_mut(args.at(1), ctx.now)?;
    let taken = side.pop(&mut zset, count.unwrap_or(1)).into_iter();
    let mut pairs = taken.map(|(member, score)| (Reply::shared(member), Reply::Double(score)));
    Ok(match count {
        Some(_) => Reply::Pairs(pairs.collect()),
        // Without a count the reply is one pair, not an array of pairs.
        None => Reply::Array(pairs.next().map_or_else(Vec::new, |(member, score)| vec![member, score])),
    })
}

fn pop_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, side: Side) -> CommandResult {
    let last = args.len() - 1;
    let timeout_ms = blocking::timeout_seconds(args.at(last))?;
    let keys = args.from(1).take(last - 1);
    if let Some(key) = blocking::first_of(ctx, keys.clone(), Kind::ZSet)?
        && let Some((member, score)) = side.pop(&mut ctx.keys.zset_mut(key, ctx.now)?, 1).pop()
    {
        return Ok(Reply::Array(vec![Reply::bulk(key), Reply::shared(member), Reply::Double(score)]));
    }
    ctx.wait_for(keys, timeout_ms);
    Ok(Reply::NilArray)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_are_popped_from_an_end() {
        Desk::new().expect(&[
            ("ZPOPMIN z", "*0"),
            ("ZPOPMIN z 2", "*0"),
            ("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5"),
            ("ZPOPMIN z", "*2 $1 a $1 1"),
            ("ZPOPMAX z", "*2 $1 e $1 5"),
            ("ZPOPMAX z 0", "*0"),
            ("ZPOPMAX z 2", "*4 $1 d $1 4 $1 c $1 3"),
            ("ZPOPMIN z 9223372036854775807", "*2 $1 b $1 2"),
            ("EXISTS z", ":0"),
        ]);
    }

    #[test]
    fn counts_are_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("ZPOPMIN s 1 2", "-ERR syntax error"),
            ("ZPOPMIN s -1", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN s x", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn it_pops_or_blocks() {
        let mut desk = Desk::new();
        desk.expect(&[("BZPOPMIN a b 0.5", "*-1")]);
        let wait = desk.wait.clone().unwrap();
        assert_eq!((wait.keys.len(), wait.timeout_ms), (2, Some(500)));
        desk.expect(&[
            ("ZADD b 1 x 2 y 3 z", ":3"),
            ("BZPOPMIN a b 0", "*3 $1 b $1 x $1 1"),
            ("BZPOPMAX a b 0", "*3 $1 b $1 z $1 3"),
            ("SET s x", "+OK"),
            ("BZPOPMAX s x", "-ERR timeout is not a float or out of range"),
            ("BZPOPMAX a s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
        assert!(desk.wait.is_none());
    }
}

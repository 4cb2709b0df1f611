//! BLPOP key [key ...] timeout
//! BRPOP key [key ...] timeout

use keystead_model::value::Kind;

use super::end::End;
use crate::args::Args;
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn blpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, End::Left)
}

pub(super) fn brpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, End::Right)
}

fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, end: End) -> CommandResult {
    let last = args.len() - 1;
    let timeout_ms = blocking::timeout_seconds(args.at(last))?;
    let keys = args.from(1).take(last - 1);
    if let Some(key) = blocking::first_of(ctx, keys.clone(), Kind::List)?
        && let Some(value) = end.pop(&mut ctx.keys.list_mut(key, ctx.now)?)
    {
        return Ok(Reply::Array(vec![Reply::bulk(key), Reply::shared(value)]));
    }
    ctx.wait_for(keys, timeout_ms);
    Ok(Reply::NilArray)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_first_existing_list_is_popped() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("RPUSH b 1 2 3", ":3"),
            ("BLPOP a b 0", "*2 $1 b $1 1"),
            ("BRPOP a b 0.5", "*2 $1 b $1 3"),
            ("BRPOP b a 0", "*2 $1 b $1 2"),
        ]);
        assert!(desk.wait.is_none());
        desk.expect(&[("BLPOP a b 0", "*-1")]);
        let wait = desk.wait.clone().unwrap();
        assert_eq!((wait.keys.len(), wait.timeout_ms), (2, None));
    }

    #[test]
    fn the_timeout_is_checked_before_the_keys() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("BLPOP s x", "-ERR timeout is not a float or out of range"),
            ("BLPOP s -1", "-ERR timeout is negative"),
            ("BLPOP s inf", "-ERR timeout is out of range"),
            ("BLPOP a s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

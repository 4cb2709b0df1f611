//! LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]
//! BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]

use keystead_model::value::Kind;

use super::end::End;
use crate::args::Args;
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::{CommandResult, Fail};
use crate::mpop::MultiPop;
use crate::reply::Reply;

pub(super) fn lmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pop = MultiPop::parse(args, 1, End::of)?;
    Ok(take(ctx, args, &pop)?.unwrap_or(Reply::NilArray))
}

pub(super) fn blmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pop = MultiPop::parse(args, 2, End::of)?;
    let timeout_ms = blocking::timeout_seconds(args.at(1))?;
    if let Some(reply) = take(ctx, args, &pop)? {
        return Ok(reply);
    }
    ctx.wait_for(pop.keys(args), timeout_ms);
    Ok(Reply::NilArray)
}

fn take(ctx: &mut Ctx<'_>, args: Args<'_>, pop: &MultiPop<End>) -> Result<Option<Reply>, Fail> {
    let Some(key) = blocking::first_of(ctx, pop.keys(args), Kind::List)? else {
        return Ok(None);
    };
    let elements = pop.side.pop_many(&mut ctx.keys.list_mut(key, ctx.now)?, pop.count);
    Ok(Some(Reply::Array(vec![Reply::bulk(key), elements])))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_first_existing_list_is_popped() {
        Desk::new().expect(&[
            ("LMPOP 2 a b LEFT", "*-1"),
            ("RPUSH b 1 2 3 4", ":4"),
            ("LMPOP 2 a b LEFT", "*2 $1 b *1 $1 1"),
            ("LMPOP 2 a b right count 2", "*2 $1 b *2 $1 4 $1 3"),
            ("LMPOP 2 a b LEFT COUNT 9223372036854775807", "*2 $1 b *1 $1 2"),
            ("EXISTS b", ":0"),
            ("SET s x", "+OK"),
            ("LMPOP 2 a s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LMPOP 1 s MIDDLE", "-ERR syntax error"),
            ("LMPOP 0 s LEFT", "-ERR numkeys should be greater than 0"),
        ]);
    }

    #[test]
    fn it_blocks_on_all_of_its_keys() {
        let mut desk = Desk::new();
        desk.expect(&[("BLMPOP 1.5 2 a b LEFT", "*-1")]);
        let wait = desk.wait.clone().unwrap();
        assert_eq!((wait.keys.len(), wait.timeout_ms), (2, Some(1500)));
        desk.expect(&[
            ("RPUSH b 1 2 3", ":3"),
            ("BLMPOP 0 2 a b RIGHT COUNT 2", "*2 $1 b *2 $1 3 $1 2"),
            ("BLMPOP x 0 b LEFT", "-ERR numkeys should be greater than 0"),
            ("BLMPOP x 1 b LEFT", "-ERR timeout is not a float or out of range"),
            ("BLMPOP -1 1 b LEFT", "-ERR timeout is negative"),
        ]);
        assert!(desk.wait.is_none());
    }
}

//! LPUSH key element [element ...]
//! RPUSH key element [element ...]
//! LPUSHX key element [element ...]
//! RPUSHX key element [element ...]

use keystead_model::Bytes;

use super::end::End;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn lpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    push(ctx, args, End::Left, false)
}

pub(super) fn rpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    push(ctx, args, End::Right, false)
}

pub(super) fn lpushx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    push(ctx, args, End::Left, true)
}

pub(super) fn rpushx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    push(ctx, args, End::Right, true)
}

fn push(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, only_if_there: bool) -> CommandResult {
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    if !only_if_there || list.is_there() {
        for value in args.from(2) {
            end.push(&mut list, &Bytes::from(value));
        }
    }
    Ok(Reply::count(list.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn elements_are_pushed_one_by_one() {
        Desk::new().expect(&[
            ("LPUSH l a b", ":2"),
            ("RPUSH l c d", ":4"),
            ("LRANGE l 0 -1", "*4 $1 b $1 a $1 c $1 d"),
            ("RPUSH l ''", ":5"),
            ("LINDEX l -1", "$0"),
            ("SET s x", "+OK"),
            ("LPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LPUSH l", "-ERR wrong number of arguments for 'lpush' command"),
        ]);
    }

    #[test]
    fn with_x_only_an_existing_list_grows() {
        Desk::new().expect(&[
            ("LPUSHX l a", ":0"),
            ("RPUSHX l a", ":0"),
            ("EXISTS l", ":0"),
            ("RPUSH l b", ":1"),
            ("LPUSHX l a", ":2"),
            ("RPUSHX l c d", ":4"),
            ("LRANGE l 0 -1", "*4 $1 a $1 b $1 c $1 d"),
        ]);
    }
}

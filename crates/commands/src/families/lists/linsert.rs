//! LINSERT key <BEFORE | AFTER> pivot element

use keystead_model::Bytes;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;

pub(super) fn linsert(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let behind = if args.at(2).eq_ignore_ascii_case(b"AFTER") {
        1
    } else if args.at(2).eq_ignore_ascii_case(b"BEFORE") {
        0
    } else {
        return Err(errors::SYNTAX);
    };
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    if !list.is_there() {
        return Ok(Reply::Int(0));
    }
    let Some(pivot) = list.iter().position(|(_, value)| value == args.at(3)) else {
        return Ok(Reply::Int(-1));
    };
    list.insert(pivot + behind, &Bytes::from(args.at(4)));
    Ok(Reply::count(list.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_element_enters_beside_the_first_pivot() {
        Desk::new().expect(&[
            ("LINSERT l BEFORE a b", ":0"),
            ("RPUSH l a b a", ":3"),
            ("LINSERT l BEFORE a x", ":4"),
            ("LINSERT l after a y", ":5"),
            ("LRANGE l 0 -1", "*5 $1 x $1 a $1 y $1 b $1 a"),
            ("LINSERT l AFTER none z", ":-1"),
            ("RPUSH m e", ":1"),
            ("LINSERT m AFTER e f", ":2"),
            ("LRANGE m 0 -1", "*2 $1 e $1 f"),
            ("SET s x", "+OK"),
            ("LINSERT s BESIDE a b", "-ERR syntax error"),
            ("LINSERT s AFTER a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

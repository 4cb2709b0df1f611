//! LSET key index element

use keystead_model::Bytes;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;
use crate::span;

pub(super) fn lset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    if !list.is_there() {
        return Err(errors::NO_KEY);
    }
    let index = span::position(args.int(2)?, list.len()).ok_or(errors::OUT_OF_RANGE)?;
    list.set(index, &Bytes::from(args.at(3)));
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_element_is_replaced() {
        Desk::new().expect(&[
            ("LSET l x v", "-ERR no such key"),
            ("RPUSH l a b c", ":3"),
            ("LSET l 0 A", "+OK"),
            ("LSET l -1 C", "+OK"),
            ("LRANGE l 0 -1", "*3 $1 A $1 b $1 C"),
            ("LSET l 3 v", "-ERR index out of range"),
            ("LSET l -4 v", "-ERR index out of range"),
            ("LSET l x v", "-ERR value is not an integer or out of range"),
            ("SET s x", "+OK"),
            ("LSET s x v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

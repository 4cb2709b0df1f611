//! LTRIM key start stop

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;
use crate::span;

pub(super) fn ltrim(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    let keep = span::span(start, stop, list.len());
    list.trim(keep);
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn elements_outside_are_removed() {
        Desk::new().expect(&[
            ("LTRIM l 0 1", "+OK"),
            ("RPUSH l a b c d e", ":5"),
            ("LTRIM l 1 -2", "+OK"),
            ("LRANGE l 0 -1", "*3 $1 b $1 c $1 d"),
            ("LTRIM l -100 100", "+OK"),
            ("LLEN l", ":3"),
            ("LTRIM l 5 10", "+OK"),
            ("EXISTS l", ":0"),
            ("SET s x", "+OK"),
            ("LTRIM s x 1", "-ERR value is not an integer or out of range"),
            ("LTRIM s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

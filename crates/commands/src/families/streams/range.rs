//! `XRANGE key start end [COUNT count]`, `XREVRANGE key end start [COUNT count]`

use super::{entry, id};
use crate::errors;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, false)
}

pub(super) fn xrevrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    range(ctx, args, true)
}

fn range(ctx: &mut Ctx<'_>, args: Args<'_>, backward: bool) -> CommandResult {
    let (start, end) = if backward { (3, 2) } else { (2, 3) };
    let (start, end) = (id::range_start(args.at(start))?, id::range_end(args.at(end))?);
    let (mut rest, mut count) = (args.cursor(4), usize::MAX);
    while !rest.is_done() {
        if !rest.accept_with("COUNT", 1) {
            return Err(errors::SYNTAX);
        }
        count = usize::try_from(rest.int()?.max(0)).unwrap_or(usize::MAX);
    }
    let Some(stream) = ctx.keys.stream(args.at(1), ctx.now)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    if count == 0 {
        return Ok(Reply::NilArray);
    }
    let entries = entry::between(stream, start, end);
    Ok(Reply::Array(if backward {
        entries.rev().take(count).map(entry::reply).collect()
    } else {
        entries.take(count).map(entry::reply).collect()
    }))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn ranges_go_both_ways() {
        let (one, two, three) =
            ("*2 $3 1-1 *2 $1 a $1 1", "*2 $3 1-2 *4 $1 a $1 2 $1 a $1 3", "*2 $3 2-0 *2 $1 b $1 4");
        let mut desk = Desk::new();
        desk.expect(&[
            ("XRANGE s - +", "*0"),
            ("XRANGE s - + COUNT 0", "*0"),
            ("XADD s 1-1 a 1", "$3 1-1"),
            ("XADD s 1-2 a 2 a 3", "$3 1-2"),
            ("XADD s 2-0 b 4", "$3 2-0"),
            ("XRANGE s - +", &format!("*3 {one} {two} {three}")),
            ("XREVRANGE s + -", &format!("*3 {three} {two} {one}")),
            ("XREVRANGE s + - COUNT 2", &format!("*2 {three} {two}")),
            ("XRANGE s 1 1", &format!("*2 {one} {two}")),
            ("XRANGE s (1-1 (2-0", &format!("*1 {two}")),
            ("XRANGE s 1-2 + COUNT 5 COUNT 1", &format!("*1 {two}")),
            ("XRANGE s + -", "*0"),
            ("XRANGE s 3 2", "*0"),
            ("XRANGE s - + COUNT 0", "*-1"),
            ("XRANGE s - + COUNT -3", "*-1"),
        ]);
    }

    #[test]
    fn errors_in_arguments_are_reported_in_order() {
        let mut desk = Desk::new();
        let bad_id = "-ERR Invalid stream ID specified as stream command argument";
        desk.expect(&[
            ("SADD t m", ":1"),
            ("XRANGE t x (0-0", bad_id),
            ("XRANGE t - (0-0", "-ERR invalid end ID for the interval"),
            (
                "XRANGE t (18446744073709551615-18446744073709551615 x",
                "-ERR invalid start ID for the interval",
            ),
            (
                "XREVRANGE t x (18446744073709551615-18446744073709551615",
                "-ERR invalid start ID for the interval",
            ),
            ("XRANGE t - + COUNT", "-ERR syntax error"),
            ("XRANGE t - + COUNT x", "-ERR value is not an integer or out of range"),
            ("XRANGE t - + COUNT 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

//! `XLEN key`

use keystead_model::value::stream::Stream;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.stream(args.at(1), ctx.now)?.map_or(0, Stream::len)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn entries_are_counted() {
        Desk::new().expect(&[
            ("XLEN s", ":0"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XLEN s", ":1"),
            ("SADD t m", ":1"),
            ("XLEN t", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

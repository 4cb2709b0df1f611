//! `FLUSHDB [ASYNC | SYNC]`, `FLUSHALL [ASYNC | SYNC]`, `DBSIZE`. Both modes are complete when the reply is sent.

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn flushall(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut options = args.cursor(1);
    let _ = options.accept("ASYNC") || options.accept("SYNC");
    options.finish()?;
    if !ctx.keys.is_empty() {
        ctx.keys.flush();
    }
    Ok(Reply::Ok)
}

pub(super) fn dbsize(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn all_keys_are_deleted() {
        let mut desk = Desk::new();
        for flush in ["FLUSHDB", "FLUSHALL", "FLUSHDB async", "FLUSHALL SYNC"] {
            desk.expect(&[
                ("SADD a m", ":1"),
                ("SADD b m", ":1"),
                ("DBSIZE", ":2"),
                (flush, "+OK"),
                ("DBSIZE", ":0"),
                (flush, "+OK"),
            ]);
        }
        desk.expect(&[("FLUSHALL foo", "-ERR syntax error"), ("FLUSHDB ASYNC SYNC", "-ERR syntax error")]);
    }
}

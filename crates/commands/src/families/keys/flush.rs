//! `FLUSHDB [ASYNC | SYNC]`, `FLUSHALL [ASYNC | SYNC]`, `DBSIZE`. Both modes are complete when the reply is sent.

use crate::errors;
use crate::hub::Cluster;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn flushall(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut options = args.cursor(1);
    let _ = options.accept("ASYNC") || options.accept("SYNC");
    options.finish()?;
    // It would remove keys that are another node's until they have moved.
    if ctx.hub.cluster.get().is_some_and(Cluster::is_moving) {
        return Err(errors::SLOTS_MOVING);
    }
    if ctx.keys.count_keys()? > 0 {
        ctx.keys.flush();
    }
    Ok(Reply::Ok)
}

pub(super) fn dbsize(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    // A node that gets slots, or has given some away, may have keys that it does not serve.
    let is_moving = ctx.hub.cluster.get().is_some_and(Cluster::is_moving);
    Ok(Reply::count(if is_moving { ctx.keys.count_own() } else { ctx.keys.count_keys()? }))
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

//! `PERSIST key`

use keystead_core::Millis;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn persist(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let key = args.at(1);
    let expires = ctx.keys.expires_at(key, ctx.now)?.is_some_and(|at| at != Millis::NEVER);
    Ok(Reply::yes(expires && ctx.keys.set_expiry(key, Millis::NEVER, ctx.now)?))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_expiry_is_removed_once() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("PERSIST a", ":0"),
            ("SADD a m", ":1"),
            ("PERSIST a", ":0"),
            ("EXPIRE a 10", ":1"),
            ("PERSIST a", ":1"),
            ("TTL a", ":-1"),
        ]);
    }
}

//! `TTL key`, `PTTL key`, `EXPIRETIME key`, `PEXPIRETIME key`: -2 when there is no key, -1 when it does not expire.

use crate::ttl::Told;
use crate::{Args, CommandResult, Ctx};

pub(super) fn ttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    tell(ctx, args, Told::SecondsLeft)
}

pub(super) fn pttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    tell(ctx, args, Told::MillisLeft)
}

pub(super) fn expiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    tell(ctx, args, Told::AtSeconds)
}

pub(super) fn pexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    tell(ctx, args, Told::AtMillis)
}

/// The nearest whole number of seconds.
fn seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

fn tell(ctx: &mut Ctx<'_>, args: Args<'_>, told: Told) -> CommandResult {
    Ok(told.reply(ctx.keys.expires_at(args.at(1), ctx.now)?, ctx.now, seconds))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn time_is_told_in_both_units_and_from_both_ends() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("TTL a", ":-2"),
            ("SADD a m", ":1"),
            ("PTTL a", ":-1"),
            ("EXPIRETIME a", ":-1"),
            ("PEXPIRE a 1499", ":1"),
            ("TTL a", ":1"),
            ("PTTL a", ":1499"),
            ("EXPIRETIME a", ":1700000001"),
            ("PEXPIRETIME a", ":1700000001499"),
            ("PEXPIRE a 1500", ":1"),
            ("TTL a", ":2"),
        ]);
        desk.now = desk.now.plus_ms(1500);
        desk.expect(&[("TTL a", ":-2")]);
    }
}

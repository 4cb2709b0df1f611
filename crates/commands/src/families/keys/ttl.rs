//! `TTL key`, `PTTL key`, `EXPIRETIME key`, `PEXPIRETIME key`: -2 if the key does not exist, -1 if it has no expiration.

use crate::ttl::ExpiryForm;
use crate::{Args, CommandResult, Ctx};

pub(super) fn ttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::SecondsLeft)
}

pub(super) fn pttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::MillisLeft)
}

pub(super) fn expiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::AtSeconds)
}

pub(super) fn pexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::AtMillis)
}

/// Rounded to the nearest second.
fn seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

fn expiry(ctx: &mut Ctx<'_>, args: Args<'_>, form: ExpiryForm) -> CommandResult {
    Ok(form.reply(ctx.keys.expires_at(args.at(1), ctx.now)?, ctx.now, seconds))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn times_are_returned_in_both_units_relative_and_absolute() {
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

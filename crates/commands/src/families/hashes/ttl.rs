//! `HTTL key FIELDS numfields field [field ...]`, `HPTTL`, `HEXPIRETIME`, `HPEXPIRETIME` with the same arguments: -2 for a
//! field that does not exist, -1 for one without expiration.

use super::fields;
use crate::ttl::ExpiryForm;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn httl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::SecondsLeft)
}

pub(super) fn hpttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::MillisLeft)
}

pub(super) fn hexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::AtSeconds)
}

pub(super) fn hpexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    expiry(ctx, args, ExpiryForm::AtMillis)
}

/// Seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

fn expiry(ctx: &mut Ctx<'_>, args: Args<'_>, form: ExpiryForm) -> CommandResult {
    let now = ctx.now;
    let hash = ctx.keys.hash(args.at(1), now)?;
    let fields = fields::parse(args, 2, fields::NOT_POSITIVE)?;
    let expires_at = |field| hash.filter(|hash| hash.contains(field)).map(|hash| hash.expires_at(field));
    Ok(Reply::Array(fields.map(|field| form.reply(expires_at(field), now, seconds)).collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn times_are_returned_in_both_units_relative_and_absolute() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HTTL h FIELDS 1 a", "*1 :-2"),
            ("HSET h a 1 b 2", ":2"),
            ("HPEXPIRE h 1001 FIELDS 1 a", "*1 :1"),
            ("HTTL h FIELDS 3 a b x", "*3 :2 :-1 :-2"),
            ("HPTTL h FIELDS 1 a", "*1 :1001"),
            ("HEXPIRETIME h FIELDS 1 a", "*1 :1700000002"),
            ("HPEXPIRETIME h FIELDS 1 a", "*1 :1700000001001"),
            ("SADD s m", ":1"),
            ("HTTL s FOO 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HTTL h FOO 1 a", "-ERR Mandatory argument FIELDS is missing or not at the right position"),
            ("HTTL h FIELDS 0 a", "-ERR Number of fields must be a positive integer"),
            ("HTTL h FIELDS 3 a", "-ERR The `numfields` parameter must match the number of arguments"),
        ]);
    }
}

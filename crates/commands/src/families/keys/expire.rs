//! `EXPIRE key seconds [NX | XX | GT | LT]`, `PEXPIRE key milliseconds ...`, `EXPIREAT key unix-time-seconds ...`,
//! `PEXPIREAT key unix-time-milliseconds ...`

use keystead_core::Millis;

use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const NX_NOT_ALONE: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
const GT_AND_LT: &str = "ERR GT and LT options at the same time are not compatible";

pub(super) fn expire(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let now = ctx.now;
    set(ctx, args, "expire", 1000, now)
}

pub(super) fn pexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let now = ctx.now;
    set(ctx, args, "pexpire", 1, now)
}

pub(super) fn expireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "expireat", 1000, Millis(0))
}

pub(super) fn pexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "pexpireat", 1, Millis(0))
}

#[derive(Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Self, Fail> {
        let mut conditions = Conditions::default();
        for option in args.from(3) {
            let place = match option.to_ascii_uppercase().as_slice() {
                b"NX" => &mut conditions.nx,
                b"XX" => &mut conditions.xx,
                b"GT" => &mut conditions.gt,
                b"LT" => &mut conditions.lt,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Fail::text(format!("ERR Unsupported option {option}")));
                }
            };
            *place = true;
        }
        if conditions.nx && (conditions.xx || conditions.gt || conditions.lt) {
            return Err(Fail::Text(NX_NOT_ALONE.into()));
        }
        if conditions.gt && conditions.lt {
            return Err(Fail::Text(GT_AND_LT.into()));
        }
        Ok(conditions)
    }

    /// Whether a key that expires at `old` may expire at `new`, which may be before 1970.
    fn allow(&self, old: Millis, new: i64) -> bool {
        let expires = old != Millis::NEVER;
        // A key without expiration counts as later than any time.
        let later = expires && new > i64::try_from(old.0).unwrap_or(i64::MAX);
        let earlier = !expires || new < i64::try_from(old.0).unwrap_or(i64::MAX);
        !(self.nx && expires || self.xx && !expires || self.gt && !later || self.lt && !earlier)
    }
}

fn set(ctx: &mut Ctx<'_>, args: Args<'_>, name: &str, unit_ms: i64, from: Millis) -> CommandResult {
    let conditions = Conditions::parse(args)?;
    let from = i64::try_from(from.0).unwrap_or(i64::MAX);
    let at = args.int(2)?.checked_mul(unit_ms).and_then(|ms| ms.checked_add(from));
    let at = at.ok_or_else(|| errors::invalid_expire(name))?;
    let key = args.at(1);
    let Some(old) = ctx.keys.expires_at(key, ctx.now)? else {
        return Ok(Reply::Int(0));
    };
    if !conditions.allow(old, at) {
        return Ok(Reply::Int(0));
    }
    let at = Millis(u64::try_from(at).unwrap_or(0));
    Ok(Reply::yes(ctx.keys.set_expiry(key, at, ctx.now)?))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn moments_are_set_and_past_ones_delete() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("EXPIRE a 10", ":0"),
            ("SADD a m", ":1"),
            ("EXPIRE a 10", ":1"),
            ("PTTL a", ":10000"),
            ("PEXPIRE a 1500", ":1"),
            ("PTTL a", ":1500"),
            ("EXPIREAT a 1700000001", ":1"),
            ("PTTL a", ":1000"),
            ("PEXPIREAT a 9223372036854775807", ":1"),
            ("PEXPIRETIME a", ":9223372036854775807"),
            ("EXPIRE a -1", ":1"),
            ("EXISTS a", ":0"),
            ("SADD a m", ":1"),
            ("PEXPIREAT a 0", ":1"),
            ("EXISTS a", ":0"),
        ]);
    }

    #[test]
    fn conditions_compare_with_the_current_value() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SADD a m", ":1"),
            ("EXPIRE a 10 XX", ":0"),
            ("EXPIRE a 10 GT", ":0"),
            ("EXPIRE a 10 XX LT", ":0"),
            ("EXPIRE a 10 LT", ":1"),
            ("EXPIRE a 20 NX", ":0"),
            ("EXPIRE a 10 GT", ":0"),
            ("EXPIRE a 10 LT", ":0"),
            ("EXPIRE a 20 xx gt", ":1"),
            ("EXPIRE a 10 GT", ":0"),
            ("EXPIRE a -1 GT", ":0"),
            ("EXPIRE a 30 LT", ":0"),
            ("PTTL a", ":20000"),
            ("EXPIRE a -1 LT", ":1"),
            ("EXISTS a", ":0"),
        ]);
    }

    #[test]
    fn options_come_first_then_the_number_then_the_key() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("EXPIRE a x foo", "-ERR Unsupported option foo"),
            ("EXPIRE a x NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
            ("EXPIRE a x GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE a x", "-ERR value is not an integer or out of range"),
            ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("EXPIRE a -9223372036854775808", "-ERR invalid expire time in 'expire' command"),
            ("PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
            ("EXPIREAT a 9223372036854775807", "-ERR invalid expire time in 'expireat' command"),
        ]);
    }
}

//! `INCR key`
//! `DECR key`
//! `INCRBY key increment`
//! `DECRBY key decrement`

use crate::errors::{self, Fail};
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

const DECREMENT_OVERFLOW: Fail = Fail::Text(std::borrow::Cow::Borrowed("ERR decrement would overflow"));

pub(super) fn incr(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    add(ctx, args, 1)
}

pub(super) fn decr(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    add(ctx, args, -1)
}

pub(super) fn incrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    add(ctx, args, args.int(2)?)
}

pub(super) fn decrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    add(ctx, args, args.int(2)?.checked_neg().ok_or(DECREMENT_OVERFLOW)?)
}

fn add(ctx: &mut Ctx<'_>, args: Args<'_>, increment: i64) -> CommandResult {
    let sum = ctx.keys.update_str(args.at(1), ctx.now, |old| {
        let old = old.map_or(Some(0), |old| number::parse_int(old)).ok_or(errors::NOT_INT)?;
        let sum = old.checked_add(increment).ok_or(errors::OVERFLOW)?;
        Ok::<_, Fail>((Some(number::int_bytes(sum)), sum))
    })?;
    Ok(Reply::Int(sum))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn integers_go_up_and_down_and_keep_their_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("INCR k", ":1"),
            ("INCRBY k 41", ":42"),
            ("DECR k", ":41"),
            ("DECRBY k 50", ":-9"),
            ("GET k", "$2 -9"),
            ("SET k 1 PX 10", "+OK"),
            ("INCR k", ":2"),
        ]);
        desk.now.0 += 10;
        desk.expect(&[("DECR k", ":-1")]);
    }

    #[test]
    fn errors_leave_the_value() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("INCR s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("INCRBY s x", "-ERR value is not an integer or out of range"),
            ("DECRBY s -9223372036854775808", "-ERR decrement would overflow"),
            ("SET k 9223372036854775807", "+OK"),
            ("INCR k", "-ERR increment or decrement would overflow"),
            ("DECRBY k -1", "-ERR increment or decrement would overflow"),
            ("GET k", "$19 9223372036854775807"),
            ("SET k 1.0", "+OK"),
            ("INCR k", "-ERR value is not an integer or out of range"),
            ("SET k ''", "+OK"),
            ("DECR k", "-ERR value is not an integer or out of range"),
        ]);
    }
}

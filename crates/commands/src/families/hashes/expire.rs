//! `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`, `HPEXPIRE key milliseconds ...`,
//! `HEXPIREAT key unix-time-seconds ...`, `HPEXPIREAT key unix-time-milliseconds ...`
//!
//! The reply for each field is -2 (no such field), 0 (condition not met), 1 (set) or 2 (deleted: the time is in the past).

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::HashMut;

use super::fields;
use super::moment::Form;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "hexpire", Form::IN_SECONDS)
}

pub(super) fn hpexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "hpexpire", Form::IN_MS)
}

pub(super) fn hexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "hexpireat", Form::AT_SECONDS)
}

pub(super) fn hpexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    set(ctx, args, "hpexpireat", Form::AT_MS)
}

#[derive(Clone, Copy)]
enum Condition {
    Always,
    /// The field has no expiration.
    Nx,
    /// The field has an expiration.
    Xx,
    /// The new expiration is later.
    Gt,
    /// The new expiration is earlier.
    Lt,
}

impl Condition {
    fn parse(text: &[u8]) -> Self {
        match text.to_ascii_uppercase().as_slice() {
            b"NX" => Condition::Nx,
            b"XX" => Condition::Xx,
            b"GT" => Condition::Gt,
            b"LT" => Condition::Lt,
            _ => Condition::Always,
        }
    }

    /// [`Millis::NEVER`] is later than any time.
    fn allows(self, old: Millis, new: Millis) -> bool {
        match self {
            Condition::Always => true,
            Condition::Nx => old == Millis::NEVER,
            Condition::Xx => old != Millis::NEVER,
            Condition::Gt => new > old,
            Condition::Lt => new < old,
        }
    }
}

fn set(ctx: &mut Ctx<'_>, args: Args<'_>, name: &str, form: Form) -> CommandResult {
    let now = ctx.now;
    let mut hash = ctx.keys.hash_mut(args.at(1), now)?;
    let at = form.moment(args.at(2), now, name)?;
    let condition = Condition::parse(args.at(3));
    let fields_at = if matches!(condition, Condition::Always) { 3 } else { 4 };
    let fields = fields::parse(args, fields_at, fields::NOT_ABOVE_ZERO)?;
    let replies = fields.map(|field| Reply::Int(set_one(&mut hash, &Bytes::from(field), condition, at, now)));
    Ok(Reply::Array(replies.collect()))
}

fn set_one(hash: &mut HashMut<'_>, field: &Bytes, condition: Condition, at: Millis, now: Millis) -> i64 {
    if !hash.contains(field) {
        return -2;
    }
    if !condition.allows(hash.expires_at(field), at) {
        return 0;
    }
    if at <= now {
        hash.remove(field);
        return 2;
    }
    hash.set_field_expiry(field, at);
    1
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn each_field_gets_a_reply() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HEXPIRE h 10 FIELDS 2 a b", "*2 :-2 :-2"),
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HEXPIRE h 10 FIELDS 2 a x", "*2 :1 :-2"),
            ("HEXPIRE h 20 NX FIELDS 2 a b", "*2 :0 :1"),
            ("HEXPIRE h 15 XX FIELDS 2 a c", "*2 :1 :0"),
            ("HEXPIRE h 15 gt FIELDS 3 a b c", "*3 :0 :0 :0"),
            ("HEXPIRE h 16 GT FIELDS 1 a", "*1 :1"),
            ("HEXPIRE h 16 LT FIELDS 3 a b c", "*3 :0 :1 :1"),
            ("HTTL h FIELDS 3 a b c", "*3 :16 :16 :16"),
            ("HPEXPIRE h 1500 FIELDS 1 a", "*1 :1"),
            ("HPTTL h FIELDS 1 a", "*1 :1500"),
            ("HEXPIREAT h 1700000001 FIELDS 1 a", "*1 :1"),
            ("HPTTL h FIELDS 1 a", "*1 :1000"),
            ("HPEXPIREAT h 1700000001500 FIELDS 1 a", "*1 :1"),
            ("HPTTL h FIELDS 1 a", "*1 :1500"),
            ("HEXPIRE h 0 FIELDS 2 a a", "*2 :2 :-2"),
            ("HEXPIREAT h 1 FIELDS 2 b c", "*2 :2 :2"),
            ("EXISTS h", ":0"),
        ]);
    }

    #[test]
    fn checks_come_in_order() {
        let mut desk = Desk::new();
        desk.run("SADD s m");
        desk.run("HSET h a 1");
        desk.expect(&[
            ("HEXPIRE s x FOO 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HEXPIRE h x FOO 1 a", "-ERR value is not an integer or out of range"),
            ("HEXPIRE h -1 FOO 1 a", "-ERR invalid expire time, must be >= 0"),
            ("HEXPIRE h 9223372036854775807 FOO 1 a", "-ERR invalid expire time in 'hexpire' command"),
            ("HPEXPIRE h 70368744177664 FOO 1 a", "-ERR invalid expire time in 'hpexpire' command"),
            ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command"),
            ("HPEXPIREAT h 70368744177663 FIELDS 1 x", "*1 :-2"),
            (
                "HEXPIRE h 10 FOO 0 a",
                "-ERR Mandatory argument FIELDS is missing or not at the right position",
            ),
            (
                "HEXPIRE h 10 NX XX FIELDS 1 a",
                "-ERR Mandatory argument FIELDS is missing or not at the right position",
            ),
            ("HEXPIRE h 10 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 10 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 10 FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments"),
            ("HEXPIRE h 10 NX FIELDS 2", "-ERR The `numfields` parameter must match the number of arguments"),
            ("HEXPIRE h 10 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command"),
        ]);
    }
}

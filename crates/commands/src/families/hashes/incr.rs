//! `HINCRBY key field increment`, `HINCRBYFLOAT key field increment`. The expiration of the field does not change.

use keystead_model::Bytes;

use crate::errors::{self, Fail};
use crate::number::{self, LongDouble};
use crate::{Args, CommandResult, Ctx, Reply};

const VALUE_NOT_INT: &str = "ERR hash value is not an integer";
const VALUE_NOT_FLOAT: &str = "ERR hash value is not a float";
const NOT_FINITE: &str = "ERR value is NaN or Infinity";

pub(super) fn hincrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let increment = args.int(3)?;
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let field = Bytes::from(args.at(2));
    let old = match hash.get(&field) {
        Some(text) => number::parse_int(text).ok_or(Fail::Text(VALUE_NOT_INT.into()))?,
        None => 0,
    };
    let new = old.checked_add(increment).ok_or(errors::OVERFLOW)?;
    let mut text = Vec::with_capacity(20);
    number::push_int(&mut text, new);
    let expires_at = hash.expires_at(&field);
    hash.set_until(&field, &Bytes::from(text.as_slice()), expires_at);
    Ok(Reply::Int(new))
}

pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let increment = LongDouble::parse(args.at(3)).ok_or(errors::NOT_FLOAT)?;
    if !increment.is_finite() {
        return Err(Fail::Text(NOT_FINITE.into()));
    }
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let field = Bytes::from(args.at(2));
    let old = match hash.get(&field) {
        Some(text) => LongDouble::parse(text).ok_or(Fail::Text(VALUE_NOT_FLOAT.into()))?,
        None => LongDouble::ZERO,
    };
    let new = old.checked_add(increment).ok_or(errors::NAN_OR_INFINITY)?.format();
    let expires_at = hash.expires_at(&field);
    let new = Bytes::from(new.as_bytes());
    hash.set_until(&field, &new, expires_at);
    Ok(Reply::shared(new))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn integers_are_added() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HINCRBY h a 5", ":5"),
            ("HINCRBY h a -7", ":-2"),
            ("HGET h a", "$2 -2"),
            ("HEXPIRE h 10 FIELDS 1 a", "*1 :1"),
            ("HINCRBY h a 1", ":-1"),
            ("HTTL h FIELDS 1 a", "*1 :10"),
            ("HINCRBY h a x", "-ERR value is not an integer or out of range"),
            ("HINCRBY h a -9223372036854775808", "-ERR increment or decrement would overflow"),
            ("HSET h f foo", ":1"),
            ("HINCRBY h f 1", "-ERR hash value is not an integer"),
            ("SADD s m", ":1"),
            ("HINCRBY s f x", "-ERR value is not an integer or out of range"),
            ("HINCRBY s f 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn decimals_are_added_as_redis_does() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HINCRBYFLOAT h a 10.50", "$4 10.5"),
            ("HINCRBYFLOAT h a 0.1", "$4 10.6"),
            ("HINCRBYFLOAT h a -5", "$3 5.6"),
            ("HINCRBYFLOAT h b 5.0e3", "$4 5000"),
            ("HEXPIRE h 10 FIELDS 1 a", "*1 :1"),
            ("HINCRBYFLOAT h a 1", "$3 6.6"),
            ("HTTL h FIELDS 1 a", "*1 :10"),
            ("HINCRBYFLOAT h a x", "-ERR value is not a valid float"),
            ("HINCRBYFLOAT h a nan", "-ERR value is not a valid float"),
            ("HINCRBYFLOAT h a inf", "-ERR value is NaN or Infinity"),
            ("HSET h f foo", ":1"),
            ("HINCRBYFLOAT h f 1", "-ERR hash value is not a float"),
            ("SADD s m", ":1"),
            ("HINCRBYFLOAT s f inf", "-ERR value is NaN or Infinity"),
            ("HINCRBYFLOAT s f 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}

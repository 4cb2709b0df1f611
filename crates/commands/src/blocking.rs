//! What blocking commands share: the timeout, and the choice of the first of several keys. It touches the keyspace.

use keystead_model::value::Kind;

use crate::ctx::Ctx;
use crate::errors::{self, Fail};
use crate::number;

/// The first of these keys that exists, if its value is of this kind.
///
/// # Errors
/// WRONGTYPE if the value is of another kind and the command has not blocked yet. Once it has blocked, such a key is skipped.
pub fn first_of<'k>(
    ctx: &mut Ctx<'_>,
    keys: impl IntoIterator<Item = &'k [u8]>,
    kind: Kind,
) -> Result<Option<&'k [u8]>, Fail> {
    for key in keys {
        match ctx.keys.kind(key, ctx.now)? {
            Some(found) if found == kind => return Ok(Some(key)),
            Some(_) if !ctx.woken => return Err(errors::WRONG_TYPE),
            _ => {}
        }
    }
    Ok(None)
}

/// Seconds with a fraction, as BLPOP and similar commands take them. `None`: no timeout.
///
/// # Errors
/// Redis's errors for a value that is not a number, is negative, or is out of range.
pub fn timeout_seconds(text: &[u8]) -> Result<Option<u64>, Fail> {
    let seconds = number::parse_float(text).ok_or(errors::TIMEOUT_NOT_FLOAT)?;
    let ms = (seconds * 1000.0).ceil();
    if ms >= i64::MAX as f64 || ms.is_nan() {
        return Err(errors::TIMEOUT_OUT_OF_RANGE);
    }
    if ms < 0.0 {
        return Err(errors::TIMEOUT_NEGATIVE);
    }
    Ok(Some(ms as u64).filter(|ms| *ms > 0))
}

/// Milliseconds, as XREAD BLOCK takes them. `None`: no timeout.
///
/// # Errors
/// As [`timeout_seconds`].
pub fn timeout_ms(text: &[u8]) -> Result<Option<u64>, Fail> {
    let ms = number::parse_int(text).ok_or(errors::TIMEOUT_NOT_INT)?;
    let ms = u64::try_from(ms).map_err(|_| errors::TIMEOUT_NEGATIVE)?;
    Ok(Some(ms).filter(|ms| *ms > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn a_key_of_another_kind_is_an_error_at_first_and_nothing_later() {
        let mut desk = Desk::new();
        desk.expect(&[("SET text x", "+OK"), ("RPUSH list a", ":1")]);
        let mut ctx = Ctx::new(&mut desk.keys, desk.now, &mut desk.random, &desk.hub);
        let keys = [&b"none"[..], b"text", b"list"];
        assert_eq!(first_of(&mut ctx, keys, Kind::List), Err(errors::WRONG_TYPE));
        ctx.woken = true;
        assert_eq!(first_of(&mut ctx, keys, Kind::List), Ok(Some(&b"list"[..])));
        assert_eq!(first_of(&mut ctx, keys, Kind::ZSet), Ok(None));
    }

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        for (text, timeout) in [
            ("0", Ok(None)),
            ("-0.0001", Ok(None)),
            ("0.0001", Ok(Some(1))),
            ("1.5", Ok(Some(1500))),
            ("-1", Err(errors::TIMEOUT_NEGATIVE)),
            ("x", Err(errors::TIMEOUT_NOT_FLOAT)),
            ("inf", Err(errors::TIMEOUT_OUT_OF_RANGE)),
            ("1e30", Err(errors::TIMEOUT_OUT_OF_RANGE)),
        ] {
            assert_eq!(timeout_seconds(text.as_bytes()), timeout, "{text}");
        }
    }
}

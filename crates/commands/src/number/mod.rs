//! Numbers as Redis parses and writes them. It touches nothing.

mod big;
mod long_double;
mod text;

use keystead_model::Bytes;

pub use long_double::LongDouble;
use text::Text;

use crate::errors::{self, Fail};

/// A number of elements, or a position; none if it is negative. One that the machine cannot count to is the largest: `usize` has 32 bits on wasm32,
/// and a request may name any number of 64 bits.
#[inline]
#[must_use]
pub fn size(number: i64) -> Option<usize> {
    u64::try_from(number).ok().map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// An integer as Redis parses it: no sign but `-`, no leading zeros, no spaces, within 64 bits.
#[inline]
#[must_use]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    if digits.len() > 19 {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// A double as Redis parses it (C's `strtod` without leading space): decimal, hexadecimal or `inf`. NaN is rejected, and so are
/// numbers that overflow or underflow to zero.
#[must_use]
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let (negative, said) = text::scan(text)?;
    let value = match said {
        Text::Infinity => return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Text::Decimal(decimal) => {
            // The standard library parses the same grammar, and rounds correctly.
            let value = std::str::from_utf8(text).ok()?.parse::<f64>().ok()?.abs();
            if value == 0.0 && !decimal.is_zero() {
                return None;
            }
            value
        }
        Text::Hexadecimal(hex) => from_hex(&hex)?,
    };
    value.is_finite().then_some(if negative { -value } else { value })
}

fn from_hex(hex: &text::Hexadecimal<'_>) -> Option<f64> {
    const EXPONENT_MIN: i64 = f64::MIN_EXP as i64 - f64::MANTISSA_DIGITS as i64;
    let (top, exponent, sticky) = hex.value();
    if top == 0 {
        return Some(0.0);
    }
    let (mantissa, exponent) = text::round(top, exponent, sticky, f64::MANTISSA_DIGITS, EXPONENT_MIN);
    // An implicit first bit, and an exponent that is 1 where the smallest numbers have it.
    let biased = u64::try_from(exponent - EXPONENT_MIN).ok()?;
    let bits = mantissa.checked_add(biased.checked_mul(1 << (f64::MANTISSA_DIGITS - 1))?)?;
    (mantissa != 0 && bits < f64::INFINITY.to_bits()).then(|| f64::from_bits(bits))
}

/// The sum of two texts as INCRBYFLOAT computes it: in 80-bit x87 floats, whatever the machine.
///
/// # Errors
/// Redis's errors for a text that is not a number, and for a sum that is not finite.
pub fn add_long_double(a: &[u8], b: &[u8]) -> Result<String, Fail> {
    let a = LongDouble::parse(a).ok_or(errors::NOT_FLOAT)?;
    let b = LongDouble::parse(b).ok_or(errors::NOT_FLOAT)?;
    a.checked_add(b).map(LongDouble::format).ok_or(errors::NAN_OR_INFINITY)
}

/// Appends an integer.
#[inline]
pub fn push_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(int_digits(value, &mut [0; INT_BYTES_MAX]));
}

/// An integer as the value of a key: it is stored inline, so this allocates nothing.
#[inline]
#[must_use]
pub fn int_bytes(value: i64) -> Bytes {
    Bytes::from(int_digits(value, &mut [0; INT_BYTES_MAX]))
}

/// A sign and 19 digits.
const INT_BYTES_MAX: usize = 20;

#[inline]
fn int_digits(value: i64, digits: &mut [u8; INT_BYTES_MAX]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

/// A double as Redis 7.2 and later write it: the shortest text that parses to the same number.
#[must_use]
pub fn format_float(value: f64) -> String {
    /// Whole numbers up to half of the highest integer are written in full.
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    if value.abs() <= WHOLE_MAX && value.trunc() == value {
        return (value as i64).to_string();
    }
    // Digits and exponent of the shortest form, d.ddd e x.
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let (count, point) = (digits.len() as i32, exponent + 1);
    let last = point - count;
    if last >= 0 && exponent < count + 7 {
        return format!("{sign}{digits}{}", "0".repeat(last as usize));
    }
    if last < 0 && (last > -7 || exponent.abs() < 4) {
        return match usize::try_from(point) {
            Ok(whole @ 1..) => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
            _ => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        };
    }
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    let fraction = if count > 1 { format!(".{}", &digits[1..]) } else { String::new() };
    format!("{sign}{}{fraction}e{exponent_sign}{}", &digits[..1], exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_int(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn integers_are_written_in_full() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_int(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            assert_eq!(int_bytes(value), out);
        }
    }

    #[test]
    fn doubles_are_read_as_strtod_does() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("-1e3", Some(-1000.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("-0x1.8p1", Some(-3.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1.fffffffffffff8p0", Some(2.0)),
            ("0x.0000000000000000000000000000000000008p2147483647", None),
            ("0x1p-1076", None),
            ("0x0p99999999999", Some(0.0)),
            ("0x1.fffffffffffffp1023", Some(f64::MAX)),
            ("0x1.fffffffffffff8p1023", None),
            ("1e400", None),
            ("1e-400", None),
            ("-0e99", Some(0.0)),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1x", None),
        ] {
            assert_eq!(parse_float(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn doubles_are_written_short() {
        for (value, text) in [
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (3.25, "3.25"),
            (1e18, "1000000000000000000"),
            (-123456789012345680.0, "-123456789012345680"),
            (4.7e18, "4.7e+18"),
            (1e20, "1e+20"),
            (12345678901234567e3, "12345678901234567000"),
            (1.5e-7, "1.5e-7"),
            (-1.5e-6, "-1.5e-6"),
            (1.25e-4, "0.000125"),
            (1.23456789e-4, "1.23456789e-4"),
            (1.2345678901234567e-3, "0.0012345678901234567"),
            (0.00001, "0.00001"),
            (1234567.125, "1234567.125"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_float(value), text);
        }
    }
}

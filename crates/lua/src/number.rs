//! Parses and prints numbers as C does, because Lua does. It touches nothing.

/// A text as `tonumber` and the arithmetic operators read it: C's strtod, with spaces around it.
#[must_use]
pub fn parse(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = unsigned(digits)?;
    Some(if negative { -value } else { value })
}

/// Spaces as C's isspace has them.
#[must_use]
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(*byte)).map_or(start, |at| at + 1);
    &text[start..end]
}

fn unsigned(text: &[u8]) -> Option<f64> {
    match text.first()? {
        b'0' if matches!(text.get(1), Some(b'x' | b'X')) => hexadecimal(&text[2..]),
        b'0'..=b'9' | b'.' => {
            let fits = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
            // Rust's parser accepts the same texts as C's here.
            if fits { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
        }
        b'i' | b'I' => {
            let is = text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity");
            is.then_some(f64::INFINITY)
        }
        b'n' | b'N' => is_nan(text).then_some(f64::NAN),
        _ => None,
    }
}

/// `nan`, or `nan(letters)`.
fn is_nan(text: &[u8]) -> bool {
    if text.len() < 3 || !text[..3].eq_ignore_ascii_case(b"nan") {
        return false;
    }
    let rest = &text[3..];
    let inner = rest.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    let is_word = |inner: &[u8]| inner.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    rest.is_empty() || inner.is_some_and(is_word)
}

/// What follows `0x`: digits, a fraction, a power of two.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let (mut mantissa, mut exponent, mut digits, mut sticky) = (0_u64, 0_i32, 0_usize, false);
    let (mut point, mut at) = (false, 0);
    while let Some(byte) = text.get(at) {
        if *byte == b'.' && !point {
            point = true;
        } else if let Some(digit) = (*byte as char).to_digit(16) {
            digits += 1;
            if mantissa >> 59 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                exponent = exponent.saturating_sub(if point { 4 } else { 0 });
            } else {
                sticky |= digit != 0;
                exponent = exponent.saturating_add(if point { 0 } else { 4 });
            }
        } else {
            break;
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    if at < text.len() {
        let rest = text[at..].strip_prefix(b"p").or_else(|| text[at..].strip_prefix(b"P"))?;
        exponent = exponent.saturating_add(power(rest)?);
    }
    // The lowest bit is a sticky bit for the digits that were dropped, so that it is rounded only once.
    Some(scale((mantissa | u64::from(sticky)) as f64, exponent))
}

fn power(text: &[u8]) -> Option<i32> {
    let digits = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0_i32, |sum, digit| sum.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
    Some(if text[0] == b'-' { -value } else { value })
}

/// `value * 2^exponent`, without overflow or underflow of intermediate results.
#[must_use]
pub fn scale(mut value: f64, mut exponent: i32) -> f64 {
    while exponent > 1000 && value.is_finite() && value != 0.0 {
        value *= 2_f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -1000 && value != 0.0 {
        value *= 2_f64.powi(-1000);
        exponent += 1000;
    }
    value * 2_f64.powi(exponent.clamp(-1000, 1000))
}

/// C's `%.{precision}g`.
#[must_use]
pub fn general(value: f64, precision: usize) -> String {
    if let Some(word) = not_finite(value) {
        return word.into();
    }
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, value);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        return format!("{}e{}{:02}", trimmed(digits), sign(exponent), exponent.abs());
    }
    let decimals = usize::try_from(precision as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// What printf writes for infinities and NaN.
pub(crate) fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some(if value.is_sign_negative() { "-nan" } else { "nan" }),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

pub(crate) fn sign(exponent: i32) -> char {
    if exponent < 0 { '-' } else { '+' }
}

/// Without zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A number as `tostring` writes it: C's `%.14g`.
#[must_use]
pub fn format(value: f64) -> String {
    let integer = value as i64;
    if integer as f64 == value
        && integer.unsigned_abs() < 100_000_000_000_000
        && (integer != 0 || value.is_sign_positive())
    {
        return integer.to_string();
    }
    general(value, 14)
}

/// C's conversion of a double to a long: out of range it is the smallest long, as on x86.
#[must_use]
pub fn to_long(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_c_does() {
        for (text, value) in [
            ("10", Some(10.0)),
            (" 0x10 ", Some(16.0)),
            ("-0x1p4", Some(-16.0)),
            ("0x.8", Some(0.5)),
            ("1e2", Some(100.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("", None),
            (" ", None),
            (".", None),
            ("0x", None),
            ("1e", None),
            ("1 2", None),
            ("1_", None),
            ("--1", None),
            ("1e999", Some(f64::INFINITY)),
            ("0x1p99999999999", Some(f64::INFINITY)),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text}");
        }
        assert!(parse(b"nan").is_some_and(f64::is_nan));
        assert!(parse(b"nan(0x1)").is_some_and(f64::is_nan));
    }

    #[test]
    fn numbers_are_written_as_printf_does() {
        for (value, precision, text) in [
            (-0.0, 14, "-0"),
            (0.1, 17, "0.10000000000000001"),
            (1e14, 14, "1e+14"),
            (1e13, 14, "10000000000000"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (0.00001, 14, "1e-05"),
            (9.9999999999999995, 3, "10"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ] {
            assert_eq!(general(value, precision), text);
        }
        for value in [0.0, -0.0, 1.0, 99_999_999_999_999.0, 1e14, -1e13, 0.5, 1e300] {
            assert_eq!(format(value), general(value, 14));
        }
    }
}

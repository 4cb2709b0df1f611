//! Numbers as C's printf writes them for Lua. It touches nothing.

/// C's `%.{precision}g`.
pub(super) fn general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, value);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
    let decimals = usize::try_from(precision as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Without zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A number as Lua's `tostring` writes it.
pub(super) fn lua_number(value: f64) -> String {
    general(value, 14)
}

/// A text as the number that Lua reads in it.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    crate::number::parse_float(text.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_does() {
        for (value, precision, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (1e14, 14, "1e+14"),
            (1e13, 14, "10000000000000"),
            (123456789012345680.0, 17, "1.2345678901234568e+17"),
            (9007199254740993.0, 17, "9007199254740992"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (9.9999999999999995, 3, "10"),
            (f64::INFINITY, 14, "inf"),
            (f64::NEG_INFINITY, 14, "-inf"),
            (1e300, 14, "1e+300"),
            (2.5477, 3, "2.55"),
        ] {
            assert_eq!(general(value, precision), text);
        }
    }
}

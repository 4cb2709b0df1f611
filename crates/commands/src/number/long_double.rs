//! The 80-bit x87 float, in which Redis computes INCRBYFLOAT and HINCRBYFLOAT, implemented with integers. It touches nothing.
//!
//! Parsing, adding and formatting are exact except for the one rounding to nearest (ties to even) that each of them has on
//! x87, so the texts are Redis's on every machine. Invariant: a finite number is `mantissa * 2^exponent`, and the highest bit
//! of its mantissa is set unless the exponent is the smallest.

use std::fmt::Write;

use super::big::Big;
use super::text::{self, Text};

/// Bits of a mantissa.
const MANTISSA_BITS: u32 = 64;
/// The exponent of the last bit of the smallest numbers.
const EXPONENT_MIN: i64 = -16_445;
/// The exponent of the last bit of the largest numbers.
const EXPONENT_MAX: i64 = 16_320;
/// Digits before the point of the largest numbers, with a margin.
const DIGITS_MAX: i64 = 4_940;
/// Zeros after the point beyond which only zeros matter, with a margin.
const ZEROS_MAX: i64 = 4_990;
/// Texts of this length are rejected, as by Redis's buffer.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Digits after the point that are written.
const DECIMALS: usize = 17;

/// A number that is not NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Finite { mantissa: u64, exponent: i64 },
    Infinite,
}

const ZERO: Size = Size::Finite { mantissa: 0, exponent: EXPONENT_MIN };

impl LongDouble {
    /// Zero.
    pub const ZERO: LongDouble = LongDouble { negative: false, size: ZERO };

    /// A number as Redis parses it (C's `strtold` without leading space): decimal, hexadecimal or `inf`. NaN is rejected, and so
    /// are numbers that overflow or underflow to zero.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = text::scan(text)?;
        let size = match text {
            Text::Infinity => Size::Infinite,
            Text::Decimal(decimal) => from_decimal(&decimal)?,
            Text::Hexadecimal(hex) => {
                let (top, exponent, sticky) = hex.value();
                from_scaled(top, exponent, sticky)?
            }
        };
        Some(LongDouble { negative, size })
    }

    /// Whether it is finite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.size != Size::Infinite
    }

    /// The sum; `None` if it is not finite.
    #[must_use]
    pub fn checked_add(self, other: LongDouble) -> Option<Self> {
        let (
            Size::Finite { mantissa: a, exponent: a_exponent },
            Size::Finite { mantissa: b, exponent: b_exponent },
        ) = (self.size, other.size)
        else {
            return None;
        };
        if b == 0 {
            return Some(self);
        }
        if a == 0 {
            return Some(other);
        }
        // The one with the higher exponent, with 63 bits after its last and one before its first.
        let swap = (b_exponent, b) > (a_exponent, a);
        let ((large, exponent, negative), (small, small_exponent)) = if swap {
            ((b, b_exponent, other.negative), (a, a_exponent))
        } else {
            ((a, a_exponent, self.negative), (b, b_exponent))
        };
        let large = u128::from(large) << 63;
        let small = shift_right_sticky(u128::from(small) << 63, exponent - small_exponent);
        let sum = if self.negative == other.negative { large + small } else { large - small };
        if sum == 0 {
            return Some(LongDouble::ZERO);
        }
        let size = round(sum, exponent - 63, false);
        (size != Size::Infinite).then_some(LongDouble { negative, size })
    }

    /// As Redis writes it: at most 17 digits after the point, without trailing zeros, never `-0`.
    #[must_use]
    pub fn format(self) -> String {
        let Size::Finite { mantissa, exponent } = self.size else {
            return if self.negative { "-inf" } else { "inf" }.into();
        };
        let mut out = String::new();
        if exponent >= 0 {
            let mut whole = Big::from(mantissa);
            whole.shift_left(exponent as u32);
            out = whole.into_decimal();
        } else {
            const ONE: u128 = 10u128.pow(DECIMALS as u32);
            let scaled = shift_right_rounded(u128::from(mantissa) * ONE, exponent.unsigned_abs());
            // Writing to a string cannot fail.
            let _ = write!(out, "{}.{:0DECIMALS$}", scaled / ONE, scaled % ONE);
            out.truncate(out.trim_end_matches('0').trim_end_matches('.').len());
        }
        if self.negative && out != "0" {
            out.insert(0, '-');
        }
        out
    }
}

/// The nearest number to a decimal text; `None` if it is out of range.
fn from_decimal(decimal: &text::Decimal<'_>) -> Option<Size> {
    let (digits, exponent) = decimal.value();
    if digits.is_empty() {
        return Some(ZERO);
    }
    let magnitude = exponent.saturating_add(digits.len() as i64);
    if !(-ZEROS_MAX..=DIGITS_MAX).contains(&magnitude) {
        return None;
    }
    let mut big = Big::from_decimal(&digits);
    let mut scale = 0;
    let mut sticky = false;
    if exponent >= 0 {
        big.multiply_by_power_of_ten(exponent as u32);
    } else {
        // So many more bits that those of the quotient suffice for rounding.
        let power = exponent.unsigned_abs() as u32;
        let divisor_bits = u64::from(power) * 3322 / 1000 + 1;
        let bits = (divisor_bits + u64::from(MANTISSA_BITS) + 4).saturating_sub(big.bits());
        big.shift_left(bits as u32);
        scale = -(bits as i64);
        sticky = big.divide_by_power_of_ten(power);
    }
    let (top, shift, more) = big.top();
    from_scaled(top, scale + shift, sticky || more)
}

/// The nearest number to `top * 2^exponent` (and a little more, if `sticky`); `None` if it is out of range.
fn from_scaled(top: u128, exponent: i64, sticky: bool) -> Option<Size> {
    if top == 0 && !sticky {
        return Some(ZERO);
    }
    Some(round(top, exponent, sticky)).filter(|size| *size != Size::Infinite && *size != ZERO)
}

fn round(top: u128, exponent: i64, sticky: bool) -> Size {
    match text::round(top, exponent, sticky, MANTISSA_BITS, EXPONENT_MIN) {
        (_, exponent) if exponent > EXPONENT_MAX => Size::Infinite,
        (0, _) => ZERO,
        (mantissa, exponent) => Size::Finite { mantissa, exponent },
    }
}

/// Lost bits leave a mark in the last bit.
fn shift_right_sticky(value: u128, by: i64) -> u128 {
    match u32::try_from(by) {
        Ok(by) if by < u128::BITS => (value >> by) | u128::from(value & ((1 << by) - 1) != 0),
        _ => u128::from(value != 0),
    }
}

/// To the nearest, ties to even.
fn shift_right_rounded(value: u128, by: u64) -> u128 {
    match u32::try_from(by) {
        Ok(by @ 1..u128::BITS) => {
            let (floor, rest, half) = (value >> by, value & ((1 << by) - 1), 1 << (by - 1));
            floor + u128::from(rest > half || (rest == half && floor & 1 == 1))
        }
        Ok(0) => value,
        // The value has at most 121 bits, so this is less than a half.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(a: &str, b: &str) -> Option<String> {
        let (a, b) = (LongDouble::parse(a.as_bytes())?, LongDouble::parse(b.as_bytes())?);
        a.checked_add(b).map(LongDouble::format)
    }

    #[test]
    fn sums_read_as_redis_writes_them() {
        for (a, b, sum) in [
            ("0", "0", "0"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "-1.5", "-0.5"),
            ("0.1", "0.2", "0.3"),
            ("3", "-3", "0"),
            ("-0", "-0", "0"),
            ("0", "-1e-20", "0"),
            ("0", "0x1.8p1", "3"),
            ("1e-4950", "0", "0"),
            ("0", "1e20", "100000000000000000000"),
            ("0", "18446744073709551615", "18446744073709551615"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("18446744073709551618", "1", "18446744073709551620"),
            ("1e17", "0.1", "100000000000000000.1015625"),
            ("9007199254740993", "0.5", "9007199254740993.5"),
            ("-9223372036854775809", "1", "-9223372036854775808"),
            ("123456789.123456789", "0.987654321987654321", "123456790.11111111098580295"),
            ("36893488147419103233", "0", "36893488147419103232"),
            ("0x1.fffffffffffffffep0", "0x1p-64", "2"),
            ("4503599627370496.5", "0.25", "4503599627370496.75"),
            ("1e19", "-0.5", "10000000000000000000"),
            ("3.6e-4951", "1", "1"),
            ("0", "0.000000000000000005", "0"),
            ("0", "0.000000000000000015", "0.00000000000000002"),
        ] {
            assert_eq!(add(a, b).as_deref(), Some(sum), "{a} + {b}");
        }
    }

    #[test]
    fn infinite_numbers_are_rejected() {
        for text in [
            "",
            " 1",
            "1 ",
            "1e",
            "e1",
            ".",
            "0x",
            "0xg",
            "0x1p",
            "nan",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "infin",
            "+-1",
            "1..2",
            "1\0",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["inf", "-INFINITY", "+Inf"] {
            assert!(!LongDouble::parse(text.as_bytes()).unwrap().is_finite());
            assert_eq!(add(text, "1"), None);
        }
        assert_eq!(add("1.1e4932", "1.1e4932"), None);
        assert!(LongDouble::parse(&[b'1'; TEXT_BYTES_MAX]).is_none());
        assert_eq!(add("0e99999999999999999999", "0"), Some("0".into()));
        assert_eq!(add("1e4932", "0").unwrap().len(), 4933);
    }
}

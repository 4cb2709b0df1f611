//! The grammar of C's `strtod` and `strtold`, and rounding to binary. It touches nothing.

/// Larger exponents are all the same: out of range, whatever the digits are.
const EXPONENT_LIMIT: i64 = 1 << 40;

/// A parsed text, without its sign.
pub(super) enum Text<'a> {
    Infinity,
    Decimal(Decimal<'a>),
    Hexadecimal(Hexadecimal<'a>),
}

/// `whole.fraction * 10^exponent`
pub(super) struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// `whole.fraction * 2^exponent`, the digits being hexadecimal.
pub(super) struct Hexadecimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// Whether a text is negative, and its value. `None` if it is not a number, or NaN.
pub(super) fn scan(text: &[u8]) -> Option<(bool, Text<'_>)> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
        return Some((negative, Text::Infinity));
    }
    let said = if let [b'0', b'x' | b'X', rest @ ..] = text {
        let (whole, fraction, exponent) = parts(rest, u8::is_ascii_hexdigit, b'p')?;
        Text::Hexadecimal(Hexadecimal { whole, fraction, exponent })
    } else {
        let (whole, fraction, exponent) = parts(text, u8::is_ascii_digit, b'e')?;
        Text::Decimal(Decimal { whole, fraction, exponent })
    };
    Some((negative, said))
}

/// The digits before and after the point, and the exponent after `mark`.
fn parts(text: &[u8], is_digit: impl Fn(&u8) -> bool, mark: u8) -> Option<(&[u8], &[u8], i64)> {
    let split = |text: &'_ [u8]| text.iter().position(|c| !is_digit(c)).unwrap_or(text.len());
    let (whole, mut rest) = text.split_at(split(text));
    let mut fraction = &rest[..0];
    if let [b'.', behind @ ..] = rest {
        (fraction, rest) = behind.split_at(split(behind));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [first, digits @ ..] if first.eq_ignore_ascii_case(&mark) => parse_exponent(digits)?,
        _ => return None,
    };
    Some((whole, fraction, exponent))
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value =
        digits.iter().fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_LIMIT));
    Some(if negative { -value } else { value })
}

impl Decimal<'_> {
    /// Its digits (0 to 9, as values) without zeros at either end, and the power of ten by which they are multiplied.
    pub(super) fn value(&self) -> (Vec<u8>, i64) {
        let all = self.whole.iter().chain(self.fraction);
        let mut digits: Vec<u8> = all.skip_while(|c| **c == b'0').map(|c| c - b'0').collect();
        let mut exponent = self.exponent - self.fraction.len() as i64;
        while digits.last() == Some(&0) {
            digits.pop();
            exponent += 1;
        }
        (digits, exponent)
    }

    /// Whether all its digits are zeros.
    pub(super) fn is_zero(&self) -> bool {
        self.whole.iter().chain(self.fraction).all(|c| *c == b'0')
    }
}

impl Hexadecimal<'_> {
    /// `(top, exponent, sticky)`: the value is `top * 2^exponent`, and a little more if `sticky`.
    pub(super) fn value(&self) -> (u128, i64, bool) {
        let (mut top, mut exponent, mut sticky) =
            (0u128, self.exponent - 4 * self.fraction.len() as i64, false);
        for c in self.whole.iter().chain(self.fraction) {
            let digit = char::from(*c).to_digit(16).unwrap_or(0);
            if top >> 124 == 0 {
                top = top << 4 | u128::from(digit);
            } else {
                sticky |= digit != 0;
                exponent += 4;
            }
        }
        (top, exponent, sticky)
    }
}

/// The nearest (ties to even) to `top * 2^exponent`, and a little more if `sticky`, among the numbers whose mantissa has so
/// many bits and whose exponent is not below `exponent_min`: its mantissa and exponent.
///
/// `top` must have more bits than a mantissa if `sticky`.
pub(super) fn round(
    top: u128,
    exponent: i64,
    sticky: bool,
    mantissa_bits: u32,
    exponent_min: i64,
) -> (u64, i64) {
    let bits = i64::from(u128::BITS - top.leading_zeros());
    let target = (exponent + bits - i64::from(mantissa_bits)).max(exponent_min);
    let drop = target - exponent;
    if drop <= 0 {
        // It has fewer bits than a mantissa, so nothing is lost.
        return ((top << drop.unsigned_abs().min(127)) as u64, target);
    }
    let (floor, rest, half) = match drop {
        129.. => (0, 0, 1),
        128 => (0, top, 1 << 127),
        _ => (top >> drop, top & ((1 << drop) - 1), 1 << (drop - 1)),
    };
    let up = rest > half || (rest == half && (sticky || floor & 1 == 1));
    let mantissa = floor + u128::from(up);
    if mantissa >> mantissa_bits != 0 {
        ((mantissa >> 1) as u64, target + 1)
    } else {
        (mantissa as u64, target)
    }
}

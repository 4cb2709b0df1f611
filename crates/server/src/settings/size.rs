//! `"512mb"` as bytes, and back. Pure.
//!
//! A unit is 1024 of the next smaller one, as in Redis's settings.

use super::value::InvalidValue;

const UNITS: [(&str, u64); 4] = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)];

/// Parses a whole number with a unit (`b`, `kb`, `mb`, `gb`, in either case).
pub(crate) fn parse_size_bytes(text: &str) -> Result<u64, InvalidValue> {
    let invalid = |why: &str| InvalidValue::new(why, "write a size, for example 512mb or 4gb");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(invalid("is not a size"));
    }
    let unit = unit.trim_start().to_ascii_lowercase();
    if unit.is_empty() {
        return Err(invalid("has no unit (b, kb, mb, gb)"));
    }
    let Some((_, unit_bytes)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(invalid("has an unknown unit (they are b, kb, mb, gb)"));
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit_bytes));
    bytes.ok_or_else(|| invalid("is too large"))
}

/// A size for people: in the largest unit that is not larger than it, with one decimal.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let (unit, unit_bytes) = UNITS.into_iter().find(|(_, size)| bytes >= *size).unwrap_or(("b", 1));
    let tenths = u128::from(bytes) * 10 / u128::from(unit_bytes);
    match tenths % 10 {
        0 => format!("{}{unit}", tenths / 10),
        tenth => format!("{}.{tenth}{unit}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (text, bytes) in [
            ("0b", 0),
            ("100b", 100),
            ("1kb", 1024),
            ("512mb", 512 << 20),
            ("4GB", 4 << 30),
            ("2 gb", 2 << 30),
            ("17179869183gb", 17_179_869_183 << 30),
        ] {
            assert_eq!(parse_size_bytes(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn everything_else_is_an_error_with_the_reason() {
        for (text, why) in [
            ("", "is not a size"),
            ("mb", "is not a size"),
            ("-1mb", "is not a size"),
            ("512", "has no unit"),
            ("512m", "unknown unit"),
            ("1.5gb", "unknown unit"),
            ("1gb1mb", "unknown unit"),
            ("17179869184gb", "too large"),
            ("99999999999999999999b", "too large"),
        ] {
            assert!(parse_size_bytes(text).unwrap_err().why.contains(why), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        for (bytes, shown) in [
            (0, "0b"),
            (1023, "1023b"),
            (1024, "1kb"),
            (1536, "1.5kb"),
            (5 << 20, "5mb"),
            ((5 << 30) + (1 << 29), "5.5gb"),
            (u64::MAX, "17179869183.9gb"),
        ] {
            assert_eq!(show_bytes(bytes), shown);
        }
    }
}

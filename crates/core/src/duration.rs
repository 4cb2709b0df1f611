//! Parses `"15m"` to milliseconds. Every duration in settings and requests is parsed here.

use crate::bounds::DURATION_MS_MAX;
use crate::error::{Code, Error, Result};

const UNITS_MS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Parses a duration: one or more whole numbers with a unit (`ms`, `s`, `m`, `h`, `d`, `w`), in any order,
/// as in `"90s"`, `"1h30m"`, `"250ms"`.
///
/// # Errors
/// `bad_request` when it is empty, a number has no unit, a unit is unknown, or it exceeds 100 years.
pub fn parse_duration_ms(text: &str) -> Result<u64> {
    let fail = |why: &str| {
        Error::new(
            Code::BadRequest,
            format!("'{text}' is not a duration: {why} (write for example 250ms, 90s, 15m, 1h30m, 7d)"),
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(fail("it is empty"));
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(fail("a whole number is missing"));
        }
        let number: u64 = rest[..digits].parse().map_err(|_| fail("the number is too large"))?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = &rest[..letters];
        if unit.is_empty() {
            let is_part = rest.starts_with(['.', ',']);
            return Err(fail(if is_part {
                "only whole numbers are accepted"
            } else {
                "the unit is missing"
            }));
        }
        let &(_, unit_ms) =
            UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(|| fail("the unit is unknown"))?;
        rest = rest[letters..].trim_start();
        total_ms = number
            .checked_mul(unit_ms)
            .and_then(|ms| total_ms.checked_add(ms))
            .filter(|&ms| ms <= DURATION_MS_MAX)
            .ok_or_else(|| fail("it is over 100 years"))?;
    }
    Ok(total_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_durations_are_parsed() {
        for (text, ms) in [
            ("250ms", 250),
            ("60s", 60_000),
            ("15m", 900_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            (" 2w ", 1_209_600_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration_ms(text).unwrap(), ms, "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_reason() {
        for (text, why) in [
            ("", "empty"),
            ("60", "unit is missing"),
            ("s", "number is missing"),
            ("1.5h", "only whole numbers"),
            ("5y", "unit is unknown"),
            ("5S", "unit is unknown"),
            ("-5s", "number is missing"),
            ("99999999999999999999s", "too large"),
            ("40000d", "100 years"),
            ("9223372036854775807w", "100 years"),
            ("1s é", "number is missing"),
        ] {
            let error = parse_duration_ms(text).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest, "{text}");
            assert!(error.message().contains(why), "{text}: {error}");
        }
    }
}

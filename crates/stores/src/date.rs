//! Dates as text: the basic form of ISO 8601 in signatures, times of RFC 3339, and the `Date` header of HTTP. Pure.

use keystead_core::Millis;

const DAY_MS: u64 = 86_400_000;

/// Days between 0000-03-01 and 1970-01-01. Years begin in March here, so that a leap day is the last one.
const EPOCH_DAYS: u64 = 719_468;

/// Days of 400 years.
const ERA_DAYS: u64 = 146_097;

/// `20150830T123600Z`, in UTC.
#[cfg(feature = "dynamodb")]
pub(crate) fn basic(time: Millis) -> String {
    let (year, month, day) = civil(time.0 / DAY_MS);
    let second = time.0 % DAY_MS / 1000;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{:02}Z", second % 60)
}

/// `2015-08-30T12:36:00.000Z`, in UTC.
#[cfg(feature = "http")]
#[must_use]
pub fn rfc3339(time: Millis) -> String {
    let (year, month, day) = civil(time.0 / DAY_MS);
    let (second, ms) = (time.0 % DAY_MS / 1000, time.0 % 1000);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{ms:03}Z", second % 60)
}

/// The date of a day, counted from 1970-01-01.
#[cfg(any(feature = "dynamodb", feature = "http"))]
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// A time in UTC from its parts. `None` if it is before 1970, or no time.
#[cfg(feature = "denokv")]
fn time(date: [u64; 3], clock: [u64; 3]) -> Option<Millis> {
    let ([year, month, day], [hour, minute, second]) = (date, clock);
    // A leap second is the first one of the next minute.
    let valid = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let in_era = year % 400;
    let day = (153 * month + 2) / 5 + day - 1;
    let days = year / 400 * ERA_DAYS + in_era * 365 + in_era / 4 - in_era / 100 + day;
    let seconds = hour * 3600 + minute * 60 + second;
    Some(Millis((days - EPOCH_DAYS) * DAY_MS + seconds * 1000))
}

/// Three numbers of a text, with this between them.
#[cfg(feature = "denokv")]
fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split(between).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// `2026-11-19T04:15:05.123Z`, or with an offset from UTC as `+01:00`. Parts of a second are dropped.
#[cfg(feature = "denokv")]
pub(crate) fn parse_rfc3339(text: &str) -> Option<Millis> {
    let (date, clock) = text.split_once(['T', 't'])?;
    let end = clock.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = clock.split_at(end);
    let time = time(numbers(date, '-')?, numbers(clock.split('.').next()?, ':')?)?;
    let (sign, offset) = zone.split_at(1);
    if sign.eq_ignore_ascii_case("z") {
        return offset.is_empty().then_some(time);
    }
    let (hours, minutes) = offset.split_once(':')?;
    let offset_ms = (hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?).checked_mul(60_000)?;
    Some(Millis(match sign {
        "+" => time.0.checked_sub(offset_ms)?,
        _ => time.0.checked_add(offset_ms)?,
    }))
}

/// `Wed, 18 Nov 2026 04:15:05 GMT`.
#[cfg(feature = "denokv")]
pub(crate) fn http(text: &str) -> Option<Millis> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.split_once(", ")?;
    let parts: Vec<&str> = date.split(' ').collect();
    let [day, month, year, clock, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    time([year.parse().ok()?, month, day.parse().ok()?], numbers(clock, ':')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: [(u64, &str); 7] = [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_440_938_160, "2015-08-30T12:36:00Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ];

    #[cfg(feature = "dynamodb")]
    #[test]
    fn times_are_written_in_the_basic_form() {
        for (seconds, text) in TIMES {
            assert_eq!(basic(Millis(seconds * 1000 + 999)), text.replace(['-', ':'], ""));
        }
    }

    #[cfg(feature = "denokv")]
    #[test]
    fn times_of_rfc_3339_are_parsed() {
        for (seconds, text) in TIMES {
            assert_eq!(parse_rfc3339(text), Some(Millis(seconds * 1000)), "{text}");
        }
        for text in ["2015-08-30T12:36:00.999999Z", "2015-08-30t14:06:00+01:30", "2015-08-30T04:36:00-08:00"]
        {
            assert_eq!(parse_rfc3339(text), Some(Millis(1_440_938_160_000)), "{text}");
        }
        for text in [
            "",
            "T",
            "2015-08-30",
            "2015-08-30T12:36:00",
            "2015-13-30T12:36:00Z",
            "1969-12-31T00:00:00Z",
            "2015-08-30T1:2Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[cfg(feature = "denokv")]
    #[test]
    fn dates_of_http_are_parsed() {
        assert_eq!(http("Sun, 30 Aug 2015 12:36:00 GMT"), Some(Millis(1_440_938_160_000)));
        for text in ["", "Sun, 30 Aug 2015 12:36:00", "Sun, 30 August 2015 12:36:00 GMT", "30 Aug 2015"] {
            assert_eq!(http(text), None, "{text}");
        }
    }
}

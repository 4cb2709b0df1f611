//! Ids of entries in arguments and replies. It touches nothing.
//!
//! Redis parses the numbers of an id with C's `strtoull`, so it accepts more than it writes: leading zeros, blanks and signs. A
//! zero byte ends the text.

use std::io::Write;

use keystead_model::Bytes;
use keystead_model::value::stream::StreamId;

use crate::errors::{self, Fail};
use crate::{Reply, number};

/// The maximum bytes of an id that are parsed.
const TEXT_MAX: usize = 127;

/// Both numbers of an id and what is between them.
const TEXT_LEN: usize = 2 * 20 + 1;

/// An id with its sequence number, or with this one if it is missing. Neither `-` nor `+`.
///
/// # Errors
/// Redis's error if it is invalid.
pub(super) fn strict(text: &[u8], missing_seq: u64) -> Result<StreamId, Fail> {
    match parts(text) {
        Some((ms, None)) => Some(StreamId::new(ms, missing_seq)),
        Some((ms, Some(seq))) => parse_number(seq).map(|seq| StreamId::new(ms, seq)),
        None => None,
    }
    .ok_or(errors::INVALID_STREAM_ID)
}

/// The id of a new entry of XADD; `None` for the sequence number: the next one (`ms-*`).
///
/// # Errors
/// Redis's error if it is invalid.
pub(super) fn wanted(text: &[u8]) -> Result<(u64, Option<u64>), Fail> {
    match parts(text) {
        Some((ms, Some(b"*"))) => Some((ms, None)),
        Some((ms, Some(seq))) => parse_number(seq).map(|seq| (ms, Some(seq))),
        Some((ms, None)) => Some((ms, Some(0))),
        None => None,
    }
    .ok_or(errors::INVALID_STREAM_ID)
}

/// An id that may also be `-` or `+`: the lowest and the highest.
///
/// # Errors
/// Redis's error if it is invalid.
pub(super) fn any(text: &[u8], missing_seq: u64) -> Result<StreamId, Fail> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(text, missing_seq),
    }
}

/// The first id of a range; the prefix `(` excludes it.
///
/// # Errors
/// Redis's errors if it is invalid, or if no id can follow it.
pub(super) fn range_start(text: &[u8]) -> Result<StreamId, Fail> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => strict(rest, 0)?.next().ok_or(errors::INVALID_START_ID),
        _ => any(text, 0),
    }
}

/// The last id of a range, as [`range_start`].
///
/// # Errors
/// Redis's errors if it is invalid, or if no id can precede it.
pub(super) fn range_end(text: &[u8]) -> Result<StreamId, Fail> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => strict(rest, u64::MAX)?.prev().ok_or(errors::INVALID_END_ID),
        _ => any(text, u64::MAX),
    }
}

/// Ids that are all parsed before any is used.
///
/// # Errors
/// Redis's error for the first invalid one.
pub(super) fn all<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<StreamId>, Fail> {
    texts.map(|text| strict(text, 0)).collect()
}

/// An id in a reply.
pub(super) fn reply(id: StreamId) -> Reply {
    let mut text = [0u8; TEXT_LEN];
    let mut rest = &mut text[..];
    // Writing to a buffer that is long enough cannot fail.
    _ = write!(rest, "{id}");
    let left = rest.len();
    Reply::shared(Bytes::from(&text[..TEXT_LEN - left]))
}

/// The milliseconds, and the text of the sequence if there is one.
fn parts(text: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    match text.iter().position(|&byte| byte == b'-') {
        Some(dash) => Some((parse_number(&text[..dash])?, Some(&text[dash + 1..]))),
        None => Some((parse_number(text)?, None)),
    }
}

/// An unsigned 64-bit number. A text that is not a plain integer is read as `strtoull` does: `-03` is 2^64 - 3.
fn parse_number(text: &[u8]) -> Option<u64> {
    if let Some(value) = number::parse_int(text) {
        return u64::try_from(value).ok();
    }
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (text, id) in [
            ("5-3", Some((5, 3))),
            ("5", Some((5, 7))),
            ("05-003", Some((5, 3))),
            ("+8-1", Some((8, 1))),
            (" 8- 1", Some((8, 1))),
            ("6--0", Some((6, 0))),
            ("7--03", Some((7, u64::MAX - 2))),
            ("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
            ("5\0-x", Some((5, 7))),
            ("7--3", None),
            ("18446744073709551616", None),
            ("1-18446744073709551616", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("5-", None),
            ("-5", None),
            ("5-*", None),
            ("1-2-3", None),
            ("1 ", None),
            ("x", None),
        ] {
            let id = id.map(|(ms, seq)| StreamId::new(ms, seq));
            assert_eq!(strict(text.as_bytes(), 7).ok(), id, "{text}");
        }
        assert!(strict(&[b'0'; 127], 0).is_ok() && strict(&[b'0'; 128], 0).is_err());
    }

    #[test]
    fn ranges_may_exclude_their_ends() {
        assert_eq!(range_start(b"(5-3").ok(), Some(StreamId::new(5, 4)));
        assert_eq!(range_end(b"(5-0").ok(), Some(StreamId::new(4, u64::MAX)));
        assert_eq!(range_end(b"(5").ok(), Some(StreamId::new(5, u64::MAX - 1)));
        assert_eq!(range_end(b"5").ok(), Some(StreamId::new(5, u64::MAX)));
        assert_eq!(range_start(b"(18446744073709551615-18446744073709551615"), Err(errors::INVALID_START_ID));
        assert_eq!(range_end(b"(0-0"), Err(errors::INVALID_END_ID));
        for bad in ["(", "(-", "(+"] {
            assert_eq!(range_start(bad.as_bytes()), Err(errors::INVALID_STREAM_ID), "{bad}");
        }
    }

    #[test]
    fn an_id_is_written_in_full() {
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_700_000_000_000, 12)] {
            assert_eq!(reply(id), Reply::text(id.to_string()));
        }
    }
}

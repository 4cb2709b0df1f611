//! The id of a stream entry. It touches nothing. Invariant: ids compare by time, then by sequence.

use std::fmt;

/// Milliseconds and a sequence number within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since the Unix epoch, by the writer's clock.
    pub ms: u64,
    /// The number of the entry within that millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The lowest id, which no entry can have.
    pub const MIN: StreamId = StreamId::new(0, 0);

    /// The highest id.
    pub const MAX: StreamId = StreamId::new(u64::MAX, u64::MAX);

    /// An id of these parts.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        StreamId { ms, seq }
    }

    /// Parses `ms-seq`, or `ms` alone with a default sequence number.
    #[must_use]
    pub fn parse(text: &[u8], seq_default: u64) -> Option<Self> {
        match text.iter().position(|&byte| byte == b'-') {
            Some(dash) => Some(StreamId::new(number(&text[..dash])?, number(&text[dash + 1..])?)),
            None => Some(StreamId::new(number(text)?, seq_default)),
        }
    }

    /// The next higher id; `None` after the highest.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match (self.ms.checked_add(1), self.seq.checked_add(1)) {
            (_, Some(seq)) => Some(StreamId::new(self.ms, seq)),
            (Some(ms), None) => Some(StreamId::new(ms, 0)),
            (None, None) => None,
        }
    }

    /// The next lower id; `None` before the lowest.
    #[must_use]
    pub const fn prev(self) -> Option<Self> {
        match (self.ms.checked_sub(1), self.seq.checked_sub(1)) {
            (_, Some(seq)) => Some(StreamId::new(self.ms, seq)),
            (Some(ms), None) => Some(StreamId::new(ms, u64::MAX)),
            (None, None) => None,
        }
    }
}

/// Digits only: neither signs nor blanks, which the standard library and C would each accept in part.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_to_the_same() {
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_526_919_030_474, 55)] {
            assert_eq!(StreamId::parse(id.to_string().as_bytes(), 7), Some(id));
        }
        assert_eq!(StreamId::parse(b"5", 7), Some(StreamId::new(5, 7)));
        for bad in [
            "",
            "-",
            "5-",
            "-5",
            "a",
            "1-2-3",
            "+1-1",
            " 1",
            "18446744073709551616",
            "1-18446744073709551616",
        ] {
            assert_eq!(StreamId::parse(bad.as_bytes(), 0), None, "{bad}");
        }
    }

    #[test]
    fn neighbours_carry_over() {
        let end = StreamId::new(4, u64::MAX);
        assert_eq!(end.next(), Some(StreamId::new(5, 0)));
        assert_eq!(StreamId::new(5, 0).prev(), Some(end));
        assert_eq!(StreamId::new(5, 1).prev(), Some(StreamId::new(5, 0)));
        assert_eq!((StreamId::MIN.prev(), StreamId::MAX.next()), (None, None));
    }
}

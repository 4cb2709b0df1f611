//! The kinds of values, with their names and codes. It touches nothing.
//!
//! Invariant: a code is stored in journals and archives, so it never changes and is never reused.

use std::fmt;

/// What kind of value a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A string.
    Str = 1,
    /// A hash.
    Hash = 2,
    /// A list.
    List = 3,
    /// A set.
    Set = 4,
    /// A sorted set.
    ZSet = 5,
    /// A stream.
    Stream = 6,
    /// A JSON document.
    Json = 7,
    /// The state of a step.
    State = 8,
}

impl Kind {
    /// Every kind, in the order of the codes.
    pub const ALL: [Kind; 8] =
        [Kind::Str, Kind::Hash, Kind::List, Kind::Set, Kind::ZSet, Kind::Stream, Kind::Json, Kind::State];

    /// The stored code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The reply of the Redis command `TYPE`.
    #[must_use]
    pub const fn redis_name(self) -> &'static str {
        match self {
            Kind::Str => "string",
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Stream => "stream",
            Kind::Json => "ReJSON-RL",
            Kind::State => "state",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.redis_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_distinct_and_map_back() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.code()), i + 1);
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
            assert!(Kind::ALL[..i].iter().all(|other| other.redis_name() != kind.redis_name()));
        }
        assert_eq!(Kind::from_code(0), None);
        assert_eq!(Kind::from_code(9), None);
    }
}

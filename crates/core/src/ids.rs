//! Numbers that are easily mixed up, each with a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a change of a shard. Every effect has its own; the first is 1, and 0 is the empty shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// The number of a change of a key: 1 when it is created, one more with every change, and 0 for a key that is not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

/// The number of a shard, from 0. How many shards there are is a `usize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub usize);

impl Revision {
    /// The revision of an empty shard.
    pub const ZERO: Revision = Revision(0);

    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl Version {
    /// The version of a key that is not stored.
    pub const ZERO: Version = Version(0);

    /// The version of a new key.
    pub const FIRST: Version = Version(1);

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl ShardId {
    /// The ids of `shards` shards, in order.
    pub fn all(shards: usize) -> impl ExactSizeIterator<Item = ShardId> {
        (0..shards).map(ShardId)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of journal segments and of the directories of shards depend on it.
    #[test]
    fn they_are_formatted_as_their_number() {
        assert_eq!(format!("{:05} {} {}", Revision(7), Version(3), ShardId(2)), "00007 3 2");
        assert_eq!(serde_json::to_string(&[Revision(7)]).unwrap(), "[7]");
    }
}

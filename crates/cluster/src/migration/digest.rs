//! What source and target compare before the slots change hands: the same keys with the same versions, values and expiries.
//!
//! Sums, so that the order does not matter and both sides may keep theirs up to date with every change instead of reading everything.

use serde::{Deserialize, Serialize};

use crate::ring::{fnv1a, mix};

/// A digest of records. Records are what must travel: keys with version, value and expiry, and idempotency records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest {
    /// How many records.
    pub count: u64,
    /// The sum of their versions, without carry.
    pub versions: u64,
    /// The sum of their checksums, without carry.
    pub checksum: u64,
}

impl Digest {
    /// With this record: its version, and all of its bytes, which contain key, value and absolute expiry.
    #[must_use]
    pub fn with(self, version: u64, record: &[u8]) -> Digest {
        Digest {
            count: self.count.wrapping_add(1),
            versions: self.versions.wrapping_add(version),
            checksum: self.checksum.wrapping_add(checksum(version, record)),
        }
    }

    /// Without this record, which was in it.
    #[must_use]
    pub fn without(self, version: u64, record: &[u8]) -> Digest {
        Digest {
            count: self.count.wrapping_sub(1),
            versions: self.versions.wrapping_sub(version),
            checksum: self.checksum.wrapping_sub(checksum(version, record)),
        }
    }
}

/// The version is hashed as well, so that two records do not exchange their versions unnoticed.
fn checksum(version: u64, record: &[u8]) -> u64 {
    mix(fnv1a(record) ^ mix(version.wrapping_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_records_does_not_matter_and_everything_else_does() {
        let empty = Digest::default();
        let both = empty.with(1, b"a").with(2, b"b");
        assert_eq!(both, empty.with(2, b"b").with(1, b"a"));
        assert_eq!(both.without(1, b"a"), empty.with(2, b"b"));
        for other in [
            empty.with(1, b"a"),
            empty.with(1, b"a").with(2, b"c"),
            empty.with(2, b"a").with(1, b"b"),
            empty.with(1, b"a").with(1, b"b"),
            both.with(3, b""),
        ] {
            assert_ne!(both, other);
        }
    }
}

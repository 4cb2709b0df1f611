//! The bytes of a record: what one batch changed.
//!
//! ```text
//! length u32 | checksum u32 | first revision u64 | last revision u64 | synced u64 | effects
//! ```
//! Little endian. The checksum (CRC-32, seeded with the segment's salt) covers everything after it, so what an earlier use of
//! the file left behind is never taken for a record. `synced` is the last revision that was known to be on disk when this was
//! written: it distinguishes a record that was lost in a crash from one that was damaged later.

use crc32fast::Hasher;
use keystead_core::Revision;

use crate::bounds::RECORD_BYTES_MAX;

pub(crate) const HEADER_BYTES: usize = 32;

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of the effects.
    pub(crate) len: usize,
    checksum: u32,
    pub(crate) first: Revision,
    pub(crate) last: Revision,
    pub(crate) synced: Revision,
}

/// Appends a record to `out`.
pub(crate) fn append(
    out: &mut Vec<u8>,
    salt: u32,
    first: Revision,
    last: Revision,
    synced: Revision,
    effects: &[u8],
) {
    let start = out.len();
    out.extend_from_slice(&(effects.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&first.0.to_le_bytes());
    out.extend_from_slice(&last.0.to_le_bytes());
    out.extend_from_slice(&synced.0.to_le_bytes());
    let checksum = checksum(salt, &out[start..], effects);
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(effects);
}

impl Header {
    /// Decodes the fixed part. `None` when these bytes cannot be one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let header = Header {
            len: u32_at(0)? as usize,
            checksum: u32_at(4)?,
            first: Revision(u64_at(8)?),
            last: Revision(u64_at(16)?),
            synced: Revision(u64_at(24)?),
        };
        let possible = header.len > 0
            && header.len <= RECORD_BYTES_MAX
            && header.first > Revision::ZERO
            && header.first <= header.last
            // There must be a next revision.
            && header.last < Revision(u64::MAX)
            && header.synced < header.first;
        possible.then_some(header)
    }

    /// Whether these bytes are the complete, undamaged record.
    pub(crate) fn matches(&self, salt: u32, record: &[u8]) -> bool {
        match record.get(HEADER_BYTES..HEADER_BYTES + self.len) {
            Some(effects) => checksum(salt, &record[..HEADER_BYTES], effects) == self.checksum,
            None => false,
        }
    }

    /// Length of the whole record.
    pub(crate) fn record_len(&self) -> usize {
        HEADER_BYTES + self.len
    }
}

fn checksum(salt: u32, header: &[u8], effects: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(salt);
    hasher.update(&header[..4]);
    hasher.update(&header[8..HEADER_BYTES]);
    hasher.update(effects);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_valid_only_whole_and_with_its_salt() {
        let mut bytes = Vec::new();
        append(&mut bytes, 7, Revision(10), Revision(12), Revision(9), b"effects");
        let header = Header::read(&bytes).unwrap();
        assert_eq!(
            (header.len, header.first, header.last, header.synced),
            (7, Revision(10), Revision(12), Revision(9))
        );
        assert!(header.matches(7, &bytes));
        assert!(!header.matches(8, &bytes));
        assert!(!header.matches(7, &bytes[..bytes.len() - 1]));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut bytes = Vec::new();
        append(&mut bytes, 7, Revision(10), Revision(12), Revision(9), b"effects");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let whole = Header::read(&damaged).is_some_and(|header| header.matches(7, &damaged));
            assert!(!whole, "bit {bit}");
        }
    }

    #[test]
    fn no_record_ends_with_the_largest_revision() {
        for (last, whole) in [(u64::MAX - 1, true), (u64::MAX, false)] {
            let mut bytes = Vec::new();
            append(&mut bytes, 7, Revision(10), Revision(last), Revision(9), b"effects");
            assert_eq!(Header::read(&bytes).is_some(), whole, "{last}");
        }
    }

    #[test]
    fn zeros_are_not_a_record() {
        assert_eq!(Header::read(&[0; 64]), None);
        assert_eq!(Header::read(&[1; 8]), None);
    }
}

//! When keys were deleted, approximately: what a read of an absent key must wait for.
//!
//! It touches nothing. The reply "there is no such key" depends on the deletion, which may not be durable
//! yet. Storing every deleted name until then would cost memory in proportion to deletions; a fixed-size filter does not.
//! Invariant: the revision returned for a key is never below the one of its deletion, and may be that of another key.

use keystead_core::Revision;

/// Buckets of the filter: 16 KiB per shard, and a batch of a hundred deletions delays one read in twenty.
const BUCKETS: usize = 2048;

/// The latest revision of a deletion, by the hash of the key.
pub(super) struct Deletions {
    latest: Box<[Revision]>,
    /// All keys were deleted at once at this revision.
    flushed: Revision,
}

impl Deletions {
    pub(super) fn new() -> Self {
        Deletions { latest: vec![Revision::ZERO; BUCKETS].into_boxed_slice(), flushed: Revision::ZERO }
    }

    pub(super) fn note(&mut self, hash: u64, revision: Revision) {
        let bucket = &mut self.latest[hash as usize % BUCKETS];
        *bucket = revision.max(*bucket);
    }

    pub(super) fn note_all(&mut self, revision: Revision) {
        self.flushed = self.flushed.max(revision);
    }

    pub(super) fn revision(&self, hash: u64) -> Revision {
        self.latest[hash as usize % BUCKETS].max(self.flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_never_below_that_of_the_deletion() {
        let mut deletions = Deletions::new();
        deletions.note(17, Revision(5));
        deletions.note(17, Revision(3));
        assert_eq!(deletions.revision(17), Revision(5));
        assert_eq!(deletions.revision(18), Revision::ZERO);
        deletions.note_all(Revision(9));
        assert_eq!((deletions.revision(17), deletions.revision(18)), (Revision(9), Revision(9)));
    }
}

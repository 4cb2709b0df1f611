//! When keys were deleted, roughly: what a look at an absent key must wait for.
//!
//! It touches nothing. A reader that is told "there is no such key" is told about the deletion, which may not be durable
//! yet. Keeping every deleted name until then would cost memory in proportion to deletions; a fixed filter does not.
//! Invariant: the answer for a key is never below the revision at which it was deleted, and may be that of another.

/// Places of the filter: 16 KiB a shard, and a batch of a hundred deletions delays one look in twenty.
const PLACES: usize = 2048;

/// The latest revision of a deletion, by the hash of the key.
pub(super) struct Deletions {
    latest: Box<[u64]>,
    /// All keys were deleted at once at this revision.
    flushed: u64,
}

impl Deletions {
    pub(super) fn new() -> Self {
        Deletions { latest: vec![0; PLACES].into_boxed_slice(), flushed: 0 }
    }

    pub(super) fn note(&mut self, hash: u64, revision: u64) {
        let place = &mut self.latest[hash as usize % PLACES];
        *place = revision.max(*place);
    }

    pub(super) fn note_all(&mut self, revision: u64) {
        self.flushed = self.flushed.max(revision);
    }

    pub(super) fn revision(&self, hash: u64) -> u64 {
        self.latest[hash as usize % PLACES].max(self.flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_never_told_too_early() {
        let mut deletions = Deletions::new();
        deletions.note(17, 5);
        deletions.note(17, 3);
        assert_eq!(deletions.revision(17), 5);
        assert_eq!(deletions.revision(18), 0);
        deletions.note_all(9);
        assert_eq!((deletions.revision(17), deletions.revision(18)), (9, 9));
    }
}

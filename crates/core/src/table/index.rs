//! From the hash of a key to the place of its entry, in parts that grow one at a time.
//!
//! A part keeps 32 bits of each hash beside the place, so that growing never looks at an entry: a table of ten
//! million keys pauses for one part's few thousand entries, not for all of them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::Id;
use super::places::Places;

pub(super) struct Index {
    /// Seeded at random, so that nobody can choose keys that collide.
    state: RandomState,
    parts: Box<[Places]>,
}

impl Index {
    pub(super) fn new(parts: usize, state: RandomState) -> Self {
        let parts = parts.next_power_of_two();
        Index { state, parts: (0..parts).map(|_| Places::default()).collect() }
    }

    pub(super) fn emptied(&self) -> Self {
        Index::new(self.parts.len(), self.state.clone())
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        let each = additional / self.parts.len() + 1;
        for part in &mut self.parts {
            part.reserve(each);
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.state.hash_one(key)
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let (part, short) = self.split(hash);
        self.parts[part].find(short, is_it)
    }

    pub(super) fn insert(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        self.parts[part].insert(short, id);
    }

    pub(super) fn remove(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        self.parts[part].remove(short, id);
    }

    /// The part comes from the upper half of the hash, what the part keeps is the lower half.
    #[inline]
    fn split(&self, hash: u64) -> (usize, u32) {
        ((hash >> 32) as usize & (self.parts.len() - 1), hash as u32)
    }
}

//! From the hash of a key to the place of its entry, in parts that grow one at a time.
//!
//! A part keeps 32 bits of each hash beside the place, so that growing never looks at an entry: a table of ten
//! million keys pauses for one part's few thousand entries, not for all of them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::Id;

pub(super) struct Index {
    /// Seeded at random, so that nobody can choose keys that collide.
    state: RandomState,
    parts: Box<[HashTable<Place>]>,
}

#[derive(Clone, Copy)]
struct Place {
    hash: u32,
    id: Id,
}

impl Index {
    pub(super) fn new(parts: usize, state: RandomState) -> Self {
        let parts = parts.next_power_of_two();
        Index { state, parts: (0..parts).map(|_| HashTable::new()).collect() }
    }

    pub(super) fn emptied(&self) -> Self {
        Index::new(self.parts.len(), self.state.clone())
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        let each = additional / self.parts.len() + 1;
        for part in &mut self.parts {
            part.reserve(each, |place| spread(place.hash));
        }
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.state.hash_one(key)
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let (part, short) = self.split(hash);
        self.parts[part]
            .find(spread(short), |place| place.hash == short && is_it(place.id))
            .map(|place| place.id)
    }

    pub(super) fn insert(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        self.parts[part].insert_unique(spread(short), Place { hash: short, id }, |place| spread(place.hash));
    }

    pub(super) fn remove(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        if let Ok(found) = self.parts[part].find_entry(spread(short), |place| place.id == id) {
            found.remove();
        }
    }

    /// The part comes from the upper half of the hash, what the part keeps is the lower half.
    #[inline]
    fn split(&self, hash: u64) -> (usize, u32) {
        ((hash >> 32) as usize & (self.parts.len() - 1), hash as u32)
    }
}

/// 64 bits out of 32, with entropy at both ends, where the hash table looks.
#[inline]
fn spread(short: u32) -> u64 {
    u64::from(short).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

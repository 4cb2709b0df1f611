//! From the hash of a key to the id of its entry, in parts that grow one at a time.
//!
//! A part stores 32 bits of each hash beside the id, so that growing never reads an entry: a table of ten
//! million keys pauses for the few thousand entries of one part, not for all of them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::Id;
use super::buckets::Buckets;

pub(super) struct Index {
    /// Randomly seeded, so that a client cannot choose keys that collide.
    state: RandomState,
    parts: Box<[Buckets]>,
}

impl Index {
    pub(super) fn new(parts: usize, state: RandomState) -> Self {
        let parts = parts.next_power_of_two();
        Index { state, parts: (0..parts).map(|_| Buckets::default()).collect() }
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

    /// The id that [`find`](Index::find) would look at first, without looking at it; one that is not in use if there is none.
    #[inline]
    pub(super) fn likely(&self, hash: u64) -> Id {
        let (part, short) = self.split(hash);
        self.parts[part].likely(short)
    }

    pub(super) fn insert(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        self.parts[part].insert(short, id);
    }

    pub(super) fn remove(&mut self, hash: u64, id: Id) {
        let (part, short) = self.split(hash);
        self.parts[part].remove(short, id);
    }

    /// The upper half of the hash selects the part, the lower half is stored in it.
    #[inline]
    fn split(&self, hash: u64) -> (usize, u32) {
        ((hash >> 32) as usize & (self.parts.len() - 1), hash as u32)
    }
}

//! A large sorted set: scores by member in an index map, members by order in a sorted sequence. It touches nothing.
//!
//! Invariants: both hold the same pairs; `shared` is the heap bytes of the members, counted once, since both
//! share them.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::{order, small};
use crate::bytes::Bytes;
use crate::value::heap::{boxed_bytes, index_bytes, is_sparse, shared_bytes};
use crate::value::packed::Packed;
use crate::value::scan::Epoch;
use crate::value::sorted::{Location, Sorted};

#[derive(Clone, Debug, Default)]
pub(super) struct Large {
    scores: IndexMap<Bytes, f64, RandomState>,
    sorted: Sorted<(f64, Bytes)>,
    shared: usize,
    renumbered: u32,
}

impl Large {
    /// The large form of a packed set that is about to grow.
    pub(super) fn unpack(packed: &Packed) -> Self {
        let mut large = Large::default();
        large.scores.reserve(packed.len() + 1);
        for record in small::iter(packed) {
            large.insert(&Bytes::from(record.member), record.score);
        }
        large
    }

    pub(super) fn scores(&self) -> &IndexMap<Bytes, f64, RandomState> {
        &self.scores
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch::of(self.scores.hasher(), self.renumbered)
    }

    pub(super) fn renumber(&mut self) {
        self.renumbered = self.renumbered.wrapping_add(1);
    }

    pub(super) fn sorted(&self) -> &Sorted<(f64, Bytes)> {
        &self.sorted
    }

    pub(super) fn insert(&mut self, member: &Bytes, score: f64) -> Option<f64> {
        let Some(slot) = self.scores.get_mut(member.as_slice()) else {
            self.scores.insert(member.clone(), score);
            self.shared += shared_bytes(member);
            self.sort_in(member.clone(), score);
            return None;
        };
        let old = std::mem::replace(slot, score);
        if let Ok(location) = self.find(member, old) {
            // The set's own copy of the member is reused, so that a long one stays shared.
            let kept = self.sorted.get(location).map_or_else(|| member.clone(), |(_, kept)| kept.clone());
            if old == score {
                self.sorted.replace(location, (score, kept));
            } else {
                self.sorted.remove(location);
                self.sort_in(kept, score);
            }
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (member, score) = self.scores.swap_remove_entry(member)?;
        self.shared -= shared_bytes(&member);
        if let Ok(location) = self.find(&member, score) {
            self.sorted.remove(location);
        }
        if is_sparse(self.scores.len(), self.scores.capacity()) {
            self.scores.shrink_to(self.scores.len() * 2);
        }
        Some(score)
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let &score = self.scores.get(member)?;
        self.find(member, score).ok().map(|location| self.sorted.rank(location))
    }

    fn find(&self, member: &[u8], score: f64) -> Result<Location, Location> {
        self.sorted.find(|(other_score, other)| order((*other_score, other), (score, member)))
    }

    fn sort_in(&mut self, member: Bytes, score: f64) {
        if let Err(location) = self.find(&member, score) {
            self.sorted.insert(location, (score, member));
        }
    }

    pub(super) fn mem_bytes(&self) -> usize {
        boxed_bytes::<Large>()
            + index_bytes(self.scores.capacity(), size_of::<(u64, Bytes, f64)>())
            + self.sorted.mem_bytes()
            + self.shared
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut sorted: Vec<(f64, Bytes)> = self.scores.iter().map(|(m, s)| (*s, m.clone())).collect();
        sorted.sort_by(|a, b| order((a.0, &a.1), (b.0, &b.1)));
        assert!(self.sorted.range(0..usize::MAX).eq(&sorted));
        assert_eq!(self.shared, self.scores.keys().map(shared_bytes).sum::<usize>());
    }
}

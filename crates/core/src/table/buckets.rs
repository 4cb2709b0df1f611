//! A hash table of ids in which each bucket is one cache line: a lookup reads one line with hashes and ids
//! together, and then the entry.
//!
//! An id is in the line of its hash or, where that is full, in one of the next lines. So a search ends at the first
//! line that is not full, and removing from a full line moves a displaced id back into it.

use super::Id;

const WIDTH: usize = 8;
/// A table of so few lines never shrinks.
const LINES_KEPT: usize = 4;
/// No id: ids end before it.
const NONE: Id = Id::MAX;

/// Hashes and their ids, filled from the front; the rest is [`NONE`].
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    hashes: [u32; WIDTH],
    ids: [Id; WIDTH],
}

const EMPTY: Line = Line { hashes: [0; WIDTH], ids: [NONE; WIDTH] };

impl Line {
    #[inline]
    fn is_full(&self) -> bool {
        self.ids[WIDTH - 1] != NONE
    }

    fn len(&self) -> usize {
        self.ids.iter().position(|id| *id == NONE).unwrap_or(WIDTH)
    }

    /// A byte for each entry, with all its bits set where the hash is equal. Entries behind the last used one may be among them.
    #[inline]
    fn with_hash(&self, hash: u32) -> u64 {
        // In this form the compiler compares all eight at once.
        u64::from_le_bytes(self.hashes.map(|other| if other == hash { u8::MAX } else { 0 }))
    }

    fn push(&mut self, hash: u32, id: Id) {
        let at = self.len();
        (self.hashes[at], self.ids[at]) = (hash, id);
    }

    fn take(&mut self, at: usize) -> (u32, Id) {
        let (taken, last) = ((self.hashes[at], self.ids[at]), self.len() - 1);
        (self.hashes[at], self.ids[at]) = (self.hashes[last], self.ids[last]);
        self.ids[last] = NONE;
        taken
    }
}

/// Ids by hash. At least one line is not full, if there is one.
#[derive(Default)]
pub(super) struct Buckets {
    lines: Box<[Line]>,
    len: usize,
}

impl Buckets {
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let mut at = self.home(hash);
        loop {
            let line = self.lines.get(at)?;
            let mut found = line.with_hash(hash);
            while found != 0 {
                let first = found.trailing_zeros();
                let id = line.ids[first as usize / 8];
                if id != NONE && is_it(id) {
                    return Some(id);
                }
                found &= !(0xFF << first);
            }
            if !line.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// The id in the home line of a hash that [`find`](Buckets::find) would look at first; an id that is not in use if there is none.
    #[inline]
    pub(super) fn likely(&self, hash: u32) -> Id {
        let Some(line) = self.lines.get(self.home(hash)) else { return NONE };
        let first = line.with_hash(hash).trailing_zeros() as usize / 8;
        line.ids.get(first).copied().unwrap_or(NONE)
    }

    pub(super) fn insert(&mut self, hash: u32, id: Id) {
        self.reserve(1);
        self.len += 1;
        self.put(hash, id);
    }

    pub(super) fn remove(&mut self, hash: u32, id: Id) {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get_mut(at) {
            let was_full = line.is_full();
            if let Some(index) = line.ids.iter().position(|other| *other == id) {
                line.take(index);
                self.len -= 1;
                if was_full {
                    self.fill(at);
                }
                self.shrink();
                return;
            }
            if !was_full {
                return;
            }
            at = self.after(at);
        }
    }

    /// Reserves space for that many more.
    pub(super) fn reserve(&mut self, additional: usize) {
        let slots = self.lines.len() * WIDTH;
        if self.len + additional <= slots - slots / 4 {
            return;
        }
        let needed = (self.len + additional).div_ceil(WIDTH * 3 / 4);
        // By half, not to the double: the free lines of millions of keys would be megabytes.
        self.rebuild(needed.max(self.lines.len() * 3 / 2));
    }

    /// Rebuilds it smaller when it is mostly empty. It is then at least an eighth full, and far from growing again.
    fn shrink(&mut self) {
        if self.lines.len() > LINES_KEPT && self.len < self.lines.len() * WIDTH / 16 {
            self.rebuild(self.lines.len() / 4);
        }
    }

    fn rebuild(&mut self, lines: usize) {
        let old = std::mem::replace(&mut self.lines, vec![EMPTY; lines].into_boxed_slice());
        for line in &old {
            for at in 0..line.len() {
                self.put(line.hashes[at], line.ids[at]);
            }
        }
    }

    fn put(&mut self, hash: u32, id: Id) {
        let mut at = self.home(hash);
        while self.lines[at].is_full() {
            at = self.after(at);
        }
        self.lines[at].push(hash, id);
    }

    /// A full line has got a free entry: moves an id back into it that was displaced to a later line because of that.
    fn fill(&mut self, mut free: usize) {
        let mut at = free;
        loop {
            at = self.after(at);
            let was_full = self.lines[at].is_full();
            let line = &self.lines[at];
            // Those whose home line is not after the free entry, counted from where they are.
            let behind = |hash: u32| self.before(at, self.home(hash)) >= self.before(at, free);
            if let Some(index) = (0..line.len()).find(|index| behind(line.hashes[*index])) {
                let (hash, id) = self.lines[at].take(index);
                self.lines[free].push(hash, id);
                free = at;
            }
            if !was_full {
                return;
            }
        }
    }

    /// The line where the search for a hash begins.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        // Shards and parts are selected by the upper half of a hash, so this half varies within a part. The product maps it to any
        // number of lines.
        ((u64::from(hash) * self.lines.len() as u64) >> u32::BITS) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.lines.len() { at + 1 } else { 0 }
    }

    /// How many lines `earlier` is before `at`.
    fn before(&self, at: usize, earlier: usize) -> usize {
        if earlier <= at { at - earlier } else { at + self.lines.len() - earlier }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A cheap pseudo-random sequence.
    fn next(state: &mut u64) -> u32 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as u32
    }

    #[test]
    fn a_line_is_one_cache_line() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
    }

    #[test]
    fn random_inserts_and_removes_agree_with_a_map() {
        // Few hashes make long chains of full lines. The greatest ones begin at the last line, so the chains wrap around the end.
        for (hashes, keys) in [(3, 60), (40, 400), (u32::MAX, 5000)] {
            let (mut buckets, mut model, mut state) = (Buckets::default(), BTreeMap::new(), 7);
            for round in 0..60_000 {
                let id = next(&mut state) % keys;
                match model.remove(&id) {
                    Some(hash) => buckets.remove(hash, id),
                    None => {
                        let hash = u32::MAX - next(&mut state) % hashes;
                        model.insert(id, hash);
                        buckets.insert(hash, id);
                    }
                }
                // In waves, so that lines fill up and become empty again.
                if round % 5000 > 4000 && model.len() > 4 {
                    let (id, hash) = model.pop_first().unwrap();
                    buckets.remove(hash, id);
                }
                assert_eq!(buckets.len, model.len());
                let (seen, absent) = (next(&mut state) % keys, u32::MAX - next(&mut state) % hashes);
                assert_eq!(buckets.find(absent, |id| id == keys), None);
                if let Some(hash) = model.get(&seen) {
                    assert_eq!(buckets.find(*hash, |id| id == seen), Some(seen));
                }
                if round % 500 == 0 {
                    check(&buckets, &model);
                }
            }
        }
    }

    fn check(buckets: &Buckets, model: &BTreeMap<Id, u32>) {
        for (id, hash) in model {
            assert_eq!(buckets.find(*hash, |other| other == *id), Some(*id));
        }
        let there: usize = buckets.lines.iter().map(Line::len).sum();
        assert_eq!(there, model.len(), "each is found once");
        assert!(buckets.lines.is_empty() || buckets.lines.iter().any(|line| !line.is_full()));
    }

    #[test]
    fn a_table_that_becomes_empty_shrinks_and_loses_nothing() {
        let mut buckets = Buckets::default();
        let hash = |id: Id| id.wrapping_mul(0x9E37_79B9);
        (0..100_000).for_each(|id| buckets.insert(hash(id), id));
        let full = buckets.lines.len();
        (0..99_900).for_each(|id| buckets.remove(hash(id), id));
        assert!(buckets.lines.len() <= full / 64, "{} of {full}", buckets.lines.len());
        for id in 0..100_000 {
            assert_eq!(buckets.find(hash(id), |other| other == id).is_some(), id >= 99_900);
        }
        (99_900..100_000).for_each(|id| buckets.remove(hash(id), id));
        assert!(buckets.lines.len() <= LINES_KEPT);
    }

    #[test]
    fn removing_an_absent_id_changes_nothing() {
        let mut buckets = Buckets::default();
        buckets.remove(1, 1);
        buckets.insert(1, 1);
        buckets.remove(1, 2);
        buckets.remove(2, 2);
        assert_eq!((buckets.len, buckets.find(1, |_| true)), (1, Some(1)));
    }
}

//! A sorted sequence with ranks, used by large lists, large sorted sets and streams. It touches nothing.
//!
//! Chunks (ring buffers) of at most [`CHUNK_LEN_MAX`] elements, and a tree of their lengths. A lookup is two binary searches, a
//! rank is O(log n), a change moves at most half a chunk and nothing at either end; when a chunk is split or removed, the
//! list of chunks and the tree are rebuilt, once in some hundred changes. Invariants: no chunk is empty or over the bound, the
//! elements in chunk order are sorted as their owner sorts them, `counts` and `heap` match the chunks.

mod counts;
mod iter;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

pub(super) use self::iter::Iter;

use self::counts::Counts;
use super::heap::{alloc_bytes, is_sparse};

/// Most elements of a chunk: moving half of them costs about as much as finding one among millions.
const CHUNK_LEN_MAX: usize = 512;

/// A chunk with fewer elements is joined with a neighbour...
const CHUNK_LEN_MIN: usize = CHUNK_LEN_MAX / 4;

/// ...if both together have at most so many, so that the joined one is not split again at once.
const JOINED_LEN_MAX: usize = CHUNK_LEN_MAX * 3 / 4;

/// A full chunk's buffer grows by no more than this, since most chunks are rarely changed again.
const GROWTH_LEN_MAX: usize = 64;

/// Sorted elements in chunks.
#[derive(Debug, Default)]
pub(super) struct Sorted<T> {
    chunks: Vec<VecDeque<T>>,
    counts: Counts,
    len: usize,
    heap: usize,
}

/// The position of an element, or where it would be inserted. Valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    chunk: usize,
    at: usize,
}

impl<T: Clone> Clone for Sorted<T> {
    fn clone(&self) -> Self {
        let chunks = self.chunks.clone();
        // A clone's buffers are tight.
        let heap = chunks.iter().map(chunk_bytes).sum();
        Sorted { chunks, counts: self.counts.clone(), len: self.len, heap }
    }
}

impl<T> Sorted<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Finds an element; `order` compares an element with the one sought. `Err`: where it would be inserted.
    pub(super) fn find(&self, mut order: impl FnMut(&T) -> Ordering) -> Result<Location, Location> {
        let after =
            self.chunks.partition_point(|chunk| chunk.front().is_some_and(|first| order(first).is_le()));
        let Some(chunk) = after.checked_sub(1) else {
            return Err(Location { chunk: 0, at: 0 });
        };
        match self.chunks[chunk].binary_search_by(order) {
            Ok(at) => Ok(Location { chunk, at }),
            Err(at) => Err(Location { chunk, at }),
        }
    }

    /// Number of elements, from the first on, that are `before`. None may be after one that is not.
    pub(super) fn partition(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.front().is_some_and(&mut before));
        let Some(chunk) = after.checked_sub(1) else {
            return 0;
        };
        self.counts.before(chunk) + self.chunks[chunk].partition_point(before)
    }

    /// Number of elements before this position.
    pub(super) fn rank(&self, location: Location) -> usize {
        self.counts.before(location.chunk) + location.at
    }

    pub(super) fn get(&self, location: Location) -> Option<&T> {
        self.chunks.get(location.chunk)?.get(location.at)
    }

    pub(super) fn nth(&self, rank: usize) -> Option<&T> {
        self.get(self.location(rank)?)
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.chunks.first()?.front()
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.chunks.last()?.back()
    }

    /// The position of this rank.
    pub(super) fn location(&self, rank: usize) -> Option<Location> {
        let (chunk, at) = self.counts.locate(rank);
        (chunk < self.chunks.len()).then_some(Location { chunk, at })
    }

    /// Replaces the element at a position that was found by one that compares equal.
    pub(super) fn replace(&mut self, location: Location, element: T) -> Option<T> {
        let slot = self.chunks.get_mut(location.chunk)?.get_mut(location.at)?;
        Some(std::mem::replace(slot, element))
    }

    /// Inserts an element before all others.
    pub(super) fn push_front(&mut self, element: T) {
        self.insert(Location { chunk: 0, at: 0 }, element);
    }

    /// Inserts an element after all others.
    pub(super) fn push_back(&mut self, element: T) {
        let chunk = self.chunks.len().saturating_sub(1);
        let at = self.chunks.last().map_or(0, VecDeque::len);
        self.insert(Location { chunk, at }, element);
    }

    /// Inserts an element where [`find`](Sorted::find) did not find it.
    pub(super) fn insert(&mut self, location: Location, element: T) {
        let Location { mut chunk, mut at } = location;
        self.len += 1;
        let len = self.chunks.get(chunk).map_or(CHUNK_LEN_MAX, VecDeque::len);
        if len >= CHUNK_LEN_MAX {
            // Appending or prepending leaves full chunks behind, not halves.
            if chunk + 1 >= self.chunks.len() && (at == len || self.chunks.is_empty()) {
                return self.append_chunk(element);
            }
            if at == 0 && chunk == 0 {
                self.insert_chunk(0, VecDeque::from([element]));
                return self.recount();
            }
            self.split(chunk);
            if at > CHUNK_LEN_MAX / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK_LEN_MAX / 2);
            }
        }
        self.change(chunk, |chunk| {
            if chunk.len() == chunk.capacity() {
                chunk.reserve_exact(chunk.len().clamp(4, GROWTH_LEN_MAX));
            }
            chunk.insert(at, element);
        });
        self.counts.increment(chunk);
    }

    /// Removes the element at a position that was found.
    pub(super) fn remove(&mut self, location: Location) -> Option<T> {
        let Location { chunk, at } = location;
        self.get(location)?;
        self.len -= 1;
        let element = self.change(chunk, |chunk| chunk.remove(at));
        self.counts.decrement(chunk);
        if self.chunks[chunk].len() < CHUNK_LEN_MIN {
            self.join(chunk);
        }
        element
    }

    /// Removes the first `count` elements.
    pub(super) fn drain_front(&mut self, count: usize, mut visit: impl FnMut(T)) {
        let (whole, rest) = self.counts.locate(count.min(self.len));
        for chunk in self.chunks.drain(..whole) {
            self.heap -= chunk_bytes(&chunk);
            self.len -= chunk.len();
            chunk.into_iter().for_each(&mut visit);
        }
        if rest > 0 {
            self.len -= rest;
            self.change(0, |chunk| chunk.drain(..rest).for_each(visit));
        }
        self.recount();
    }

    /// Elements by rank, from either end.
    pub(super) fn range(&self, ranks: Range<usize>) -> Iter<'_, T> {
        let ranks = ranks.start..ranks.end.min(self.len);
        if ranks.is_empty() {
            return Iter::default();
        }
        let (first, start) = self.counts.locate(ranks.start);
        let (last, end) = self.counts.locate(ranks.end - 1);
        if first == last {
            return Iter { front: self.chunks[first].range(start..=end), ..Iter::default() };
        }
        Iter {
            front: self.chunks[first].range(start..),
            chunks: self.chunks[first + 1..last].iter(),
            back: self.chunks[last].range(..=end),
        }
    }

    /// Heap bytes held, without those of the elements.
    pub(super) fn mem_bytes(&self) -> usize {
        self.heap + alloc_bytes(self.chunks.capacity() * size_of::<VecDeque<T>>()) + self.counts.mem_bytes()
    }

    fn change<R>(&mut self, chunk: usize, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let chunk = &mut self.chunks[chunk];
        self.heap -= chunk_bytes(chunk);
        let result = change(chunk);
        if chunk.capacity() > 2 * chunk.len() + GROWTH_LEN_MAX {
            chunk.shrink_to(chunk.len() + chunk.len() / 4);
        }
        self.heap += chunk_bytes(chunk);
        result
    }

    fn insert_chunk(&mut self, index: usize, chunk: VecDeque<T>) {
        self.heap += chunk_bytes(&chunk);
        if self.chunks.is_empty() {
            // Most sequences never need a second chunk.
            self.chunks.reserve_exact(1);
        }
        self.chunks.insert(index, chunk);
    }

    fn append_chunk(&mut self, element: T) {
        self.insert_chunk(self.chunks.len(), VecDeque::from([element]));
        self.counts.push(1);
    }

    fn split(&mut self, chunk: usize) {
        let half = self.change(chunk, |full| {
            let half = full.split_off(CHUNK_LEN_MAX / 2);
            full.shrink_to_fit();
            half
        });
        self.insert_chunk(chunk + 1, half);
        self.recount();
    }

    /// Joins a chunk that has become small with its smaller neighbour, or drops it when it is empty.
    fn join(&mut self, chunk: usize) {
        if self.chunks[chunk].is_empty() {
            self.heap -= chunk_bytes(&self.chunks.remove(chunk));
            return self.recount();
        }
        let len_of = |i: usize| self.chunks.get(i).map_or(usize::MAX, VecDeque::len);
        let (before, after) = (chunk.checked_sub(1).map_or(usize::MAX, len_of), len_of(chunk + 1));
        if before.min(after).saturating_add(self.chunks[chunk].len()) > JOINED_LEN_MAX {
            return;
        }
        let left = if before <= after { chunk - 1 } else { chunk };
        let mut right = self.chunks.remove(left + 1);
        self.heap -= chunk_bytes(&right);
        self.change(left, |left| {
            left.reserve_exact(right.len());
            left.append(&mut right);
        });
        self.recount();
    }

    fn recount(&mut self) {
        if is_sparse(self.chunks.len(), self.chunks.capacity()) {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        self.counts.rebuild(self.chunks.iter().map(VecDeque::len));
    }
}

fn chunk_bytes<T>(chunk: &VecDeque<T>) -> usize {
    alloc_bytes(chunk.capacity() * size_of::<T>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs of changes, so that chunks fill, split, shrink, join and are removed.
    #[derive(Clone, Debug)]
    enum Op {
        Up(u32, u32),
        Down(u32, u32),
        Spread(u32, u32),
        Remove(u32, u32),
        Drain(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        let run = || (0u32..40_000, 0u32..1500);
        prop_oneof![
            run().prop_map(|(start, len)| Op::Up(start, len)),
            run().prop_map(|(start, len)| Op::Down(start, len)),
            run().prop_map(|(start, len)| Op::Spread(start, len)),
            run().prop_map(|(start, len)| Op::Remove(start, len * 4)),
            (0u32..1500).prop_map(Op::Drain),
        ]
    }

    fn put(sorted: &mut Sorted<u32>, model: &mut Vec<u32>, n: u32) {
        let found = sorted.find(|other| other.cmp(&n));
        let expected = model.binary_search(&n);
        assert_eq!(
            found.map_err(|location| sorted.rank(location)).map(|location| sorted.rank(location)),
            expected
        );
        if let (Err(location), Err(at)) = (found, expected) {
            sorted.insert(location, n);
            model.insert(at, n);
        }
    }

    fn take(sorted: &mut Sorted<u32>, model: &mut Vec<u32>, n: u32) {
        let removed = sorted.find(|other| other.cmp(&n)).ok().and_then(|location| sorted.remove(location));
        assert_eq!(removed, model.binary_search(&n).ok().map(|at| model.remove(at)));
    }

    fn check(sorted: &Sorted<u32>, model: &[u32]) {
        assert_eq!(sorted.len(), model.len());
        assert!(sorted.range(0..model.len()).eq(model));
        assert!(sorted.range(0..usize::MAX).rev().eq(model.iter().rev()));
        assert!(sorted.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_LEN_MAX));
        assert_eq!(sorted.heap, sorted.chunks.iter().map(chunk_bytes).sum::<usize>());
        assert_eq!((sorted.first(), sorted.last()), (model.first(), model.last()));
        for rank in (0..=model.len()).step_by(97) {
            assert_eq!(sorted.nth(rank), model.get(rank));
            let end = (rank + 700).min(model.len());
            assert!(sorted.range(rank..end).rev().eq(model[rank..end].iter().rev()));
            assert_eq!(
                sorted.partition(|&n| model.get(rank).is_some_and(|&m| n < m)),
                rank % (model.len().max(1))
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn it_is_a_sorted_vector(ops in prop::collection::vec(op(), 0..20)) {
            let (mut sorted, mut model) = (Sorted::default(), Vec::new());
            for op in ops {
                match op {
                    Op::Up(start, len) => (start..start + len).for_each(|n| put(&mut sorted, &mut model, n)),
                    Op::Down(start, len) => (start..start + len).rev().for_each(|n| put(&mut sorted, &mut model, n)),
                    Op::Spread(start, len) => {
                        (0..len).for_each(|i| put(&mut sorted, &mut model, (start + i * 7919) % 40_000));
                    }
                    Op::Remove(start, len) => (start..start + len).for_each(|n| take(&mut sorted, &mut model, n)),
                    Op::Drain(count) => {
                        let count = count as usize;
                        let expected: Vec<u32> = model.drain(..count.min(model.len())).collect();
                        let mut drained = Vec::new();
                        sorted.drain_front(count, |n| drained.push(n));
                        prop_assert_eq!(drained, expected);
                    }
                }
                check(&sorted, &model);
            }
            check(&sorted.clone(), &model);
        }
    }

    #[test]
    fn appending_fills_the_chunks() {
        let (mut sorted, mut model) = (Sorted::default(), Vec::new());
        (0..5000).for_each(|n| put(&mut sorted, &mut model, n));
        assert_eq!(sorted.chunks.len(), 10);
        (5000..10_000).rev().for_each(|n| put(&mut sorted, &mut model, n));
        check(&sorted, &model);
    }
}

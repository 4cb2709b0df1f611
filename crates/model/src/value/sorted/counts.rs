//! The number of elements before a chunk: a Fenwick tree over the chunks' lengths. It touches nothing.
//!
//! Invariant: `tree[i]` is the sum of the `lowbit(i + 1)` lengths that end with chunk `i`, so a prefix sum, a
//! change of one length and the search for a rank take O(log chunks).

use crate::value::heap::{alloc_bytes, is_sparse};

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    tree: Vec<usize>,
}

const fn lowbit(i: usize) -> usize {
    i & i.wrapping_neg()
}

impl Counts {
    /// The tree over these lengths.
    pub(super) fn rebuild(&mut self, lens: impl Iterator<Item = usize>) {
        self.tree.clear();
        self.tree.extend(lens);
        if is_sparse(self.tree.len(), self.tree.capacity()) {
            self.tree.shrink_to(self.tree.len() * 2);
        }
        for i in 1..=self.tree.len() {
            let parent = i + lowbit(i);
            if parent <= self.tree.len() {
                self.tree[parent - 1] += self.tree[i - 1];
            }
        }
    }

    /// Appends a chunk of `len` elements.
    pub(super) fn push(&mut self, len: usize) {
        let i = self.tree.len() + 1;
        let below = self.before(i - 1) - self.before(i - lowbit(i));
        if self.tree.is_empty() {
            self.tree.reserve_exact(1);
        }
        self.tree.push(below + len);
    }

    /// Adds one to the length of a chunk.
    pub(super) fn increment(&mut self, chunk: usize) {
        let mut i = chunk + 1;
        while i <= self.tree.len() {
            self.tree[i - 1] += 1;
            i += lowbit(i);
        }
    }

    /// Subtracts one from the length of a chunk.
    pub(super) fn decrement(&mut self, chunk: usize) {
        let mut i = chunk + 1;
        while i <= self.tree.len() {
            self.tree[i - 1] -= 1;
            i += lowbit(i);
        }
    }

    /// Number of elements in the chunks before this one.
    pub(super) fn before(&self, chunk: usize) -> usize {
        let (mut i, mut sum) = (chunk, 0);
        while i > 0 {
            sum += self.tree[i - 1];
            i -= lowbit(i);
        }
        sum
    }

    /// The chunk with the element of this rank, and its index there. Beyond the end: the number of chunks.
    pub(super) fn locate(&self, rank: usize) -> (usize, usize) {
        let (mut chunk, mut rest) = (0, rank);
        let mut step = (self.tree.len() + 1).next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.tree.get(chunk + step - 1)
                && sum <= rest
            {
                rest -= sum;
                chunk += step;
            }
            step /= 2;
        }
        (chunk, rest)
    }

    /// Heap bytes held.
    pub(super) fn mem_bytes(&self) -> usize {
        alloc_bytes(self.tree.capacity() * size_of::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_ranks_are_those_of_the_plain_lengths() {
        let mut lens = Vec::new();
        let mut counts = Counts::default();
        for i in 0..40 {
            lens.push(i % 5 + 1);
            counts.push(i % 5 + 1);
            let chunk = i * 7 % lens.len();
            lens[chunk] += 2;
            counts.increment(chunk);
            counts.increment(chunk);
            lens[i / 2] -= 1;
            counts.decrement(i / 2);

            let mut rebuilt = Counts::default();
            rebuilt.rebuild(lens.iter().copied());
            assert_eq!(rebuilt.tree, counts.tree);
            let mut rank = 0;
            for (chunk, &len) in lens.iter().enumerate() {
                assert_eq!(counts.before(chunk), rank);
                for at in 0..len {
                    assert_eq!(counts.locate(rank + at), (chunk, at));
                }
                rank += len;
            }
            assert_eq!(counts.locate(rank), (lens.len(), 0));
        }
    }
}

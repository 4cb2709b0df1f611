//! Scanning a large hash, set or sorted set in steps, while it changes between the steps. It touches nothing.
//!
//! Invariant: an element that exists during the whole scan is visited at least once. The scan goes *down* the
//! indices of an index map: a new element is appended at the end, which the scan has passed; a removal moves the last element
//! down into the gap, so an element that has not been visited never jumps over the cursor to the visited side.
//! A packed value is visited in one step, so becoming large between two steps cannot hide anything.
//!
//! A value that was evicted and loaded has its elements in another order, and so has one whose changes were rolled back.
//! Therefore a cursor carries the [`Epoch`] of the order it counts in. If that has changed, the scan starts again and goes by
//! a hash of the elements, which does not depend on the order: each such step reads all elements but returns many of them, and
//! loading the value has read all of them too.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::FixedState;

/// Bits of an index, or of a hash. With the other bits they stay below 2^53, which every client can represent.
const INDEX_BITS: u32 = 32;
/// Bits of an epoch.
const EPOCH_BITS: u32 = 20;
/// Marks a cursor that goes by hash.
const BY_HASH: u64 = 1 << (INDEX_BITS + EPOCH_BITS);
/// One more than the largest hash.
const HASHES: u64 = 1 << INDEX_BITS;
/// A scan by hash ends after about so many steps, however few elements each step is asked for.
const HASH_STEPS_MAX: usize = 64;

/// Identifies an order of elements: random, so that it needs no memory of earlier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    /// The epoch of a map with its own hasher that was reordered so many times.
    pub(super) fn of(hasher: &impl BuildHasher, renumbered: u32) -> Self {
        let bits = hasher.hash_one(0u64).wrapping_add(u64::from(renumbered));
        Epoch(bits & ((1 << EPOCH_BITS) - 1))
    }
}

/// Visits the indices of about `count` of `len` elements from `cursor` (0 at first) and returns the next cursor (0 at the
/// end). `name` returns an element by its index.
pub(super) fn walk<'a>(
    cursor: u64,
    count: usize,
    len: usize,
    epoch: Epoch,
    name: impl Fn(usize) -> Option<&'a [u8]>,
    mut visit: impl FnMut(usize),
) -> u64 {
    let from = cursor & (HASHES - 1);
    if cursor & BY_HASH != 0 {
        return walk_by_hash(from, count, len, name, visit);
    }
    let known = cursor == 0 || cursor >> INDEX_BITS == epoch.0 && from > 0;
    if !known || len as u64 >= HASHES {
        return walk_by_hash(0, count, len, name, visit);
    }
    let window = window(from, count, len);
    window.clone().rev().for_each(&mut visit);
    if window.start == 0 { 0 } else { epoch.0 << INDEX_BITS | window.start as u64 }
}

/// The indices to visit, from the last to the first. Their start is the next cursor; 0 is the end.
fn window(cursor: u64, count: usize, len: usize) -> Range<usize> {
    let end = match usize::try_from(cursor) {
        Ok(0) | Err(_) => len,
        Ok(cursor) => cursor.min(len),
    };
    end.saturating_sub(count.max(1))..end
}

fn walk_by_hash<'a>(
    from: u64,
    count: usize,
    len: usize,
    name: impl Fn(usize) -> Option<&'a [u8]>,
    mut visit: impl FnMut(usize),
) -> u64 {
    let wanted = count.max(len / HASH_STEPS_MAX + 1) as u128;
    let width = u64::try_from((wanted << INDEX_BITS) / len.max(1) as u128).unwrap_or(HASHES);
    let end = from.saturating_add(width).min(HASHES);
    let hasher = FixedState::default();
    for index in 0..len {
        let hash = name(index).map(|name| hasher.hash_one(name) >> (u64::BITS - INDEX_BITS));
        if hash.is_some_and(|hash| (from..end).contains(&hash)) {
            visit(index);
        }
    }
    if end < HASHES { BY_HASH | end } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(len: usize) -> Vec<Vec<u8>> {
        (0..len).map(|n| format!("element {n}").into_bytes()).collect()
    }

    /// The indices that a step visits, and the next cursor.
    fn step(cursor: u64, count: usize, names: &[Vec<u8>], epoch: Epoch) -> (Vec<usize>, u64) {
        let mut visited = Vec::new();
        let name = |index: usize| names.get(index).map(Vec::as_slice);
        let next = walk(cursor, count, names.len(), epoch, name, |index| visited.push(index));
        (visited, next)
    }

    #[test]
    fn a_scan_goes_down_and_accepts_any_cursor() {
        assert_eq!(window(0, 10, 25), 15..25);
        assert_eq!(window(15, 10, 25), 5..15);
        assert_eq!(window(5, 10, 25), 0..5);
        assert_eq!(window(15, 10, 3), 0..3);
        assert_eq!(window(15, 0, 25), 14..15);
        assert_eq!(window(u64::MAX, 10, 0), 0..0);
        for cursor in [1, 1 << 20, HASHES - 1, HASHES, BY_HASH, BY_HASH - 1, BY_HASH | 5, 1 << 53, u64::MAX] {
            for len in [0, 1, 200] {
                step(cursor, usize::MAX, &names(len), Epoch(7));
                step(cursor, 0, &names(len), Epoch(7));
            }
        }
    }

    #[test]
    fn a_cursor_of_the_same_epoch_continues() {
        let names = names(25);
        let (visited, next) = step(0, 10, &names, Epoch(7));
        assert_eq!((visited.len(), next), (10, 7 << INDEX_BITS | 15));
        let (visited, next) = step(next, 20, &names, Epoch(7));
        assert_eq!((visited, next), ((0..15).rev().collect(), 0));
    }

    #[test]
    fn a_cursor_of_another_epoch_restarts_and_ends_in_any_order() {
        for (len, count) in [(1, 1), (200, 1), (200, 10), (10_000, 10), (10_000, 100_000)] {
            let mut names = names(len);
            let (mut seen, mut steps, mut cursor) = (BTreeSet::new(), 0, 1 << INDEX_BITS | 1);
            while cursor != 0 {
                // The order is different each time.
                names.rotate_left(len / 3);
                let (visited, next) = step(cursor, count, &names, Epoch(7 + steps));
                seen.extend(visited.into_iter().map(|index| names[index].clone()));
                cursor = next;
                steps += 1;
                assert!(cursor < 1 << 53);
            }
            assert_eq!(seen.len(), len);
            assert!(steps <= HASH_STEPS_MAX as u64 + 1, "{steps} steps for {len} elements");
        }
    }
}

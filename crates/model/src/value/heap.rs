//! Heap bytes of values. It touches nothing.
//!
//! The figures are estimates for jemalloc, the allocator of the server: an allocation takes the next of its size classes, of which
//! there are four between two powers of two, and no header. They are *consistent*: what is added when an element is inserted is subtracted when it
//! is removed, because an element's bytes never change while a value holds it.

use crate::bytes::Bytes;

/// Bytes of an allocation of `len` bytes.
pub(crate) const fn alloc_bytes(len: usize) -> usize {
    match len {
        0 => 0,
        1..=8 => 8,
        9..=128 => len.next_multiple_of(16),
        // Lengths near the end of the address space only occur in arithmetic of estimates.
        _ if len > isize::MAX as usize / 2 => len,
        _ => len.next_multiple_of((1 << (len - 1).ilog2()) / 4),
    }
}

/// The largest length that takes no more than an allocation of `len` bytes does.
pub(crate) const fn usable_bytes(len: usize) -> usize {
    alloc_bytes(len)
}

/// Bytes of a boxed `T`.
pub(crate) const fn boxed_bytes<T>() -> usize {
    alloc_bytes(size_of::<T>())
}

/// Heap bytes of a byte string beyond its own 24 bytes: none when it is inline, else the reference-counted owner
/// (a count and a vector) and the buffer.
pub(crate) fn shared_bytes(bytes: &Bytes) -> usize {
    if bytes.is_allocated() { alloc_bytes(4 * size_of::<usize>()) + alloc_bytes(bytes.capacity()) } else { 0 }
}

/// Bytes of an index map or set for `capacity` entries of `entry_bytes` (the hash included): the entries, and
/// a table of positions with one control byte each, filled to at most 7/8.
pub(crate) const fn index_bytes(capacity: usize, entry_bytes: usize) -> usize {
    if capacity == 0 {
        return 0;
    }
    let buckets = (capacity + capacity.div_ceil(7)).next_power_of_two();
    alloc_bytes(capacity * entry_bytes) + alloc_bytes(buckets * (size_of::<usize>() + 1) + 16)
}

/// Average bytes of an entry of a B-tree: nodes of eleven slots are about two thirds full.
pub(crate) const fn btree_bytes<K, V>() -> usize {
    (size_of::<K>() + size_of::<V>()) * 3 / 2 + 4
}

/// Whether a table of `capacity` is so empty that it should be rebuilt smaller.
///
/// The distance between an eighth here and the half that is then allocated makes rebuilding rare.
pub(crate) const fn is_sparse(len: usize, capacity: usize) -> bool {
    capacity > 64 && len < capacity / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_rounded_as_the_allocator_does() {
        let sizes = [
            (0, 0),
            (1, 8),
            (9, 16),
            (17, 32),
            (33, 48),
            (72, 80),
            (128, 128),
            (129, 160),
            (161, 192),
            (257, 320),
        ];
        for (len, chunk) in sizes {
            assert_eq!(alloc_bytes(len), chunk, "{len}");
        }
        for (len, chunk) in [(1 << 20, 1 << 20), ((1 << 20) + 1, 5 << 18), (5_000_000, 5 << 20)] {
            assert_eq!((alloc_bytes(len), usable_bytes(len)), (chunk, chunk), "{len}");
        }
    }

    #[test]
    fn short_bytes_are_free_and_long_ones_are_not() {
        assert_eq!(shared_bytes(&Bytes::from(&[1u8; 23][..])), 0);
        assert_eq!(shared_bytes(&Bytes::from(&[1u8; 40][..])), 32 + 48);
    }
}

//! Heap bytes of values. It touches nothing.
//!
//! The figures are estimates for a common allocator (glibc: eight bytes of header, multiples of
//! sixteen, at least 32), but they are *consistent*: what is added when an element is inserted is subtracted when it
//! is removed, because an element's bytes never change while a value holds it.

use crate::bytes::Bytes;

const HEADER_BYTES: usize = 8;
const ROUND_BYTES: usize = 16;
const CHUNK_BYTES_MIN: usize = 32;

/// Bytes of an allocation of `len` bytes, with its overhead.
pub(crate) const fn alloc_bytes(len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let chunk = (len + HEADER_BYTES).next_multiple_of(ROUND_BYTES);
    if chunk < CHUNK_BYTES_MIN { CHUNK_BYTES_MIN } else { chunk }
}

/// The largest length that takes no more than an allocation of `len` bytes does.
pub(crate) const fn usable_bytes(len: usize) -> usize {
    alloc_bytes(len).saturating_sub(HEADER_BYTES)
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
        for (len, chunk) in [(0, 0), (1, 32), (24, 32), (25, 48), (40, 48), (41, 64), (72, 80)] {
            assert_eq!(alloc_bytes(len), chunk, "{len}");
        }
        assert_eq!([usable_bytes(1), usable_bytes(25), usable_bytes(72)], [24, 40, 72]);
    }

    #[test]
    fn short_bytes_are_free_and_long_ones_are_not() {
        assert_eq!(shared_bytes(&Bytes::from(&[1u8; 23][..])), 0);
        assert_eq!(shared_bytes(&Bytes::from(&[1u8; 40][..])), 48 + 48);
    }
}

//! The small form of a collection: one buffer of records, one allocation. It touches nothing.
//!
//! The first byte counts the records; the layout of a record (byte strings and numbers with variable-length
//! prefixes) is defined by the type that owns it. Invariants: an empty collection has no buffer, and the buffer is
//! as tight as the allocator's rounding allows, since a million small values are mostly buffer.

use std::ops::Range;

use super::heap::{alloc_bytes, usable_bytes};
use super::{PACKED_ELEMENT_BYTES_MAX, PACKED_LEN_MAX};

/// Offset of the first record, after the count.
pub(super) const START: usize = 1;

/// The error of a packed collection that has to become large first. Nothing has changed.
#[derive(Debug)]
pub(super) struct Full;

/// Records in one buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    buf: Vec<u8>,
}

// The count is one byte.
const _: () = assert!(PACKED_LEN_MAX <= u8::MAX as usize);

impl Packed {
    /// How many records there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.buf.first().map_or(0, |&count| usize::from(count))
    }

    /// Whether an element of this length may be packed.
    #[inline]
    pub(super) const fn fits(element_len: usize) -> bool {
        element_len <= PACKED_ELEMENT_BYTES_MAX
    }

    /// Whether one more record may be packed.
    #[inline]
    pub(super) fn has_space(&self) -> bool {
        self.len() < PACKED_LEN_MAX
    }

    /// A cursor before the first record.
    #[inline]
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { buf: &self.buf, at: START }
    }

    /// The range of a record to be appended.
    #[inline]
    pub(super) fn end(&self) -> Range<usize> {
        let end = self.buf.len().max(START);
        end..end
    }

    /// Inserts a record; `parts` replace what is at `range` (a neighbour that has to be rewritten).
    pub(super) fn insert(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        if self.buf.is_empty() {
            self.buf.reserve_exact(usable_bytes(START + total(parts)));
            self.buf.push(0);
        }
        self.replace(range, parts);
        self.buf[0] += 1;
    }

    /// Removes a record; `parts` replace what is at `range`.
    pub(super) fn remove(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        if self.len() <= 1 {
            self.buf = Vec::new();
            return;
        }
        self.replace(range, parts);
        self.buf[0] -= 1;
    }

    /// Replaces bytes without changing the number of records.
    pub(super) fn replace(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        let old_len = self.buf.len();
        let tail = range.start + total(parts);
        let new_len = tail + (old_len - range.end);
        if new_len > self.buf.capacity() {
            self.buf.reserve_exact(tight_capacity(new_len) - old_len);
        }
        if new_len > old_len {
            self.buf.resize(new_len, 0);
        }
        self.buf.copy_within(range.end..old_len, tail);
        self.buf.truncate(new_len);
        let mut at = range.start;
        for part in parts {
            self.buf[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        if self.buf.capacity() / 2 > new_len {
            self.buf.shrink_to(tight_capacity(new_len));
        }
    }

    /// Heap bytes held.
    pub(super) fn mem_bytes(&self) -> usize {
        alloc_bytes(self.buf.capacity())
    }
}

fn total(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Small buffers grow to the allocator's next size, larger ones by an eighth so that appending stays cheap.
fn tight_capacity(len: usize) -> usize {
    const SMALL_BYTES_MAX: usize = 256;
    if len <= SMALL_BYTES_MAX {
        return usable_bytes(len);
    }
    usable_bytes(len.next_multiple_of(len.next_power_of_two() / 8))
}

/// Reads records front to back. It ends, rather than panics, at the end of the buffer.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    buf: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A cursor over records without a count in front.
    pub(super) fn plain(buf: &'a [u8]) -> Self {
        Reader { buf, at: 0 }
    }

    /// Offset of the next read.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Whether everything has been read.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.buf.len()
    }

    /// The next number.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let &first = self.buf.get(self.at)?;
        self.at += 1;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.long_number(first)
    }

    fn long_number(&mut self, first: u8) -> Option<u64> {
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let &byte = self.buf.get(self.at)?;
            self.at += 1;
            if shift == 63 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The next byte string.
    #[inline]
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.raw(len)
    }

    /// The next `len` bytes.
    #[inline]
    pub(super) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.buf.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }
}

/// A number in seven bits per byte, lowest first: a length prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    bytes: [u8; 10],
    len: u8,
}

impl Number {
    /// The encoding of `number`.
    #[inline]
    pub(super) fn of(mut number: u64) -> Self {
        let mut bytes = [0; 10];
        let mut len = 0;
        while number >= 0x80 {
            bytes[len] = number as u8 | 0x80;
            number >>= 7;
            len += 1;
        }
        bytes[len] = number as u8;
        Number { bytes, len: len as u8 + 1 }
    }

    /// The length prefix of `bytes`.
    #[inline]
    pub(super) fn len_of(bytes: &[u8]) -> Self {
        Number::of(bytes.len() as u64)
    }
}

impl AsRef<[u8]> for Number {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Moves the sign to the lowest bit, so that numbers near zero are short on both sides.
pub(super) const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(super) const fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_decode_to_the_same() {
        for number in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let form = Number::of(number);
            let mut reader = Reader::plain(form.as_ref());
            assert_eq!(reader.number(), Some(number));
            assert!(reader.is_done());
        }
        for number in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
    }

    #[test]
    fn a_broken_buffer_ends_the_reader() {
        assert_eq!(Reader::plain(&[0x80]).number(), None);
        assert_eq!(Reader::plain(&[0xff; 11]).number(), None);
        assert_eq!(Reader::plain(&[3, 1, 2]).bytes(), None);
        assert_eq!(Reader::plain(Number::of(u64::MAX).as_ref()).bytes(), None);
    }

    #[test]
    fn records_are_inserted_and_removed_in_one_tight_buffer() {
        let mut packed = Packed::default();
        assert_eq!((packed.len(), packed.mem_bytes()), (0, 0));
        for _ in 0..100 {
            packed.insert(packed.end(), &[&[5], b"abcde"]);
        }
        assert_eq!(packed.len(), 100);
        assert!(packed.buf.capacity() < 601 * 9 / 8 + 16);
        packed.replace(START..START + 6, &[&[2], b"xy"]);
        assert_eq!(packed.reader().bytes(), Some(&b"xy"[..]));
        packed.remove(START..START + 3, &[]);
        assert_eq!(packed.reader().bytes(), Some(&b"abcde"[..]));
        while packed.len() > 0 {
            packed.remove(START..START + 6, &[]);
            assert!(packed.buf.capacity() <= 2 * packed.buf.len() + 40);
        }
        assert_eq!(packed.mem_bytes(), 0);
    }
}

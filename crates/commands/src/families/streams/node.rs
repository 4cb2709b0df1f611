//! Where Redis would split a stream into nodes, which is what trimming with `~` removes. It touches nothing.
//!
//! A node of Redis holds 100 entries, or as many as fit in 4096 bytes in its packed form, whose length is computed here byte
//! for byte. Nodes are not stored: the first existing entry is taken for the first of its node. That is exact while entries
//! are removed in whole nodes; if single ones were deleted (XDEL, trimming without `~`) Redis still counts them as part of
//! their node and may split elsewhere.

use std::iter::Peekable;

use keystead_model::value::stream::{Fields, StreamId};

use crate::number;

/// Entries of a node (stream-node-max-entries).
pub(super) const ENTRIES_MAX: usize = 100;

/// Bytes of a node (stream-node-max-bytes).
const BYTES_MAX: usize = 4096;

/// The header and end of a packed node, its count of entries, its count of deleted ones, and the end of the master entry.
const FIXED_BYTES: usize = 6 + 1 + 3 * int_bytes(0);

/// The nodes of consecutive entries.
pub(super) struct Nodes<'a, I: Iterator<Item = (StreamId, &'a Fields)>> {
    entries: Peekable<I>,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The number of entries.
    pub(super) len: usize,
    /// Its first entry.
    pub(super) first: StreamId,
    /// Its last entry.
    pub(super) last: StreamId,
}

impl<'a, I: Iterator<Item = (StreamId, &'a Fields)>> Nodes<'a, I> {
    pub(super) fn new(entries: I) -> Self {
        Nodes { entries: entries.peekable() }
    }

    /// The next node; `None` if there is none, or if it has more than `most` entries.
    pub(super) fn next(&mut self, most: usize) -> Option<Node> {
        let &(first, master) = self.entries.peek()?;
        let mut node = Node { len: 0, first, last: first };
        let mut bytes = FIXED_BYTES + int_bytes(master.len() as i64);
        bytes += master.iter().map(|(field, _)| text_bytes(field)).sum::<usize>();
        while let Some(&(id, fields)) = self.entries.peek() {
            let full = node.len >= ENTRIES_MAX || bytes + plain_bytes(fields) >= BYTES_MAX;
            if node.len > 0 && full {
                break;
            }
            if node.len >= most {
                return None;
            }
            bytes += entry_bytes(id, fields, first, master);
            node.len += 1;
            node.last = id;
            self.entries.next();
        }
        Some(node)
    }
}

fn plain_bytes(fields: &Fields) -> usize {
    fields.iter().map(|(field, value)| field.len() + value.len()).sum()
}

/// Bytes of an entry in a node: field names are omitted if they are those of the node's first entry.
fn entry_bytes(id: StreamId, fields: &Fields, first: StreamId, master: &Fields) -> usize {
    let same = fields.iter().map(|(field, _)| field).eq(master.iter().map(|(field, _)| field));
    let (mut bytes, mut count) = (0, 0);
    for (field, value) in fields {
        bytes += text_bytes(value) + if same { 0 } else { text_bytes(field) };
        count += 1;
    }
    let parts = if same { 3 + count } else { 4 + 2 * count };
    let id_bytes =
        int_bytes(id.ms.wrapping_sub(first.ms) as i64) + int_bytes(id.seq.wrapping_sub(first.seq) as i64);
    let flags_bytes = int_bytes(0);
    bytes + id_bytes + flags_bytes + int_bytes(parts) + if same { 0 } else { int_bytes(count) }
}

/// Bytes of a string; an integer is packed as such.
fn text_bytes(text: &[u8]) -> usize {
    if let Some(value) = number::parse_int(text) {
        return int_bytes(value);
    }
    let head = match text.len() {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    };
    with_length(head + text.len())
}

const fn int_bytes(value: i64) -> usize {
    with_length(match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    })
}

/// An element followed by its length, for backward traversal.
const fn with_length(bytes: usize) -> usize {
    bytes
        + match bytes {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(entries: &[(StreamId, Fields)]) -> Vec<usize> {
        let mut nodes = Nodes::new(entries.iter().map(|(id, fields)| (*id, fields)));
        std::iter::from_fn(|| nodes.next(usize::MAX)).map(|node| node.len).collect()
    }

    #[test]
    fn a_node_ends_by_count_or_by_bytes() {
        let small = Fields::new([(&b"f"[..], &b"v"[..])]);
        let large = Fields::new([(&b"f"[..], &[b'v'; 1000][..])]);
        let ids = (0..).map(|n| StreamId::new(1, n));
        let entries: Vec<_> = ids.clone().zip(std::iter::repeat_n(small, 250)).collect();
        assert_eq!(lens(&entries), [100, 100, 50]);
        let entries: Vec<_> = ids.clone().zip(std::iter::repeat_n(large, 10)).collect();
        assert_eq!(lens(&entries), [4, 4, 2]);
        let huge = Fields::new([(&b"f"[..], &[b'v'; 9000][..])]);
        let entries: Vec<_> = ids.zip(std::iter::repeat_n(huge, 3)).collect();
        assert_eq!(lens(&entries), [1, 1, 1]);
        assert_eq!(lens(&[]), [0usize; 0]);
        let mut nodes = Nodes::new(entries.iter().map(|(id, fields)| (*id, fields)));
        assert_eq!(nodes.next(0), None);
    }
}

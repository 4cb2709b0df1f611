//! The fields of a stream entry: pairs in one buffer. It touches nothing.
//!
//! Invariant: the bytes are complete pairs of byte strings, each with its length in front. They never change, so an
//! entry in memory, in an effect and on disk are the same bytes; a short entry needs no allocation.

use std::fmt;

use crate::bytes::Bytes;
use crate::value::packed::{Number, Reader};

/// Fields and values, in insertion order; a field may occur more than once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(Bytes);

impl Fields {
    /// Packs fields and values.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut packed = Vec::new();
        for bytes in pairs.into_iter().flat_map(|(field, value)| [field, value]) {
            packed.extend_from_slice(Number::len_of(bytes).as_ref());
            packed.extend_from_slice(bytes);
        }
        // A copy, because it has exactly the needed length and is inline when it is short.
        Fields(Bytes::from(packed.as_slice()))
    }

    /// The inverse of [`as_bytes`](Fields::as_bytes); `None` when the bytes are not complete pairs.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> Option<Self> {
        let mut reader = Reader::plain(&bytes);
        while !reader.is_done() {
            reader.bytes()?;
            reader.bytes()?;
        }
        Some(Fields(bytes))
    }

    /// The packed form.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fields and values.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(Reader::plain(&self.0))
    }
}

/// Pairs of [`Fields`].
#[derive(Clone, Debug)]
pub struct Iter<'a>(Reader<'a>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.bytes()?, self.0.bytes()?))
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(field, value)| (Bytes::from(field), Bytes::from(value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_unpack_to_the_same() {
        let long = [7u8; 300];
        let pairs: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"", b""), (b"a", &long), (&long, b"x")];
        let fields = Fields::new(pairs);
        assert!(fields.iter().eq(pairs));
        assert_eq!(fields.len(), 4);
        assert_eq!(Fields::from_bytes(fields.as_bytes().clone()), Some(fields));
        assert!(Fields::new([]).is_empty());
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        for bad in [&b"\x01"[..], b"\x01a", b"\x01a\x02b", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(Fields::from_bytes(Bytes::from(bad)), None);
        }
    }
}

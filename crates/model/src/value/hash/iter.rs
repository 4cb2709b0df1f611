//! Iterating over the fields of a hash. It touches nothing. Invariant: every field is returned once, in no particular order.

use super::small;
use crate::bytes::Bytes;

/// Fields and values of a [`Hash`](super::Hash).
#[derive(Clone, Debug)]
pub struct Iter<'a>(pub(super) IterForm<'a>);

#[derive(Clone, Debug)]
pub(super) enum IterForm<'a> {
    Packed(small::Pairs<'a>),
    Large(indexmap::map::Iter<'a, Bytes, Bytes>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::Packed(pairs) => pairs.next(),
            IterForm::Large(entries) => entries.next().map(|(f, v)| (f.as_slice(), v.as_slice())),
        }
    }
}

//! Iterating over the elements of a list, in both directions. It touches nothing.
//!
//! A packed list can only be read front to back, so the reverse iterator collects it first: it is small.

use std::{iter, vec};

use super::small;
use crate::bytes::Bytes;
use crate::value::sorted;

pub(super) fn element((position, value): &(i64, Bytes)) -> (i64, &[u8]) {
    (*position, value)
}

/// Elements of a [`List`](super::List) with their positions, front to back.
#[derive(Clone, Debug)]
pub struct Iter<'a>(pub(super) IterForm<'a>);

#[derive(Clone, Debug)]
pub(super) enum IterForm<'a> {
    Packed(iter::Take<small::Records<'a>>),
    Large(sorted::Iter<'a, (i64, Bytes)>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (i64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::Packed(records) => records.next().map(|r| (r.position, r.value)),
            IterForm::Large(elements) => elements.next().map(element),
        }
    }
}

/// Elements of a [`List`](super::List) with their positions, back to front.
#[derive(Clone, Debug)]
pub struct IterRev<'a>(pub(super) IterRevForm<'a>);

#[derive(Clone, Debug)]
pub(super) enum IterRevForm<'a> {
    Packed(iter::Rev<vec::IntoIter<(i64, &'a [u8])>>),
    Large(sorted::Iter<'a, (i64, Bytes)>),
}

impl<'a> Iterator for IterRev<'a> {
    type Item = (i64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterRevForm::Packed(elements) => elements.next(),
            IterRevForm::Large(elements) => elements.next_back().map(element),
        }
    }
}

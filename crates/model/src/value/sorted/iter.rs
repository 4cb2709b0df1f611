//! Iterating over sorted elements, from either end. It touches nothing.
//!
//! Invariant: `front` comes before all `chunks`, and these before `back`; elements already returned are in none of them.

use std::collections::{VecDeque, vec_deque};
use std::slice;

/// Elements of a [`Sorted`](super::Sorted).
#[derive(Clone, Debug)]
pub(in crate::value) struct Iter<'a, T> {
    pub(super) front: vec_deque::Iter<'a, T>,
    pub(super) chunks: slice::Iter<'a, VecDeque<T>>,
    pub(super) back: vec_deque::Iter<'a, T>,
}

impl<T> Default for Iter<'_, T> {
    fn default() -> Self {
        Iter { front: Default::default(), chunks: Default::default(), back: Default::default() }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(element) = self.front.next() {
                return Some(element);
            }
            match self.chunks.next() {
                Some(chunk) => self.front = chunk.iter(),
                None => return self.back.next(),
            }
        }
    }
}

impl<'a, T> DoubleEndedIterator for Iter<'a, T> {
    #[inline]
    fn next_back(&mut self) -> Option<&'a T> {
        loop {
            if let Some(element) = self.back.next_back() {
                return Some(element);
            }
            match self.chunks.next_back() {
                Some(chunk) => self.back = chunk.iter(),
                None => return self.front.next_back(),
            }
        }
    }
}

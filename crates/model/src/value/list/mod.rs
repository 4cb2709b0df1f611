//! A list: elements in order, each at a position that never changes while it is in the list. It touches nothing.
//!
//! Because of its position every change of a list is a small absolute fact ("position p holds v", "nothing at p"),
//! whatever the indices were. Packed, it is one buffer; large, a sequence sorted by position. Invariant: positions
//! increase strictly from front to back.

mod iter;
mod large;
#[cfg(test)]
mod model;
mod position;
mod small;

use std::fmt;
use std::ops::Range;

pub use self::iter::{Iter, IterRev};
pub use self::position::GAP;

use self::iter::{IterForm, IterRevForm, element};
use self::large::Large;
use self::position::Window;
use super::form::{Form, collection};
use super::packed::Full;
use crate::bytes::Bytes;

/// Elements in order.
#[derive(Clone, Default)]
pub struct List(Form<Large>);

collection!(List, "elements", large => large.elements().len());

/// What an insert between two elements changes. Apply `removed` first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Insertion {
    /// Positions that hold nothing any more.
    pub removed: Vec<i64>,
    /// Positions and what they hold now, front to back.
    pub put: Vec<(i64, Bytes)>,
}

impl List {
    /// The element at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.at(index).map(|(_, value)| value)
    }

    /// The position of the element at an index.
    #[must_use]
    pub fn position(&self, index: usize) -> Option<i64> {
        self.at(index).map(|(position, _)| position)
    }

    /// The element at an index, with its position.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<(i64, &[u8])> {
        match &self.0 {
            Form::Packed(packed) => small::iter(packed).nth(index).map(|r| (r.position, r.value)),
            Form::Large(large) => large.elements().nth(index).map(element),
        }
    }

    /// The element at a position.
    #[must_use]
    pub fn get_at(&self, position: i64) -> Option<&[u8]> {
        match &self.0 {
            Form::Packed(packed) => small::iter(packed).find(|r| r.position == position).map(|r| r.value),
            Form::Large(large) => {
                large.elements().get(large.find(position).ok()?).map(|(_, value)| value.as_slice())
            }
        }
    }

    /// The position that [`push_front`](List::push_front) will use.
    #[must_use]
    pub fn front_position(&self) -> i64 {
        position::before(self.position(0))
    }

    /// The position that [`push_back`](List::push_back) will use.
    #[must_use]
    pub fn back_position(&self) -> i64 {
        position::after(self.len().checked_sub(1).and_then(|last| self.position(last)))
    }

    /// Inserts an element before all others and returns its position.
    pub fn push_front(&mut self, value: &Bytes) -> i64 {
        let position = self.front_position();
        self.put_at(position, value);
        position
    }

    /// Inserts an element after all others and returns its position.
    pub fn push_back(&mut self, value: &Bytes) -> i64 {
        let position = self.back_position();
        self.put_at(position, value);
        position
    }

    /// Removes and returns the first element.
    pub fn pop_front(&mut self) -> Option<(i64, Bytes)> {
        self.remove(0)
    }

    /// Removes and returns the last element.
    pub fn pop_back(&mut self) -> Option<(i64, Bytes)> {
        self.remove(self.len().checked_sub(1)?)
    }

    /// Replaces the element at an index; returns its position and the old value.
    pub fn set(&mut self, index: usize, value: &Bytes) -> Option<(i64, Bytes)> {
        let position = self.position(index)?;
        self.put_at(position, value).map(|old| (position, old))
    }

    /// Inserts an element before the one at `index` (after all others when there is none) and returns what changed:
    /// one position, or a few more when the gap there is used up.
    pub fn insert(&mut self, index: usize, value: &Bytes) -> Insertion {
        let insertion = self.plan_insert(index, value);
        for &position in &insertion.removed {
            self.remove_at(position);
        }
        for (position, value) in &insertion.put {
            self.put_at(*position, value);
        }
        insertion
    }

    /// What [`insert`](List::insert) would change.
    #[must_use]
    pub fn plan_insert(&self, index: usize, value: &Bytes) -> Insertion {
        let Some(after) = self.position(index) else {
            return Insertion::one(self.back_position(), value);
        };
        let Some(before) = index.checked_sub(1).and_then(|before| self.position(before)) else {
            return Insertion::one(self.front_position(), value);
        };
        if let Some(position) = position::between(before, after) {
            return Insertion::one(position, value);
        }
        self.plan_spread(index, value)
    }

    /// An insert where no position is free: the elements of a window around it are spread out to make space.
    fn plan_spread(&self, index: usize, value: &Bytes) -> Insertion {
        let window = Window::around(index, self.len(), |i| self.position(i).unwrap_or(i64::MAX));
        let old = self.iter_range(window.elements.clone());
        let mut values: Vec<Bytes> = old.clone().map(|(_, value)| Bytes::from(value)).collect();
        values.insert(index - window.elements.start, value.clone());
        let put: Vec<(i64, Bytes)> = window.positions().zip(values).collect();
        let is_removed = |position: &i64| put.binary_search_by_key(position, |(new, _)| *new).is_err();
        Insertion { removed: old.map(|(position, _)| position).filter(is_removed).collect(), put }
    }

    /// Removes the element at an index; returns its position and value.
    pub fn remove(&mut self, index: usize) -> Option<(i64, Bytes)> {
        match &mut self.0 {
            Form::Packed(packed) => small::remove(packed, index),
            Form::Large(large) => large.remove(large.elements().location(index)?),
        }
    }

    /// Removes all elements except those at `keep`; returns the removed positions and values.
    pub fn trim(&mut self, keep: Range<usize>) -> Vec<(i64, Bytes)> {
        let behind = self.len().saturating_sub(keep.end.max(keep.start));
        let mut removed: Vec<_> = (0..behind).map_while(|_| self.pop_back()).collect();
        let ahead = if keep.is_empty() { self.len() } else { keep.start };
        removed.extend((0..ahead).map_while(|_| self.pop_front()));
        removed
    }

    /// Sets the value at a position and returns the old one.
    pub fn put_at(&mut self, position: i64, value: &Bytes) -> Option<Bytes> {
        match &mut self.0 {
            Form::Packed(packed) => match small::put(packed, position, value) {
                Ok(old) => old,
                Err(Full) => {
                    let mut large = Large::unpack(packed);
                    let old = large.put(position, value);
                    self.0 = Form::Large(Box::new(large));
                    old
                }
            },
            Form::Large(large) => large.put(position, value),
        }
    }

    /// Removes the value at a position and returns it.
    pub fn remove_at(&mut self, position: i64) -> Option<Bytes> {
        let removed = match &mut self.0 {
            Form::Packed(packed) => {
                let index = small::iter(packed).position(|record| record.position == position)?;
                small::remove(packed, index)
            }
            Form::Large(large) => large.remove(large.find(position).ok()?),
        };
        removed.map(|(_, value)| value)
    }

    /// Elements with their positions, front to back.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_range(0..usize::MAX)
    }

    /// Elements at these indices with their positions, front to back.
    #[must_use]
    pub fn iter_range(&self, indices: Range<usize>) -> Iter<'_> {
        Iter(match &self.0 {
            Form::Packed(packed) => {
                let mut records = small::iter(packed);
                if let Some(skipped) = indices.start.checked_sub(1) {
                    records.nth(skipped);
                }
                IterForm::Packed(records.take(indices.len()))
            }
            Form::Large(large) => IterForm::Large(large.elements().range(indices)),
        })
    }

    /// Elements at these indices with their positions, back to front.
    #[must_use]
    pub fn iter_rev_range(&self, indices: Range<usize>) -> IterRev<'_> {
        IterRev(match &self.0 {
            Form::Packed(_) => {
                IterRevForm::Packed(self.iter_range(indices).collect::<Vec<_>>().into_iter().rev())
            }
            Form::Large(large) => IterRevForm::Large(large.elements().range(indices)),
        })
    }

    /// Heap bytes held.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.mem_bytes(),
            Form::Large(large) => large.mem_bytes(),
        }
    }
}

impl Insertion {
    fn one(position: i64, value: &Bytes) -> Self {
        Insertion { removed: Vec::new(), put: vec![(position, value.clone())] }
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = (i64, &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(position, value)| (position, Bytes::from(value)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::PACKED_LEN_MAX;

    #[test]
    fn a_list_becomes_large_at_its_bounds_and_stays_equal() {
        let mut list = List::new();
        for _ in 0..PACKED_LEN_MAX {
            list.push_front(&Bytes::from(b"v"));
        }
        assert!(list.is_packed());
        let packed = list.clone();
        list.push_back(&Bytes::from(b"v"));
        assert!(!list.is_packed());
        list.pop_back();
        assert_eq!(list, packed);
    }

    #[test]
    fn positions_may_be_anywhere() {
        let mut list = List::new();
        for position in [1 << 60, 0, -(1 << 60), i64::MAX, i64::MIN, 7] {
            assert_eq!(list.put_at(position, &Bytes::from(b"v")), None);
        }
        let positions = [i64::MIN, -(1 << 60), 0, 7, 1 << 60, i64::MAX];
        assert!(list.iter().map(|(position, _)| position).eq(positions));
        assert!(list.insert(5, &Bytes::from(b"w")).removed.is_empty());
    }
}

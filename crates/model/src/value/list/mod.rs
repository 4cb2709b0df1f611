//! A list: elements in order, each at a position that never changes while it is there. It touches nothing.
//!
//! Because of its position every change of a list is a small absolute fact ("position p holds v", "nothing at p"),
//! whatever the indices were. Packed, it is one buffer; large, a sequence sorted by position. Invariant: positions
//! grow strictly from front to back.

mod iter;
mod large;
#[cfg(test)]
mod model;
mod place;
mod small;

use std::fmt;
use std::ops::Range;

pub use self::iter::{Iter, IterRev};
pub use self::place::GAP;

use self::iter::{IterForm, IterRevForm, element};
use self::large::Large;
use self::place::Window;
use super::packed::{Full, Packed};
use crate::bytes::Bytes;

/// Elements in order.
#[derive(Clone, Default)]
pub struct List(Form);

#[derive(Clone)]
enum Form {
    Packed(Packed),
    Large(Box<Large>),
}

impl Default for Form {
    fn default() -> Self {
        Form::Packed(Packed::default())
    }
}

/// What an insert between two elements changes. Apply `gone` first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Positions that hold nothing any more.
    pub gone: Vec<i64>,
    /// Positions and what they hold now, front to back.
    pub put: Vec<(i64, Bytes)>,
}

impl List {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        List::default()
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.len(),
            Form::Large(large) => large.elements().len(),
        }
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is one packed buffer.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }

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
        place::before(self.position(0))
    }

    /// The position that [`push_back`](List::push_back) will use.
    #[must_use]
    pub fn back_position(&self) -> i64 {
        place::after(self.len().checked_sub(1).and_then(|last| self.position(last)))
    }

    /// Puts an element before all others and answers its position.
    pub fn push_front(&mut self, value: &Bytes) -> i64 {
        let position = self.front_position();
        self.put_at(position, value);
        position
    }

    /// Puts an element behind all others and answers its position.
    pub fn push_back(&mut self, value: &Bytes) -> i64 {
        let position = self.back_position();
        self.put_at(position, value);
        position
    }

    /// Takes the first element.
    pub fn pop_front(&mut self) -> Option<(i64, Bytes)> {
        self.remove(0)
    }

    /// Takes the last element.
    pub fn pop_back(&mut self) -> Option<(i64, Bytes)> {
        self.remove(self.len().checked_sub(1)?)
    }

    /// Replaces the element at an index; answers its position and the old value.
    pub fn set(&mut self, index: usize, value: &Bytes) -> Option<(i64, Bytes)> {
        let position = self.position(index)?;
        self.put_at(position, value).map(|old| (position, old))
    }

    /// Puts an element before the one at `index` (behind all others when there is none) and answers what changed:
    /// one position, or a few more when the gap there is used up.
    pub fn insert(&mut self, index: usize, value: &Bytes) -> Placed {
        let placed = self.plan_insert(index, value);
        for &position in &placed.gone {
            self.remove_at(position);
        }
        for (position, value) in &placed.put {
            self.put_at(*position, value);
        }
        placed
    }

    /// What [`insert`](List::insert) would change.
    #[must_use]
    pub fn plan_insert(&self, index: usize, value: &Bytes) -> Placed {
        let Some(after) = self.position(index) else {
            return Placed::one(self.back_position(), value);
        };
        let Some(before) = index.checked_sub(1).and_then(|before| self.position(before)) else {
            return Placed::one(self.front_position(), value);
        };
        if let Some(position) = place::between(before, after) {
            return Placed::one(position, value);
        }
        self.plan_spread(index, value)
    }

    /// An insert where no position is free: the elements of a window around it spread out and let the new one in.
    fn plan_spread(&self, index: usize, value: &Bytes) -> Placed {
        let window = Window::around(index, self.len(), |i| self.position(i).unwrap_or(i64::MAX));
        let old = self.iter_range(window.elements.clone());
        let mut values: Vec<Bytes> = old.clone().map(|(_, value)| Bytes::from(value)).collect();
        values.insert(index - window.elements.start, value.clone());
        let put: Vec<(i64, Bytes)> = window.positions().zip(values).collect();
        let is_gone = |position: &i64| put.binary_search_by_key(position, |(new, _)| *new).is_err();
        Placed { gone: old.map(|(position, _)| position).filter(is_gone).collect(), put }
    }

    /// Removes the element at an index; answers its position and value.
    pub fn remove(&mut self, index: usize) -> Option<(i64, Bytes)> {
        match &mut self.0 {
            Form::Packed(packed) => small::remove(packed, index),
            Form::Large(large) => large.remove(large.elements().place(index)?),
        }
    }

    /// Removes all elements but those at `keep`; answers their positions and values.
    pub fn trim(&mut self, keep: Range<usize>) -> Vec<(i64, Bytes)> {
        let behind = self.len().saturating_sub(keep.end.max(keep.start));
        let mut removed: Vec<_> = (0..behind).map_while(|_| self.pop_back()).collect();
        let ahead = if keep.is_empty() { self.len() } else { keep.start };
        removed.extend((0..ahead).map_while(|_| self.pop_front()));
        removed
    }

    /// Sets what a position holds and answers the old value.
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

    /// Removes what a position holds and answers it.
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

impl Placed {
    fn one(position: i64, value: &Bytes) -> Self {
        Placed { gone: Vec::new(), put: vec![(position, value.clone())] }
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
    fn a_list_becomes_large_at_its_limits_and_stays_equal() {
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
        assert!(list.insert(5, &Bytes::from(b"w")).gone.is_empty());
    }
}

//! Changes of a list. It touches nothing but the keyspace.
//!
//! Elements keep their positions, so a change is recorded by position, whatever the indices are.

use std::ops::Range;

use super::ListMut;
use crate::Bytes;
use crate::effect::Fact;

impl ListMut<'_> {
    /// Inserts an element before all others.
    pub fn push_front(&mut self, value: &Bytes) {
        self.put_at(self.value.front_position(), value);
    }

    /// Inserts an element after all others.
    pub fn push_back(&mut self, value: &Bytes) {
        self.put_at(self.value.back_position(), value);
    }

    /// Removes and returns the first element.
    pub fn pop_front(&mut self) -> Option<Bytes> {
        let popped = self.value.pop_front()?;
        Some(self.record_removed(popped))
    }

    /// Removes and returns the last element.
    pub fn pop_back(&mut self) -> Option<Bytes> {
        let popped = self.value.pop_back()?;
        Some(self.record_removed(popped))
    }

    /// Replaces the element at an index and returns the old one; `None` when there is none.
    pub fn set(&mut self, index: usize, value: &Bytes) -> Option<Bytes> {
        let position = self.value.position(index)?;
        self.put_at(position, value)
    }

    /// Inserts an element before the one at `index`, or after all others when there is none.
    pub fn insert(&mut self, index: usize, value: &Bytes) {
        let plan = self.value.plan_insert(index, value);
        for position in plan.removed {
            if let Some(old) = self.value.remove_at(position) {
                self.record_removed((position, old));
            }
        }
        for (position, value) in plan.put {
            self.put_at(position, &value);
        }
    }

    /// Removes the element at an index and returns it.
    pub fn remove(&mut self, index: usize) -> Option<Bytes> {
        let removed = self.value.remove(index)?;
        Some(self.record_removed(removed))
    }

    /// Removes all elements except those at `keep`.
    pub fn trim(&mut self, keep: Range<usize>) {
        for removed in self.value.trim(keep) {
            self.record_removed(removed);
        }
    }

    fn put_at(&mut self, pos: i64, value: &Bytes) -> Option<Bytes> {
        let old = self.value.put_at(pos, value);
        self.record(Fact::ListAt { pos, value: value.clone() }, || match &old {
            Some(old) => Fact::ListAt { pos, value: old.clone() },
            None => Fact::ListDeleted(pos),
        });
        old
    }

    fn record_removed(&mut self, (pos, old): (i64, Bytes)) -> Bytes {
        self.record(Fact::ListDeleted(pos), || Fact::ListAt { pos, value: old.clone() });
        old
    }
}

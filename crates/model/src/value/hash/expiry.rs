//! When the fields of a hash expire. It touches nothing.
//!
//! Invariant: both maps hold the same pairs, so a field's expiry is found by name and the earliest field by
//! time. A hash without fields that expire has none of this.

use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_core::Millis;

use crate::bytes::Bytes;
use crate::value::heap::{boxed_bytes, btree_bytes};

/// The fields of one hash that expire.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiry {
    by_field: HashMap<Bytes, Millis, RandomState>,
    by_time: BTreeSet<(Millis, Bytes)>,
}

impl Expiry {
    /// When the field expires.
    pub(super) fn get(&self, field: &[u8]) -> Millis {
        self.by_field.get(field).copied().unwrap_or(Millis::NEVER)
    }

    /// Sets when the field expires, and returns its old expiry.
    pub(super) fn set(&mut self, field: &Bytes, at: Millis) -> Millis {
        let old = if at == Millis::NEVER {
            self.by_field.remove(field.as_slice())
        } else {
            self.by_field.insert(field.clone(), at)
        };
        let old = old.unwrap_or(Millis::NEVER);
        if old != at {
            if old != Millis::NEVER {
                self.by_time.remove(&(old, field.clone()));
            }
            if at != Millis::NEVER {
                self.by_time.insert((at, field.clone()));
            }
        }
        old
    }

    /// The field that expires first.
    pub(super) fn first(&self) -> Option<(Millis, &Bytes)> {
        self.by_time.first().map(|(at, field)| (*at, field))
    }

    /// Fields and their expiries, the earliest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Millis, &Bytes)> {
        self.by_time.iter().map(|(at, field)| (*at, field))
    }

    /// Whether no field expires.
    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Heap bytes held, this box included. Names are shared with the hash.
    pub(super) fn mem_bytes(&self) -> usize {
        let slots = self.by_field.capacity() * 8 / 7;
        boxed_bytes::<Expiry>()
            + slots * (size_of::<(Bytes, Millis)>() + 1)
            + self.by_time.len() * btree_bytes::<(Millis, Bytes), ()>()
    }
}

impl PartialEq for Expiry {
    fn eq(&self, other: &Self) -> bool {
        self.by_time == other.by_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_maps_follow_every_change() {
        let (a, b) = (Bytes::from(b"a"), Bytes::from(b"b"));
        let mut expiry = Expiry::default();
        assert_eq!(expiry.set(&a, Millis(20)), Millis::NEVER);
        assert_eq!(expiry.set(&b, Millis(10)), Millis::NEVER);
        assert_eq!(expiry.first(), Some((Millis(10), &b)));
        assert_eq!(expiry.set(&b, Millis(30)), Millis(10));
        assert_eq!(expiry.first(), Some((Millis(20), &a)));
        assert_eq!(expiry.set(&a, Millis::NEVER), Millis(20));
        assert_eq!(expiry.set(&a, Millis::NEVER), Millis::NEVER);
        assert_eq!(expiry.get(b"b"), Millis(30));
        assert_eq!(expiry.set(&b, Millis::NEVER), Millis(30));
        assert!(expiry.is_empty() && expiry.by_field.is_empty());
    }
}

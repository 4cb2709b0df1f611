//! A large list: elements sorted by position. It touches nothing.
//!
//! Invariant: `shared` is the heap bytes of the values.

use super::small;
use crate::bytes::Bytes;
use crate::value::heap::{boxed_bytes, shared_bytes};
use crate::value::packed::Packed;
use crate::value::sorted::{Location, Sorted};

#[derive(Clone, Debug, Default)]
pub(super) struct Large {
    elements: Sorted<(i64, Bytes)>,
    shared: usize,
}

impl Large {
    /// The large form of a packed list that is about to grow.
    pub(super) fn unpack(packed: &Packed) -> Self {
        let mut large = Large::default();
        for record in small::iter(packed) {
            large.put(record.position, &Bytes::from(record.value));
        }
        large
    }

    pub(super) fn elements(&self) -> &Sorted<(i64, Bytes)> {
        &self.elements
    }

    pub(super) fn find(&self, position: i64) -> Result<Location, Location> {
        self.elements.find(|(other, _)| other.cmp(&position))
    }

    pub(super) fn put(&mut self, position: i64, value: &Bytes) -> Option<Bytes> {
        self.shared += shared_bytes(value);
        let element = (position, value.clone());
        // Most elements are inserted at the ends, where no search is needed.
        if self.elements.last().is_none_or(|(last, _)| *last < position) {
            self.elements.push_back(element);
            return None;
        }
        if self.elements.first().is_some_and(|(first, _)| *first > position) {
            self.elements.push_front(element);
            return None;
        }
        match self.find(position) {
            Ok(location) => {
                let (_, old) = self.elements.replace(location, element)?;
                self.shared -= shared_bytes(&old);
                Some(old)
            }
            Err(location) => {
                self.elements.insert(location, element);
                None
            }
        }
    }

    pub(super) fn remove(&mut self, location: Location) -> Option<(i64, Bytes)> {
        let (position, value) = self.elements.remove(location)?;
        self.shared -= shared_bytes(&value);
        Some((position, value))
    }

    pub(super) fn mem_bytes(&self) -> usize {
        boxed_bytes::<Large>() + self.elements.mem_bytes() + self.shared
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let shared: usize = self.elements.range(0..usize::MAX).map(|(_, value)| shared_bytes(value)).sum();
        assert_eq!(self.shared, shared);
    }
}

//! A large hash: an index map, and the fields that expire. It touches nothing.
//!
//! Invariants: every field that has an expiry is in the map; `shared` is the heap bytes of the fields and values in the
//! map.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use keystead_core::Millis;

use super::expiry::Expiry;
use super::small;
use crate::bytes::Bytes;
use crate::value::heap::{boxed_bytes, index_bytes, is_sparse, shared_bytes};
use crate::value::packed::Packed;
use crate::value::scan::Epoch;

#[derive(Clone, Debug, Default)]
pub(super) struct Large {
    map: IndexMap<Bytes, Bytes, RandomState>,
    shared: usize,
    expiry: Option<Box<Expiry>>,
    renumbered: u32,
}

impl Large {
    /// The large form of a packed hash that is about to grow.
    pub(super) fn unpack(packed: &Packed) -> Self {
        let mut large = Large::default();
        large.map.reserve(packed.len() + 1);
        for (field, value) in small::iter(packed) {
            large.insert(&Bytes::from(field), &Bytes::from(value));
        }
        large
    }

    pub(super) fn map(&self) -> &IndexMap<Bytes, Bytes, RandomState> {
        &self.map
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch::of(self.map.hasher(), self.renumbered)
    }

    pub(super) fn renumber(&mut self) {
        self.renumbered = self.renumbered.wrapping_add(1);
    }

    pub(super) fn expiry(&self) -> Option<&Expiry> {
        self.expiry.as_deref()
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    pub(super) fn insert(&mut self, field: &Bytes, value: &Bytes) -> Option<Bytes> {
        self.shared += shared_bytes(value);
        if let Some(old_value) = self.map.get_mut(field.as_slice()) {
            let old = std::mem::replace(old_value, value.clone());
            self.shared -= shared_bytes(&old);
            return Some(old);
        }
        self.shared += shared_bytes(field);
        self.map.insert(field.clone(), value.clone())
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> Option<Bytes> {
        let (field, value) = self.map.swap_remove_entry(field)?;
        self.shared -= shared_bytes(&field) + shared_bytes(&value);
        self.expire(&field, Millis::NEVER);
        if is_sparse(self.map.len(), self.map.capacity()) {
            self.map.shrink_to(self.map.len() * 2);
        }
        Some(value)
    }

    pub(super) fn set_expires_at(&mut self, field: &[u8], at: Millis) -> Millis {
        // The hash's own copy of the name, so that a long name is shared.
        match self.map.get_key_value(field).map(|(field, _)| field.clone()) {
            Some(field) => self.expire(&field, at),
            None => Millis::NEVER,
        }
    }

    fn expire(&mut self, field: &Bytes, at: Millis) -> Millis {
        if at != Millis::NEVER {
            return self.expiry.get_or_insert_default().set(field, at);
        }
        let Some(expiry) = &mut self.expiry else {
            return Millis::NEVER;
        };
        let old = expiry.set(field, at);
        if expiry.is_empty() {
            self.expiry = None;
        }
        old
    }

    pub(super) fn mem_bytes(&self) -> usize {
        boxed_bytes::<Large>()
            + index_bytes(self.map.capacity(), size_of::<(u64, Bytes, Bytes)>())
            + self.shared
            + self.expiry().map_or(0, Expiry::mem_bytes)
    }
}

//! A hash: fields and their values, and fields that expire. It touches nothing.
//!
//! Packed, it is one buffer; large, an index map, so that any field is found by index and a scan can be resumed.
//! Invariant: a hash with a field that expires is large, so that one without has no overhead for it.

mod expiry;
mod iter;
mod large;
#[cfg(test)]
mod model;
mod small;

use std::fmt;

use keystead_core::Millis;

pub use self::iter::Iter;

use self::expiry::Expiry;
use self::iter::IterForm;
use self::large::Large;
use super::form::{Form, collection};
use super::packed::Full;
use super::scan;
use crate::bytes::Bytes;

/// Fields and their values.
#[derive(Clone, Default)]
pub struct Hash(Form<Large>);

collection!(Hash, "fields", large => large.map().len());

impl Hash {
    /// The value of a field.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.0 {
            Form::Packed(packed) => small::get(packed, field),
            Form::Large(large) => large.map().get(field).map(Bytes::as_slice),
        }
    }

    /// Whether the field exists.
    #[must_use]
    pub fn contains(&self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// Sets a field and returns its old value. The field's expiry does not change.
    pub fn insert(&mut self, field: &Bytes, value: &Bytes) -> Option<Bytes> {
        match &mut self.0 {
            Form::Packed(packed) => match small::insert(packed, field, value) {
                Ok(old) => old,
                Err(Full) => {
                    let mut large = Large::unpack(packed);
                    let old = large.insert(field, value);
                    self.0 = Form::Large(Box::new(large));
                    old
                }
            },
            Form::Large(large) => large.insert(field, value),
        }
    }

    /// Removes a field with its expiry, and returns its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Bytes> {
        match &mut self.0 {
            Form::Packed(packed) => small::remove(packed, field),
            Form::Large(large) => large.remove(field),
        }
    }

    /// The field and value with this index, for a random pick. Any change may reorder.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match &self.0 {
            Form::Packed(packed) => small::iter(packed).nth(index),
            Form::Large(large) => large.map().get_index(index).map(|(f, v)| (f.as_slice(), v.as_slice())),
        }
    }

    /// Fields and values, in no particular order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Form::Packed(packed) => IterForm::Packed(small::iter(packed)),
            Form::Large(large) => IterForm::Large(large.map().iter()),
        })
    }

    /// Visits about `count` fields from `cursor` (0 at first) and returns the next cursor (0 at the end).
    ///
    /// A field that exists from the first call to the last is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], &[u8])) -> u64 {
        match &self.0 {
            Form::Packed(packed) => {
                small::iter(packed).for_each(|(field, value)| visit(field, value));
                0
            }
            Form::Large(large) => {
                let map = large.map();
                let name = |index| map.get_index(index).map(|(field, _)| field.as_slice());
                scan::walk(cursor, count, map.len(), large.epoch(), name, |index| {
                    if let Some((field, value)) = map.get_index(index) {
                        visit(field, value);
                    }
                })
            }
        }
    }

    /// Invalidates the cursors of running scans, because the order of fields may have changed.
    pub(crate) fn renumber(&mut self) {
        if let Form::Large(large) = &mut self.0 {
            large.renumber();
        }
    }

    /// When a field expires.
    #[must_use]
    pub fn expires_at(&self, field: &[u8]) -> Millis {
        self.expiry().map_or(Millis::NEVER, |expiry| expiry.get(field))
    }

    /// Sets when a field expires ([`Millis::NEVER`]: never) and returns its old expiry.
    ///
    /// A field that does not exist never expires.
    pub fn set_expires_at(&mut self, field: &[u8], at: Millis) -> Millis {
        match &mut self.0 {
            Form::Packed(packed) => {
                if at == Millis::NEVER || small::get(packed, field).is_none() {
                    return Millis::NEVER;
                }
                let mut large = Large::unpack(packed);
                let old = large.set_expires_at(field, at);
                self.0 = Form::Large(Box::new(large));
                old
            }
            Form::Large(large) => large.set_expires_at(field, at),
        }
    }

    /// When the first field expires.
    #[must_use]
    pub fn next_expiry(&self) -> Millis {
        self.expiry().and_then(Expiry::first).map_or(Millis::NEVER, |(at, _)| at)
    }

    /// The field that expired first, if any has at `now`. [Removing](Hash::remove) it makes the next one first.
    #[must_use]
    pub fn next_expired(&self, now: Millis) -> Option<&Bytes> {
        let (at, field) = self.expiry()?.first()?;
        (at <= now).then_some(field)
    }

    /// Fields that expire, and when, the earliest first.
    pub fn expiries(&self) -> impl Iterator<Item = (&Bytes, Millis)> {
        self.expiry().into_iter().flat_map(Expiry::iter).map(|(at, field)| (field, at))
    }

    /// Heap bytes held.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.mem_bytes(),
            Form::Large(large) => large.mem_bytes(),
        }
    }

    fn expiry(&self) -> Option<&Expiry> {
        match &self.0 {
            Form::Packed(_) => None,
            Form::Large(large) => large.expiry(),
        }
    }
}

impl<'a> IntoIterator for &'a Hash {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.expiry() == other.expiry()
            && self.iter().all(|(field, value)| other.get(field) == Some(value))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (field, value) in self {
            map.entry(&Bytes::from(field), &Bytes::from(value));
        }
        for (field, at) in self.expiries() {
            map.entry(field, &at);
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::model::field;
    use super::*;
    use crate::value::{PACKED_ELEMENT_BYTES_MAX, PACKED_LEN_MAX};

    #[test]
    fn a_hash_becomes_large_at_its_bounds_and_stays_equal() {
        let mut hash = Hash::new();
        let value = Bytes::from(b"v");
        for f in 0..PACKED_LEN_MAX {
            hash.insert(&field(f as u8), &value);
        }
        hash.insert(&field(0), &Bytes::from(&[0; PACKED_ELEMENT_BYTES_MAX][..]));
        assert!(hash.is_packed());
        let packed = hash.clone();
        hash.insert(&field(200), &value);
        assert!(!hash.is_packed());
        hash.remove(&field(200));
        assert_eq!(hash, packed);

        let mut hash = Hash::new();
        hash.insert(&value, &Bytes::from(&[0; PACKED_ELEMENT_BYTES_MAX + 1][..]));
        assert!(!hash.is_packed());
    }

    #[test]
    fn only_a_field_that_exists_expires() {
        let (name, value) = (Bytes::from(b"f"), Bytes::from(b"v"));
        let mut hash = Hash::new();
        hash.insert(&name, &value);
        hash.set_expires_at(b"other", Millis(5));
        hash.set_expires_at(b"f", Millis::NEVER);
        assert!(hash.is_packed());
        assert_eq!(hash.set_expires_at(b"f", Millis(5)), Millis::NEVER);
        assert_eq!(hash.next_expired(Millis(4)), None);
        assert_eq!(hash.next_expired(Millis(5)), Some(&name));
        hash.insert(&name, &value);
        assert_eq!(hash.expires_at(b"f"), Millis(5));
        hash.remove(b"f");
        hash.insert(&name, &value);
        assert_eq!(hash.next_expiry(), Millis::NEVER);
    }
}

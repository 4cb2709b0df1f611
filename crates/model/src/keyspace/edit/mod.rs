//! Handles through which collections are changed element by element.
//!
//! It touches nothing but the keyspace. A handle owns the value until it is dropped; each of its methods changes the value,
//! records the fact, and stores the before-image if a savepoint is open. Invariant: all changes through one handle are one
//! version; the first of them creates the key, and the key is deleted when the value is empty at the end; a handle that
//! changed nothing records nothing.

mod hash;
mod list;
mod set;
mod stream;
mod zset;

use std::ops::Deref;

use keystead_core::key::check_size;
use keystead_core::table::Id;
use keystead_core::{Millis, Result, Version};

use super::Keyspace;
use super::native::Native;
use super::read::{Miss, wrong_archived_kind};
use super::undo::Undo;
use crate::effect::Fact;
use crate::value::{Hash, Kind, List, Set, Stream, Value, ZSet};

/// A hash that is being changed.
pub type HashMut<'a> = Edit<'a, Hash>;
/// A list that is being changed.
pub type ListMut<'a> = Edit<'a, List>;
/// A set that is being changed.
pub type SetMut<'a> = Edit<'a, Set>;
/// A sorted set that is being changed.
pub type ZSetMut<'a> = Edit<'a, ZSet>;
/// A stream that is being changed.
pub type StreamMut<'a> = Edit<'a, Box<Stream>>;

/// A value that is being changed. It dereferences to the value; the change ends when it is dropped.
pub struct Edit<'a, T: Native> {
    keyspace: &'a mut Keyspace,
    key: &'a [u8],
    /// The key's id, if it exists.
    id: Option<Id>,
    /// The version of this change, once there is one.
    version: Option<Version>,
    /// Heap bytes of the value when it was taken out of its entry; 0 for a new one.
    bytes_before: usize,
    value: T,
}

impl Keyspace {
    /// Changes the hash under a key, which may be absent.
    ///
    /// # Errors
    /// [`Miss`], also in the methods that follow.
    pub fn hash_mut<'a>(&'a mut self, key: &'a [u8], now: Millis) -> Result<HashMut<'a>, Miss> {
        self.edit(key, now)
    }

    /// Changes the list under a key, which may be absent.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn list_mut<'a>(&'a mut self, key: &'a [u8], now: Millis) -> Result<ListMut<'a>, Miss> {
        self.edit(key, now)
    }

    /// Changes the set under a key, which may be absent.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn set_mut<'a>(&'a mut self, key: &'a [u8], now: Millis) -> Result<SetMut<'a>, Miss> {
        self.edit(key, now)
    }

    /// Changes the sorted set under a key, which may be absent.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn zset_mut<'a>(&'a mut self, key: &'a [u8], now: Millis) -> Result<ZSetMut<'a>, Miss> {
        self.edit(key, now)
    }

    /// Changes the stream under a key, which may be absent.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn stream_mut<'a>(&'a mut self, key: &'a [u8], now: Millis) -> Result<StreamMut<'a>, Miss> {
        self.edit(key, now)
    }

    fn edit<'a, T: Native>(&'a mut self, key: &'a [u8], now: Millis) -> Result<Edit<'a, T>, Miss> {
        let Some(id) = self.find(key, now)? else {
            check_size(key.len())?;
            let value = T::default();
            return Ok(Edit { keyspace: self, key, id: None, version: None, bytes_before: 0, value });
        };
        self.expect_kind(id, T::KIND)?;
        self.load(id)?;
        Ok(self.edit_at(id)?)
    }

    /// Changes the value at `id`, which must be in memory.
    pub(super) fn edit_at<T: Native>(&mut self, id: Id) -> Result<Edit<'_, T>> {
        let Some(entry) = self.table.get_mut(id) else {
            return Err(wrong_archived_kind());
        };
        match T::from_value(std::mem::replace(&mut entry.value, Value::Evicted(T::KIND))) {
            Ok(value) => {
                let bytes_before = value.heap_bytes();
                Ok(Edit { keyspace: self, key: &[], id: Some(id), version: None, bytes_before, value })
            }
            Err(other) => {
                entry.value = other;
                Err(wrong_archived_kind())
            }
        }
    }
}

impl<T: Native> Edit<'_, T> {
    /// Whether anything was changed yet.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.version.is_some()
    }

    /// Whether the key existed, or exists by now.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.id.is_some()
    }

    /// Records a fact that the value already reflects, and what was true before.
    fn record(&mut self, fact: Fact, before: impl FnOnce() -> Fact) {
        let (id, version) = self.begin();
        self.keyspace.before(|| Undo::Fact { id, fact: before() });
        self.keyspace.record(id, version, fact);
    }

    /// The id and version of this change. The first call creates the key or increments its version.
    fn begin(&mut self) -> (Id, Version) {
        let (id, version) = match (self.id, self.version) {
            (Some(id), Some(version)) => (id, version),
            (Some(id), None) => (id, self.keyspace.next_version(id)),
            (None, _) => {
                let id = self.keyspace.create(self.key, Value::Evicted(T::KIND));
                if let Some(fact) = self.value.first_fact() {
                    self.keyspace.record(id, Version::FIRST, fact);
                }
                (id, Version::FIRST)
            }
        };
        (self.id, self.version) = (Some(id), Some(version));
        (id, version)
    }
}

impl<T: Native> Deref for Edit<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Native> Drop for Edit<'_, T> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let value = std::mem::take(&mut self.value);
        let ended = !T::MAY_BE_EMPTY && value.has_none();
        self.keyspace.used_bytes = self.keyspace.used_bytes + value.heap_bytes() - self.bytes_before;
        if let Some(entry) = self.keyspace.table.get_mut(id) {
            entry.value = value.into_value();
        }
        let Some(version) = self.version else { return };
        if ended {
            self.keyspace.end_at(id, version);
        } else if T::KIND == Kind::Hash {
            self.keyspace.watch_fields(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::value::stream::StreamId;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn all_changes_of_one_handle_are_one_version() {
        let mut ks = Keyspace::in_memory();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        assert!(!hash.is_there() && !hash.is_changed());
        assert_eq!(hash.set(&bytes("a"), &bytes("1")), None);
        assert_eq!(hash.set(&bytes("a"), &bytes("2")), Some(bytes("1")));
        assert_eq!(hash.get(b"a"), Some(&b"2"[..]), "a handle dereferences to its value");
        drop(hash);
        let stamps: Vec<_> =
            ks.effects().iter().map(|effect| (effect.version.0, effect.revision.0)).collect();
        assert_eq!(stamps, [(1, 1), (1, 2)]);
        ks.hash_mut(b"h", NOW).unwrap().set(&bytes("b"), &bytes("3"));
        assert_eq!(ks.meta(b"h", NOW).unwrap().map(|meta| (meta.version.0, meta.revision.0)), Some((2, 3)));
    }

    #[test]
    fn a_handle_that_changes_nothing_records_nothing() {
        let mut ks = Keyspace::in_memory();
        assert_eq!(ks.hash_mut(b"h", NOW).unwrap().remove(&bytes("a")), None);
        drop(ks.stream_mut(b"s", NOW).unwrap());
        assert_eq!(ks.list_mut(b"l", NOW).unwrap().pop_back(), None);
        assert!(ks.zset_mut(b"z", NOW).unwrap().insert(&bytes("m"), 1.0).is_none());
        let effects = ks.effects().len();
        assert_eq!(ks.zset_mut(b"z", NOW).unwrap().insert(&bytes("m"), 1.0), Some(1.0));
        assert_eq!((ks.effects().len(), effects, ks.len()), (1, 1, 1));
        ks.check().unwrap();
    }

    #[test]
    fn an_empty_collection_is_deleted_and_an_empty_stream_is_not() {
        let mut ks = Keyspace::in_memory();
        ks.set_mut(b"s", NOW).unwrap().insert(&bytes("m"));
        ks.set_mut(b"s", NOW).unwrap().remove(&bytes("m"));
        assert!(!ks.exists(b"s", NOW).unwrap());
        assert_eq!(
            ks.effects().last().map(|effect| (effect.version.0, &effect.fact)),
            Some((2, &Fact::Deleted))
        );
        ks.stream_mut(b"x", NOW).unwrap().put_group(&bytes("g"), StreamId::MIN, None);
        ks.stream_mut(b"x", NOW).unwrap().remove_group(&bytes("g"));
        assert_eq!(ks.kind(b"x", NOW).unwrap(), Some(Kind::Stream));
        ks.check().unwrap();
    }

    #[test]
    fn another_kind_is_an_error_and_unchanged() {
        let mut ks = Keyspace::in_memory();
        ks.set_mut(b"s", NOW).unwrap().insert(&bytes("m"));
        assert!(matches!(ks.hash_mut(b"s", NOW), Err(Miss::WrongType(Kind::Set))));
        assert!(ks.set(b"s", NOW).unwrap().is_some_and(|set| set.contains(b"m")));
    }

    #[test]
    fn an_insert_between_elements_is_recorded_by_position() {
        let mut ks = Keyspace::in_memory();
        let mut list = ks.list_mut(b"l", NOW).unwrap();
        for value in ["a", "c"] {
            list.push_back(&bytes(value));
        }
        list.insert(1, &bytes("b"));
        drop(list);
        let values: Vec<_> =
            ks.list(b"l", NOW).unwrap().into_iter().flatten().map(|(_, value)| value.to_vec()).collect();
        assert_eq!(values, [b"a", b"b", b"c"]);
    }
}

//! Lookups. Absent, expired and of another kind are values, not errors.
//!
//! It reads the archive for an evicted value. Invariant: every lookup raises the revision that the job depends on, also one that
//! finds nothing. A lookup changes no result: it may only reclaim the key, or fields of it, that are expired already.

use std::fmt;

use keystead_core::table::Id;
use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::Keyspace;
use super::native::{AsJson, Typed};
use crate::Bytes;
use crate::value::{Hash, Kind, List, Set, StateCell, Str, Stream, Value, ZSet};

/// Why a typed lookup returned no value.
#[derive(Debug)]
pub enum Miss {
    /// The key holds a value of this other kind.
    WrongType(Kind),
    /// The value could not be loaded.
    Failed(Error),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        Miss::Failed(error)
    }
}

impl From<Miss> for Error {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WrongType(kind) => {
                Error::new(Code::WrongType, format!("the key holds a value of another kind: {kind}"))
            }
            Miss::Failed(error) => error,
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Miss::WrongType(kind) => write!(f, "the key holds a {kind}"),
            Miss::Failed(error) => error.fmt(f),
        }
    }
}

/// The properties of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The kind of its value.
    pub kind: Kind,
    /// Incremented with every change, starts at 1.
    pub version: Version,
    /// The shard's revision of its last effect.
    pub revision: Revision,
    /// When it expires; [`Millis::NEVER`] when it does not.
    pub expires_at: Millis,
}

impl Keyspace {
    /// The properties of a key; `None` when it is absent or expired.
    ///
    /// # Errors
    /// When fields of it may have expired and its value cannot be loaded.
    pub fn meta(&mut self, key: &[u8], now: Millis) -> Result<Option<Meta>> {
        let Some(id) = self.find(key, now)? else {
            return Ok(None);
        };
        Ok(self.meta_at(id))
    }

    /// Whether a key exists.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn exists(&mut self, key: &[u8], now: Millis) -> Result<bool> {
        Ok(self.find(key, now)?.is_some())
    }

    /// The kind of a key's value.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn kind(&mut self, key: &[u8], now: Millis) -> Result<Option<Kind>> {
        Ok(self.meta(key, now)?.map(|meta| meta.kind))
    }

    /// The version of a key.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn version(&mut self, key: &[u8], now: Millis) -> Result<Option<Version>> {
        Ok(self.meta(key, now)?.map(|meta| meta.version))
    }

    /// The revision of a key's last effect.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn revision_of(&mut self, key: &[u8], now: Millis) -> Result<Option<Revision>> {
        Ok(self.meta(key, now)?.map(|meta| meta.revision))
    }

    /// When a key expires ([`Millis::NEVER`]: never); `None` when it does not exist.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn expires_at(&mut self, key: &[u8], now: Millis) -> Result<Option<Millis>> {
        Ok(self.meta(key, now)?.map(|meta| meta.expires_at))
    }

    /// Bytes that a key takes in memory: its name, its value, its entry in the table. An evicted value takes none.
    ///
    /// # Errors
    /// As [`meta`](Keyspace::meta).
    pub fn mem_bytes_of(&mut self, key: &[u8], now: Millis) -> Result<Option<usize>> {
        let Some(id) = self.find(key, now)? else {
            return Ok(None);
        };
        Ok(self.bytes_at(id))
    }

    /// The string under a key.
    ///
    /// # Errors
    /// [`Miss`], also in the lookups that follow.
    #[inline]
    pub fn str(&mut self, key: &[u8], now: Millis) -> Result<Option<&Str>, Miss> {
        self.read::<Str>(key, now)
    }

    /// The document under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn json(&mut self, key: &[u8], now: Millis) -> Result<Option<&Bytes>, Miss> {
        self.read::<AsJson>(key, now)
    }

    /// The state under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn state(&mut self, key: &[u8], now: Millis) -> Result<Option<&StateCell>, Miss> {
        self.read::<StateCell>(key, now)
    }

    /// The hash under a key, without fields that are expired.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn hash(&mut self, key: &[u8], now: Millis) -> Result<Option<&Hash>, Miss> {
        self.read::<Hash>(key, now)
    }

    /// The list under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn list(&mut self, key: &[u8], now: Millis) -> Result<Option<&List>, Miss> {
        self.read::<List>(key, now)
    }

    /// The set under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn set(&mut self, key: &[u8], now: Millis) -> Result<Option<&Set>, Miss> {
        self.read::<Set>(key, now)
    }

    /// The sorted set under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn zset(&mut self, key: &[u8], now: Millis) -> Result<Option<&ZSet>, Miss> {
        self.read::<ZSet>(key, now)
    }

    /// The stream under a key.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn stream(&mut self, key: &[u8], now: Millis) -> Result<Option<&Stream>, Miss> {
        self.read::<Box<Stream>>(key, now)
    }

    /// The value under a key, of any kind, in memory.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn value(&mut self, key: &[u8], now: Millis) -> Result<Option<&Value>> {
        let Some(id) = self.find(key, now)? else {
            return Ok(None);
        };
        self.load(id)?;
        Ok(self.table.get(id).map(|entry| &entry.value))
    }

    /// Loads the value of a key into memory, so that [`peek`](Keyspace::peek) finds it.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn settle(&mut self, key: &[u8], now: Millis) -> Result<()> {
        self.value(key, now).map(|_| ())
    }

    /// The value under a key that was [settled](Keyspace::settle) at this `now`; for reading several keys together.
    #[must_use]
    pub fn peek(&self, key: &[u8], now: Millis) -> Option<&Value> {
        let id = self.table.find(key).filter(|id| now < self.table.expires_at(*id))?;
        let value = &self.table.get(id)?.value;
        debug_assert!(!matches!(value, Value::Evicted(_)), "a value was not settled before it was peeked at");
        Some(value)
    }

    #[inline]
    fn read<T: Typed>(&mut self, key: &[u8], now: Millis) -> Result<Option<&T::View>, Miss> {
        let Some(id) = self.find(key, now)? else {
            return Ok(None);
        };
        self.typed::<T>(id).map(Some)
    }

    /// The value at `id` as the requested kind.
    pub(super) fn typed<T: Typed>(&mut self, id: Id) -> Result<&T::View, Miss> {
        self.expect_kind(id, T::KIND)?;
        self.load(id)?;
        self.table
            .get(id)
            .and_then(|entry| T::of(&entry.value))
            .ok_or_else(|| Miss::Failed(wrong_archived_kind()))
    }

    /// Rejects an entry of another kind, without loading it.
    #[inline]
    pub(super) fn expect_kind(&self, id: Id, kind: Kind) -> Result<(), Miss> {
        match self.table.get(id).map(|entry| entry.value.kind()) {
            Some(other) if other != kind => Err(Miss::WrongType(other)),
            _ => Ok(()),
        }
    }

    /// Finds a key that exists and is not expired. If the key or fields of it are expired, they are deleted.
    #[inline]
    pub(super) fn find(&mut self, key: &[u8], now: Millis) -> Result<Option<Id>> {
        self.ready()?;
        self.find_ready(key, now)
    }

    /// The same for a job that is known to be within its bounds.
    #[inline]
    pub(super) fn find_ready(&mut self, key: &[u8], now: Millis) -> Result<Option<Id>> {
        self.check_slot(key)?;
        let Some(id) = self.find_any(key)? else {
            return Ok(None);
        };
        if self.table.live(id, now).is_none() {
            // A client that has seen it expired must not see it again when the clock jumps back.
            self.expired += 1;
            self.end(id);
            return Ok(None);
        }
        if self.fields.is_due(id, now) {
            self.drop_fields(id, now)?;
            return Ok(self.table.get(id).is_some().then_some(id));
        }
        Ok(Some(id))
    }

    /// Reads what looking up the first of these keys will read, at the same time for all of them (see [`Table::prefetch`]). It changes nothing.
    ///
    /// [`Table::prefetch`]: keystead_core::table::Table::prefetch
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.table.prefetch(keys, |entry| entry.value.first_byte());
    }

    /// Finds a key, expired or not.
    #[inline]
    pub(super) fn find_any(&mut self, key: &[u8]) -> Result<Option<Id>> {
        let hash = self.table.hash(key);
        let mut found = self.table.find_hashed(hash, key);
        if self.on_demand.is_some() {
            found = self.find_on_demand(key, found)?;
        }
        match found.and_then(|id| self.table.get(id)) {
            Some(entry) => self.see(entry.revision),
            None => self.see(self.deletions.revision(hash)),
        }
        Ok(found)
    }

    pub(super) fn meta_at(&self, id: Id) -> Option<Meta> {
        let entry = self.table.get(id)?;
        Some(Meta {
            kind: entry.value.kind(),
            version: entry.version,
            revision: entry.revision,
            expires_at: self.table.expires_at(id),
        })
    }
}

pub(super) fn wrong_archived_kind() -> Error {
    Error::new(Code::Corrupt, "an archived value is not of the kind of its key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn absent_expired_and_wrong_kind_are_values() {
        let mut ks = Keyspace::in_memory();
        assert!(ks.str(b"a", NOW).unwrap().is_none());
        ks.set_str(b"a", bytes("1"), Expire::At(Millis(1500)), NOW).unwrap();
        assert_eq!(ks.str(b"a", Millis(1499)).unwrap(), Some(&bytes("1").into()));
        assert!(matches!(ks.hash(b"a", NOW), Err(Miss::WrongType(Kind::Str))));
        assert_eq!(Error::from(Miss::WrongType(Kind::Str)).code(), Code::WrongType);
        let meta =
            Meta { kind: Kind::Str, version: Version(1), revision: Revision(2), expires_at: Millis(1500) };
        assert_eq!(ks.meta(b"a", NOW).unwrap(), Some(meta));
        assert_eq!(ks.meta(b"a", Millis(1500)).unwrap(), None);
        assert!(
            ks.str(b"a", NOW).unwrap().is_none(),
            "once it was reported expired it stays deleted, though the clock jumps back"
        );
    }

    #[test]
    fn a_read_depends_on_the_revision_it_returns() {
        let mut ks = Keyspace::in_memory();
        ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
        ks.set_str(b"b", bytes("1"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(2), "what was made was seen");
        ks.str(b"a", NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(1));
        assert_eq!(ks.take_seen(), Revision(0), "each job starts at 0");
        ks.str(b"never there", NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(0));
        ks.delete(b"a", NOW).unwrap();
        ks.take_seen();
        ks.exists(b"a", NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(3), "absence depends on the deletion");
        ks.set_expiry(b"b", Millis(2000), NOW).unwrap();
        ks.take_seen();
        assert!(!ks.exists(b"b", Millis(2000)).unwrap());
        assert_eq!(ks.take_seen(), Revision(5), "so does an expired key, which is deleted from now on");
        let _ = ks.len();
        assert_eq!(ks.take_seen(), Revision(5));
        ks.flush();
        ks.take_seen();
        ks.exists(b"never there", NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(6));
    }

    #[test]
    fn rolled_back_changes_are_not_waited_for() {
        let mut ks = Keyspace::in_memory();
        ks.savepoint();
        ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
        ks.delete(b"a", NOW).unwrap();
        ks.rollback();
        ks.exists(b"a", NOW).unwrap();
        assert_eq!(ks.take_seen(), Revision(0));
    }

    #[test]
    fn used_bytes_is_the_sum_over_all_keys() {
        let mut ks = Keyspace::in_memory();
        ks.set_str(b"a", bytes("1"), Expire::At(Millis(5000)), NOW).unwrap();
        ks.set_str(&[b'k'; 100], Bytes::from(&[b'v'; 1000][..]), Expire::Keep, NOW).unwrap();
        let of = |ks: &mut Keyspace, key: &[u8]| ks.mem_bytes_of(key, NOW).unwrap();
        assert_eq!(of(&mut ks, b"x"), None);
        let sum = of(&mut ks, b"a").zip(of(&mut ks, &[b'k'; 100])).map(|(a, b)| a + b);
        assert_eq!(sum, Some(ks.used_bytes()));
    }

    #[test]
    fn several_keys_can_be_read_together() {
        let mut ks = Keyspace::in_memory();
        for key in [b"a", b"b"] {
            ks.set_mut(key, NOW).unwrap().insert(&bytes("m"));
            ks.settle(key, NOW).unwrap();
        }
        assert_eq!(ks.peek(b"a", NOW), ks.peek(b"b", NOW));
        assert_eq!(ks.peek(b"c", NOW), None);
    }
}

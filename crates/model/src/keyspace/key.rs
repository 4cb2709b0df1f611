//! Changes of a key as a whole: deleting, expiring, renaming, copying, and removing everything.
//!
//! It touches nothing but the keyspace. Invariant: a renamed or copied value is recorded as the facts that make it up, so that
//! replaying effects needs no other key.

use keystead_core::key::check_size;
use keystead_core::table::{Id, Table};
use keystead_core::{Millis, Result, Version};

use super::expiry::FieldClock;
use super::facts::each_fact;
use super::undo::{Flushed, Undo};
use super::{Expire, INDEX_PARTS, Keyspace};
use crate::Bytes;
use crate::effect::{Effect, Fact};
use crate::value::Value;

/// The outcome of a rename or copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It is done.
    Done,
    /// There is no such key.
    Absent,
    /// The new name exists and may not be overwritten.
    Taken,
}

impl Keyspace {
    /// Deletes a key, and returns whether it existed.
    ///
    /// # Errors
    /// When fields of a hash may have expired and it cannot be loaded.
    pub fn delete(&mut self, key: &[u8], now: Millis) -> Result<bool> {
        let Some(id) = self.find(key, now)? else {
            return Ok(false);
        };
        self.end(id);
        Ok(true)
    }

    /// Sets when a key expires ([`Millis::NEVER`]: never), and returns whether it existed. A time in the past
    /// deletes it.
    ///
    /// # Errors
    /// As [`delete`](Keyspace::delete).
    pub fn set_expiry(&mut self, key: &[u8], at: Millis, now: Millis) -> Result<bool> {
        let Some(id) = self.find(key, now)? else {
            return Ok(false);
        };
        if at <= now {
            self.end(id);
        } else {
            let version = self.next_version(id);
            self.put_expiry(id, at);
            self.record(id, version, Fact::Expiry(at));
        }
        Ok(true)
    }

    /// Renames a key, with its expiry. An existing key of the new name is replaced if `overwrite`. Renaming a key to its own name
    /// changes nothing.
    ///
    /// # Errors
    /// `too_large` when the new name is; when the value cannot be loaded. Nothing changed.
    pub fn rename(&mut self, from: &[u8], to: &[u8], overwrite: bool, now: Millis) -> Result<Renamed> {
        let (source, target) = match self.source_and_target(from, to, overwrite, now)? {
            Ok(found) => found,
            Err(outcome) => return Ok(outcome),
        };
        let Some(entry) = self.table.get(source) else {
            return Ok(Renamed::Absent);
        };
        let kind = entry.value.kind();
        let expires_at = self.table.expires_at(source);
        let mut facts = Vec::new();
        each_fact(&entry.value, &mut |fact| facts.push(fact))?;

        self.before(|| Undo::MovedFrom(source));
        if let Some(savepoint) = &mut self.savepoint {
            savepoint.moved = true;
        }
        let Some(value) = self.take_value(source) else {
            return Ok(Renamed::Absent);
        };
        self.end(source);
        let (id, version) = match target {
            Some(id) => (id, self.next_version(id)),
            None => (self.create(to, Value::Evicted(kind)), Version::FIRST),
        };
        self.swap_value(id, value);
        self.before(|| Undo::MovedTo(id));
        if target.is_some() {
            self.put_expiry(id, Millis::NEVER);
            self.record(id, version, Fact::Fresh(kind));
        }
        for fact in facts {
            self.record(id, version, fact);
        }
        if expires_at != Millis::NEVER {
            self.put_expiry(id, expires_at);
            self.record(id, version, Fact::Expiry(expires_at));
        }
        Ok(Renamed::Done)
    }

    /// Copies a key's value and expiry to another name. An existing key of that name is replaced if `overwrite`.
    ///
    /// # Errors
    /// As [`rename`](Keyspace::rename).
    pub fn copy(&mut self, from: &[u8], to: &[u8], overwrite: bool, now: Millis) -> Result<Renamed> {
        let source = match self.source_and_target(from, to, overwrite, now)? {
            Ok((source, _)) => source,
            Err(outcome) => return Ok(outcome),
        };
        let Some(entry) = self.table.get(source) else {
            return Ok(Renamed::Absent);
        };
        let (value, expires_at) = (entry.value.clone(), self.table.expires_at(source));
        self.replace(to, value, Expire::At(expires_at), now)?;
        Ok(Renamed::Done)
    }

    /// The entries that renaming or copying reads and replaces, with the source in memory; or the outcome, if nothing is left
    /// to do.
    fn source_and_target(
        &mut self,
        from: &[u8],
        to: &[u8],
        overwrite: bool,
        now: Millis,
    ) -> Result<std::result::Result<(Id, Option<Id>), Renamed>> {
        check_size(to.len())?;
        let Some(source) = self.find(from, now)? else {
            return Ok(Err(Renamed::Absent));
        };
        let target = self.find(to, now)?;
        if target.is_some() && !overwrite {
            return Ok(Err(Renamed::Taken));
        }
        if target == Some(source) {
            return Ok(Err(Renamed::Done));
        }
        self.load(source)?;
        Ok(Ok((source, target)))
    }

    /// Removes every key, as one effect.
    pub fn flush(&mut self) {
        let table = std::mem::replace(&mut self.table, Table::new(INDEX_PARTS));
        let fields = std::mem::replace(&mut self.fields, FieldClock::new());
        let used_bytes = std::mem::take(&mut self.used_bytes);
        let entry_bytes = std::mem::take(&mut self.entry_bytes);
        let rows = self.on_demand.as_mut().map(|on_demand| on_demand.flush()).unwrap_or_default();
        if self.savepoint.is_some() {
            self.undo.push(Undo::Flushed(Box::new(Flushed { table, fields, used_bytes, entry_bytes, rows })));
        } else {
            self.garbage.put_table(table, used_bytes);
        }
        let revision = self.revision.next();
        self.deletions.note_all(revision);
        self.push_effect(Effect {
            id: 0,
            key: Bytes::new(),
            version: Version::ZERO,
            revision,
            fact: Fact::Flushed,
        });
    }

    /// Whether the entry at `id` is not expired.
    pub(super) fn is_live(&self, id: Id, now: Millis) -> bool {
        now < self.table.expires_at(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Kind;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn renaming_moves_value_and_expiry() {
        let mut ks = Keyspace::in_memory();
        ks.hash_mut(b"a", NOW).unwrap().set_until(&bytes("f"), &bytes("v"), Millis(1500));
        ks.set_expiry(b"a", Millis(2000), NOW).unwrap();
        ks.set_str(b"b", bytes("old"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.rename(b"a", b"b", false, NOW).unwrap(), Renamed::Taken);
        assert_eq!(ks.rename(b"x", b"b", true, NOW).unwrap(), Renamed::Absent);
        assert_eq!(ks.rename(b"a", b"a", true, NOW).unwrap(), Renamed::Done);
        assert_eq!(ks.rename(b"a", b"b", true, NOW).unwrap(), Renamed::Done);
        assert!(!ks.exists(b"a", NOW).unwrap());
        let meta = ks.meta(b"b", NOW).unwrap().unwrap();
        assert_eq!((meta.kind, meta.version, meta.expires_at), (Kind::Hash, Version(2), Millis(2000)));
        assert!(!ks.exists(b"b", Millis(1500)).unwrap(), "its only field is expired");
        ks.check().unwrap();
    }

    #[test]
    fn copying_leaves_the_source() {
        let mut ks = Keyspace::in_memory();
        ks.list_mut(b"a", NOW).unwrap().push_back(&bytes("v"));
        assert_eq!(ks.copy(b"a", b"b", false, NOW).unwrap(), Renamed::Done);
        assert_eq!(ks.copy(b"a", b"b", false, NOW).unwrap(), Renamed::Taken);
        ks.list_mut(b"b", NOW).unwrap().push_back(&bytes("w"));
        assert_eq!(ks.list(b"a", NOW).unwrap().map(crate::value::List::len), Some(1));
        assert_eq!(ks.list(b"b", NOW).unwrap().map(crate::value::List::len), Some(2));
    }

    #[test]
    fn a_past_expiry_deletes_and_a_flush_is_one_effect() {
        let mut ks = Keyspace::in_memory();
        for key in [b"a", b"b", b"c"] {
            ks.set_str(key, bytes("v"), Expire::Keep, NOW).unwrap();
        }
        assert!(ks.set_expiry(b"a", NOW, NOW).unwrap());
        assert!(!ks.set_expiry(b"a", Millis::NEVER, NOW).unwrap());
        assert_eq!(ks.effects().last().map(|effect| &effect.fact), Some(&Fact::Deleted));
        ks.flush();
        assert_eq!(ks.effects().len(), 5);
        assert_eq!((ks.len(), ks.used_bytes()), (0, 0));
    }
}

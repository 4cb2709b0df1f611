//! Whether the parts of a keyspace are consistent, and whether two keyspaces are equal. For tests and `keystead check`.
//!
//! It reads the archive for evicted values.

use keystead_core::table::Id;
use keystead_core::{Millis, Result, Revision, Version};

use super::Keyspace;
use super::memory::entry_bytes as bytes_of_entry;
use crate::Bytes;
use crate::value::{Kind, Value};

/// A key with all its properties.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyDump {
    /// The key.
    pub key: Bytes,
    /// Its id.
    pub id: u32,
    /// Its version.
    pub version: Version,
    /// The revision of its last effect.
    pub revision: Revision,
    /// When it expires.
    pub expires_at: Millis,
    /// Its value.
    pub value: Value,
}

impl Keyspace {
    /// Every key with its value, by name. Evicted values are read and stay evicted.
    ///
    /// # Errors
    /// The error of the archive.
    pub fn dump(&mut self) -> Result<Vec<KeyDump>> {
        if self.on_demand.is_some() {
            return self.dump_rows();
        }
        let mut keys = Vec::with_capacity(self.table.len());
        for (id, key, entry, expires_at) in self.table.iter_from(0) {
            let value = match &entry.value {
                Value::Evicted(kind) => self.archive.fetch(id, *kind)?,
                value => value.clone(),
            };
            let (version, revision) = (entry.version, entry.revision);
            keys.push(KeyDump { key: key.clone(), id, version, revision, expires_at, value });
        }
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(keys)
    }

    /// The keys with these ids whose value is whole: a string, a document or a state.
    #[must_use]
    pub fn dump_whole(&self, ids: &[Id]) -> Vec<KeyDump> {
        let found = ids.iter().filter_map(|id| {
            let (key, entry) = (self.table.key(*id)?, self.table.get(*id)?);
            let (version, revision, expires_at) = (entry.version, entry.revision, self.table.expires_at(*id));
            matches!(entry.value.kind(), Kind::Str | Kind::Json | Kind::State).then(|| KeyDump {
                key: key.clone(),
                id: *id,
                version,
                revision,
                expires_at,
                value: entry.value.clone(),
            })
        });
        found.collect()
    }

    /// Whether the parts are consistent: index and slab, field expiries and values, bytes and their sum.
    ///
    /// # Errors
    /// A message that says what is not consistent.
    pub fn check(&self) -> Result<(), String> {
        let (mut used_bytes, mut entry_bytes) = (0, 0);
        for (id, key, entry, _) in self.table.iter_from(0) {
            entry_bytes += bytes_of_entry(key);
            used_bytes += bytes_of_entry(key) + entry.value.mem_bytes();
            if self.table.find(key) != Some(id) {
                return Err(format!("the index does not lead to key {key:?} at {id}"));
            }
            if entry.revision > self.revision || entry.version == Version::ZERO {
                return Err(format!(
                    "key {key:?} has version {} of revision {}",
                    entry.version, entry.revision
                ));
            }
            self.check_value(id, &entry.value).map_err(|why| format!("key {key:?}: {why}"))?;
        }
        if (used_bytes, entry_bytes) != (self.used_bytes, self.entry_bytes) {
            let counted = (self.used_bytes, self.entry_bytes);
            return Err(format!(
                "{used_bytes} bytes, {entry_bytes} of entries, are used and {counted:?} counted"
            ));
        }
        match self.fields.ids().find(|id| self.table.get(*id).is_none()) {
            Some(id) => Err(format!("the field expiries have a hash at {id} that does not exist")),
            None => Ok(()),
        }
    }

    fn check_value(&self, id: Id, value: &Value) -> Result<(), String> {
        let (empty, fields_due) = match value {
            Value::Hash(hash) => (hash.is_empty(), hash.next_expiry()),
            Value::List(list) => (list.is_empty(), Millis::NEVER),
            Value::Set(set) => (set.is_empty(), Millis::NEVER),
            Value::ZSet(zset) => (zset.is_empty(), Millis::NEVER),
            Value::Evicted(Kind::Hash) => (false, self.fields.at(id)),
            _ => (false, Millis::NEVER),
        };
        if empty {
            return Err("it is an empty collection".to_owned());
        }
        if fields_due != self.fields.at(id) {
            return Err(format!("fields are due at {fields_due:?}, not {:?}", self.fields.at(id)));
        }
        Ok(())
    }
}

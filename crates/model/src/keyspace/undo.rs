//! Savepoint and rollback: a job of several parts is all or nothing.
//!
//! It touches nothing but the keyspace. Between a savepoint and its end every change stores a before-image: for an element
//! the fact that was true before, for a whole value the value itself, moved and never cloned. Invariant: a rollback restores
//! the keyspace as it was at the savepoint, revision and effects included; only the order of free ids may differ.

use keystead_core::table::{Id, Table};
use keystead_core::{Millis, Result, Revision, Version};

use super::expiry::FieldClock;
use super::facts::apply_fact;
use super::{BUFFER_KEPT, Entry, Keyspace};
use crate::Bytes;
use crate::effect::Fact;
use crate::value::{Kind, Value};

/// The state at a savepoint.
pub(super) struct Savepoint {
    pub(super) revision: Revision,
    pub(super) effects: usize,
    /// Bytes recorded since, including effects that were over the bound.
    pub(super) bytes: usize,
    /// Whether an effect was not recorded: then the job fails, also if others become smaller.
    pub(super) over: bool,
    /// Whether a value was moved from one key to another since.
    pub(super) moved: bool,
}

/// How to undo one change.
pub(super) enum Undo {
    /// A key was added.
    Added(Id),
    /// A key was removed.
    Removed(Box<Removed>),
    /// A key got another version and revision.
    Stamp { id: Id, version: Version, revision: Revision },
    /// A key got another expiry.
    Expiry { id: Id, at: Millis },
    /// A value was replaced; this is the old one.
    Value { id: Id, value: Value, fields_due: Millis },
    /// An element changed; this was true before.
    Fact { id: Id, fact: Fact },
    /// A value was moved away from here: put the lifted value back.
    MovedFrom(Id),
    /// A value was moved to here: lift it.
    MovedTo(Id),
    /// All keys were removed.
    Flushed(Box<Flushed>),
}

pub(super) struct Removed {
    id: Id,
    /// Its row, where keys are read on demand.
    row: u32,
    key: Bytes,
    entry: Entry,
    expires_at: Millis,
    fields_due: Millis,
}

pub(super) struct Flushed {
    pub(super) table: Table<Entry>,
    pub(super) fields: FieldClock,
    pub(super) used_bytes: usize,
    pub(super) entry_bytes: usize,
    /// The rows of its ids, where keys are read on demand.
    pub(super) rows: Vec<u32>,
}

impl Undo {
    pub(super) fn removed(
        id: Id,
        row: u32,
        key: Bytes,
        entry: Entry,
        expires_at: Millis,
        fields_due: Millis,
    ) -> Undo {
        Undo::Removed(Box::new(Removed { id, row, key, entry, expires_at, fields_due }))
    }
}

impl Keyspace {
    /// Opens a savepoint. There is at most one: opening another moves it here.
    pub fn savepoint(&mut self) {
        // A state that cannot be recorded now would never be recorded.
        let unrecorded = self.ready().is_err();
        self.forget_undo();
        let (bytes, over) = self.savepoint.take().map_or((0, false), |moved| (moved.bytes, moved.over));
        let (revision, effects) = (self.revision, self.effects.len());
        self.savepoint = Some(Savepoint { revision, effects, bytes, over: over || unrecorded, moved: false });
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.savepoint();
        }
    }

    /// Keeps what was changed since the savepoint, and returns how many bytes were recorded.
    ///
    /// # Errors
    /// `too_large` when these exceed the bound, and the error of a state that has no text form. Everything was rolled back
    /// then.
    pub fn release(&mut self) -> Result<usize> {
        if let Err(error) = self.ready() {
            self.rollback();
            return Err(error);
        }
        self.forget_undo();
        self.undo.shrink_to(BUFFER_KEPT);
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.release();
        }
        Ok(self.savepoint.take().map_or(0, |savepoint| savepoint.bytes))
    }

    /// Drops the before-images, large values later.
    fn forget_undo(&mut self) {
        for undo in self.undo.drain(..) {
            match undo {
                Undo::Removed(removed) => self.garbage.put_value(removed.entry.value),
                Undo::Value { value, .. } => self.garbage.put_value(value),
                Undo::Flushed(flushed) => self.garbage.put_table(flushed.table, flushed.used_bytes),
                _ => {}
            }
        }
    }

    /// Undoes everything that was changed since the savepoint.
    pub fn rollback(&mut self) {
        let Some(savepoint) = self.savepoint.take() else {
            return;
        };
        self.deferred.clear();
        let mut undo = std::mem::take(&mut self.undo);
        let mut lifted = None;
        for step in undo.drain(..).rev() {
            self.undo_one(step, &mut lifted);
        }
        undo.shrink_to(BUFFER_KEPT);
        self.undo = undo;
        self.effects.truncate(savepoint.effects);
        self.effects.shrink_to(BUFFER_KEPT);
        self.revision = savepoint.revision;
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.rollback();
        }
    }

    fn undo_one(&mut self, undo: Undo, lifted: &mut Option<Value>) {
        match undo {
            Undo::Added(id) => self.remove_entry(id),
            Undo::Removed(removed) => self.put_back(*removed),
            Undo::Stamp { id, version, revision } => {
                if let Some(entry) = self.table.get_mut(id) {
                    (entry.version, entry.revision) = (version, revision);
                }
            }
            Undo::Expiry { id, at } => self.table.set_expires_at(id, at),
            Undo::Value { id, value, fields_due } => {
                self.swap_value(id, value);
                self.fields.set(id, fields_due);
            }
            Undo::Fact { id, fact } => {
                let Some(entry) = self.table.get_mut(id) else {
                    return;
                };
                let before = entry.value.mem_bytes();
                apply_fact(&mut entry.value, &fact);
                // A removed element is appended to its collection.
                entry.value.renumber();
                self.used_bytes = self.used_bytes + entry.value.mem_bytes() - before;
                self.watch_fields(id);
            }
            Undo::MovedTo(id) => *lifted = self.take_value(id),
            Undo::MovedFrom(id) => {
                if let Some(value) = lifted.take() {
                    self.swap_value(id, value);
                }
            }
            Undo::Flushed(flushed) => {
                let Flushed { table, fields, used_bytes, entry_bytes, rows } = *flushed;
                if let Some(on_demand) = &mut self.on_demand {
                    on_demand.unflush(rows);
                }
                let since = std::mem::replace(&mut self.table, table);
                self.garbage.put_table(since, self.used_bytes);
                (self.fields, self.used_bytes, self.entry_bytes) = (fields, used_bytes, entry_bytes);
            }
        }
    }

    fn put_back(&mut self, removed: Removed) {
        let Removed { id, row, key, entry, expires_at, fields_due } = removed;
        self.count_added(&key, &entry.value);
        // Undoing runs backwards, so the id is as free as it was when the key had just been removed.
        if self.table.insert_at(id, key, entry).is_ok() {
            self.table.set_expires_at(id, expires_at);
            self.fields.set(id, fields_due);
            if let Some(on_demand) = &mut self.on_demand {
                on_demand.set_row(id, row);
            }
        }
    }

    /// Removes the value at `id` to move it. The entry must get another one or be removed.
    pub(super) fn take_value(&mut self, id: Id) -> Option<Value> {
        let entry = self.table.get_mut(id)?;
        let value = std::mem::replace(&mut entry.value, Value::Evicted(Kind::Str));
        self.used_bytes -= value.mem_bytes();
        self.fields.take(id);
        Some(value)
    }
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
    fn released_changes_stay() {
        let mut ks = Keyspace::in_memory();
        ks.savepoint();
        ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
        ks.release().unwrap();
        ks.rollback();
        assert!(ks.exists(b"a", NOW).unwrap());
    }

    #[test]
    fn a_large_collection_is_undone_element_by_element() {
        let mut ks = Keyspace::in_memory();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        for n in 0..1000 {
            hash.set(&bytes(&n.to_string()), &bytes("v"));
        }
        drop(hash);
        let before = ks.dump().unwrap();
        ks.savepoint();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        hash.set(&bytes("7"), &bytes("w"));
        hash.remove(&bytes("8"));
        drop(hash);
        assert_eq!(ks.undo.len(), 3, "a stamp and two facts");
        ks.rollback();
        assert_eq!(ks.dump().unwrap(), before);
        ks.check().unwrap();
    }

    #[test]
    fn a_flush_and_a_rename_are_undone() {
        let mut ks = Keyspace::in_memory();
        ks.list_mut(b"l", NOW).unwrap().push_back(&bytes("v"));
        ks.set_str(b"s", bytes("v"), Expire::At(Millis(2000)), NOW).unwrap();
        let (before, used_bytes) = (ks.dump().unwrap(), ks.used_bytes());
        ks.savepoint();
        ks.rename(b"l", b"s", true, NOW).unwrap();
        ks.list_mut(b"s", NOW).unwrap().push_back(&bytes("w"));
        ks.flush();
        ks.set_str(b"new", bytes("v"), Expire::Keep, NOW).unwrap();
        ks.rollback();
        assert_eq!((ks.dump().unwrap(), ks.used_bytes()), (before, used_bytes));
        let mut budget = usize::MAX;
        ks.reclaim(Millis(3000), &mut budget).unwrap();
        assert_eq!(ks.len(), 1, "the expiry is back too");
        ks.check().unwrap();
    }
}

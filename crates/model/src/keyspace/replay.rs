//! Replaying effects: how a keyspace is recovered after a restart, and how a copy follows another.
//!
//! It touches nothing but the keyspace. Invariant: applying effects in order results in the keyspace they were recorded in, also
//! when some of them, from any earlier point on, are applied to a keyspace that has them already. An effect is skipped
//! when its key, or another key with its id, is younger: what made it so is either applied or still to come.

use keystead_core::table::Id;
use keystead_core::{Code, Error, Millis, Result, Revision};

use super::facts::{apply_fact, kind_of};
use super::memory::entry_bytes;
use super::{Entry, Keyspace, Meta};
use crate::Bytes;
use crate::effect::{Effect, Fact};
use crate::value::{Kind, StateCell, Value};

impl Keyspace {
    /// Applies an effect, with its version and revision, and records nothing.
    ///
    /// # Errors
    /// `corrupt` when it does not follow what was applied before it, or the error of the archive.
    pub fn apply_effect(&mut self, effect: &Effect) -> Result<()> {
        debug_assert!(self.savepoint.is_none(), "an effect was applied inside a savepoint");
        if effect.fact == Fact::Flushed {
            self.forget_before(effect.revision);
        } else if let Some(id) = self.target_of(effect)? {
            self.apply_at(id, effect)?;
        }
        self.revision = self.revision.max(effect.revision);
        Ok(())
    }

    /// Reserves space for that many keys, before they are restored.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys);
    }

    /// Restores a key with its id and an evicted value, as the archive has it.
    ///
    /// # Errors
    /// `corrupt` when the id is in use. That names are unique is ensured by the archive: checking each would take a
    /// third of the start.
    pub fn restore(&mut self, id: Id, key: Bytes, meta: &Meta) -> Result<()> {
        let bytes = entry_bytes(&key);
        let entry =
            Entry { version: meta.version, revision: meta.revision, value: Value::Evicted(meta.kind) };
        if self.table.insert_at(id, key, entry).is_err() {
            return Err(Error::new(Code::Corrupt, format!("two keys have the id {id}")));
        }
        self.used_bytes += bytes;
        self.entry_bytes += bytes;
        if meta.expires_at != Millis::NEVER {
            self.table.set_expires_at(id, meta.expires_at);
        }
        self.revision = self.revision.max(meta.revision);
        Ok(())
    }

    /// Removes another key with this name that is older than `revision`, and returns whether none that is younger exists. For rows
    /// that are not of one revision: a name may be at the id it had and at the one it has.
    pub fn forget_older(&mut self, key: &[u8], revision: Revision) -> bool {
        let Some(id) = self.table.find(key) else { return true };
        let is_older = self.table.get(id).is_some_and(|entry| entry.revision < revision);
        if is_older {
            self.remove_entry(id);
        }
        is_older
    }

    /// Puts the value of a restored key that is younger than the revision up to which the archive is complete. It must not be evicted:
    /// its row may become older, or be deleted, until the archive has caught up.
    pub fn restore_value(&mut self, id: Id, value: Value) {
        if let Some(entry) = self.table.get_mut(id) {
            self.used_bytes += value.mem_bytes();
            entry.value = value;
        }
    }

    /// Sets when the first field of the evicted hash at `id` expires, as the archive has it. Rows without a hash are
    /// reported by the audit.
    pub fn restore_fields_due(&mut self, id: Id, at: Millis) {
        if self.table.get(id).is_some_and(|entry| entry.value.kind() == Kind::Hash) {
            self.fields.set(id, at);
        }
    }

    /// Sets the revision up to which the archive is complete, after everything in it was restored.
    pub fn restore_revision(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
        self.archived = self.archived.max(revision);
    }

    /// The id that the effect applies to; `None` when it is skipped.
    fn target_of(&mut self, effect: &Effect) -> Result<Option<Id>> {
        if let Some(id) = self.table.find(&effect.key) {
            let known = self.table.get(id).map_or(Revision::ZERO, |entry| entry.revision);
            return match known < effect.revision {
                false => Ok(None),
                true if id == effect.id => Ok(Some(id)),
                true => Err(out_of_order(effect)),
            };
        }
        if let Some(other) = self.table.get(effect.id) {
            return if other.revision < effect.revision { Err(out_of_order(effect)) } else { Ok(None) };
        }
        let Some(kind) = kind_of(&effect.fact) else {
            // The key is deleted already, and will be after the effects up to now are applied.
            return Ok(None);
        };
        let value = empty_value(kind);
        self.count_added(&effect.key, &value);
        let entry = Entry { version: effect.version, revision: Revision::ZERO, value };
        match self.table.insert_at(effect.id, effect.key.clone(), entry) {
            Ok(()) => Ok(Some(effect.id)),
            Err(_) => Err(out_of_order(effect)),
        }
    }

    fn apply_at(&mut self, id: Id, effect: &Effect) -> Result<()> {
        match &effect.fact {
            Fact::Deleted => {
                self.remove_entry(id);
                return Ok(());
            }
            Fact::Expiry(at) => self.table.set_expires_at(id, *at),
            fact => {
                if !replaces(fact) {
                    self.load(id)?;
                }
                if matches!(fact, Fact::Fresh(_)) {
                    self.table.set_expires_at(id, Millis::NEVER);
                }
                let Some(entry) = self.table.get_mut(id) else {
                    return Ok(());
                };
                let before = entry.value.mem_bytes();
                apply_fact(&mut entry.value, fact);
                self.used_bytes = self.used_bytes + entry.value.mem_bytes() - before;
                self.watch_fields(id);
            }
        }
        if let Some(entry) = self.table.get_mut(id) {
            (entry.version, entry.revision) = (effect.version, effect.revision);
        }
        Ok(())
    }

    /// Removes every key that existed before `revision`.
    fn forget_before(&mut self, revision: Revision) {
        let old: Vec<Id> = self
            .table
            .iter_from(0)
            .filter(|(_, _, entry, _)| entry.revision < revision)
            .map(|(id, ..)| id)
            .collect();
        for id in old {
            self.remove_entry(id);
        }
    }
}

/// Whether a fact replaces the whole value, so that an evicted one need not be loaded.
const fn replaces(fact: &Fact) -> bool {
    matches!(fact, Fact::Fresh(_) | Fact::Str(_) | Fact::Json(_) | Fact::State(_))
}

/// The value of a key before its first fact is applied.
pub(super) fn empty_value(kind: Kind) -> Value {
    Value::empty(kind).unwrap_or_else(|| match kind {
        Kind::Json => Value::Json(Bytes::new()),
        Kind::State => Value::State(StateCell::Text("".into())),
        _ => Value::Str(Bytes::new().into()),
    })
}

fn out_of_order(effect: &Effect) -> Error {
    Error::new(
        Code::Corrupt,
        format!(
            "revision {} of key '{}' (id {}) does not follow what was applied before it",
            effect.revision,
            effect.key.escape_ascii(),
            effect.id
        ),
    )
}

#[cfg(test)]
mod tests {
    use keystead_core::Version;

    use super::*;

    fn effect(id: u32, key: &str, revision: u64, fact: Fact) -> Effect {
        Effect {
            id,
            key: Bytes::from(key.as_bytes()),
            version: Version(1),
            revision: Revision(revision),
            fact,
        }
    }

    fn text(text: &str) -> Fact {
        Fact::Str(Bytes::from(text.as_bytes()))
    }

    #[test]
    fn effects_that_were_applied_are_skipped() {
        let mut ks = Keyspace::in_memory();
        for effect in [effect(0, "a", 1, text("old")), effect(0, "a", 2, text("new"))].iter().cycle().take(3)
        {
            ks.apply_effect(effect).unwrap();
        }
        assert_eq!(ks.str(b"a", Millis(0)).unwrap().map(|value| &**value), Some(&b"new"[..]));
        assert_eq!((ks.revision(), ks.effects().len()), (Revision(2), 0));
    }

    #[test]
    fn an_id_reused_by_a_younger_key_is_not_changed() {
        let mut ks = Keyspace::in_memory();
        ks.apply_effect(&effect(0, "b", 9, text("b"))).unwrap();
        ks.apply_effect(&effect(0, "a", 3, text("a"))).unwrap();
        ks.apply_effect(&effect(0, "a", 4, Fact::Deleted)).unwrap();
        ks.apply_effect(&effect(0, "", 5, Fact::Flushed)).unwrap();
        assert_eq!(ks.len(), 1);
        ks.apply_effect(&effect(0, "", 10, Fact::Flushed)).unwrap();
        assert_eq!(ks.len(), 0);
        ks.check().unwrap();
    }

    #[test]
    fn effects_that_cannot_follow_are_corrupt() {
        let mut ks = Keyspace::in_memory();
        ks.apply_effect(&effect(0, "a", 1, text("a"))).unwrap();
        for wrong in [effect(0, "b", 2, text("b")), effect(1, "a", 2, text("a"))] {
            let error = ks.apply_effect(&wrong).unwrap_err();
            assert_eq!(error.code(), Code::Corrupt);
            assert!(error.message().contains("revision 2"), "{error}");
        }
    }

    #[test]
    fn a_restored_key_is_evicted_and_keeps_its_id() {
        let mut ks = Keyspace::in_memory();
        let meta =
            Meta { kind: Kind::List, version: Version(7), revision: Revision(3), expires_at: Millis(50) };
        ks.restore(12, Bytes::from(b"l"), &meta).unwrap();
        assert_eq!(ks.restore(12, Bytes::from(b"m"), &meta).unwrap_err().code(), Code::Corrupt);
        ks.restore_revision(Revision(5));
        assert_eq!((ks.revision(), ks.archived()), (Revision(5), Revision(5)));
        assert_eq!(ks.meta(b"l", Millis(0)).unwrap(), Some(meta));
        assert!(!ks.exists(b"l", Millis(50)).unwrap());
        ks.check().unwrap();
    }
}

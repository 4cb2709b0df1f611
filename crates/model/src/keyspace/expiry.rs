//! Reclaiming what is expired: keys, and fields of hashes.
//!
//! It touches nothing but the keyspace. Invariant: a hash with a field that expires is in [`FieldClock`] with its
//! earliest expiry, also while it is evicted, so that a read knows whether there is anything to reclaim.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_core::table::{Id, Wheel};
use keystead_core::{Millis, Result, Version};

use super::Keyspace;
use crate::effect::Fact;
use crate::value::{Hash, Value};

/// Fields of one hash that are reclaimed at a time.
const FIELDS_SLICE: usize = 256;

/// How long reclaiming skips a hash that could not be loaded.
const RETRY_MS: u64 = 1000;

/// When the first field of each hash expires. Hashes without such fields are not in it.
pub(super) struct FieldClock {
    wheel: Wheel,
    due: HashMap<Id, Millis, RandomState>,
}

impl FieldClock {
    pub(super) fn new() -> Self {
        FieldClock { wheel: Wheel::new(), due: HashMap::default() }
    }

    #[inline]
    pub(super) fn is_due(&self, id: Id, now: Millis) -> bool {
        !self.due.is_empty() && self.due.get(&id).is_some_and(|at| *at <= now)
    }

    pub(super) fn at(&self, id: Id) -> Millis {
        self.due.get(&id).copied().unwrap_or(Millis::NEVER)
    }

    pub(super) fn set(&mut self, id: Id, at: Millis) {
        if at == Millis::NEVER {
            self.take(id);
        } else if self.due.insert(id, at) != Some(at) {
            self.wheel.schedule(id, at);
        }
    }

    /// Removes a hash and returns when its first field would have expired.
    #[inline]
    pub(super) fn take(&mut self, id: Id) -> Millis {
        if self.due.is_empty() {
            return Millis::NEVER;
        }
        let Some(at) = self.due.remove(&id) else {
            return Millis::NEVER;
        };
        self.wheel.cancel(id);
        at
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.due.keys().copied()
    }

    fn pop(&mut self, now: Millis, budget: &mut usize) -> Option<Id> {
        let due = &self.due;
        self.wheel.pop_due(now, budget, |id| due.get(&id).copied().unwrap_or(Millis::NEVER))
    }
}

impl Keyspace {
    /// Reclaims keys and fields that are expired at `now`, in O(expired). Each check costs one of `budget`, so that a slice of
    /// the shard's loop stays small; the rest is reclaimed by later calls.
    ///
    /// # Errors
    /// When an evicted hash cannot be loaded. It is tried again a second later.
    pub fn reclaim(&mut self, now: Millis, budget: &mut usize) -> Result<()> {
        if self.on_demand.is_some() {
            return self.reclaim_rows(now, budget);
        }
        debug_assert!(self.savepoint.is_none(), "reclaimed inside a savepoint");
        while let Some(id) = self.table.pop_expired(now, budget) {
            self.expired += 1;
            self.end(id);
        }
        while let Some(id) = self.fields.pop(now, budget) {
            if let Err(error) = self.drop_some_fields(id, now, FIELDS_SLICE) {
                self.fields.wheel.schedule(id, now.plus_ms(RETRY_MS));
                return Err(error.context("cannot reclaim fields of a hash"));
            }
            *budget = budget.saturating_sub(FIELDS_SLICE / 16);
        }
        Ok(())
    }

    /// Deletes the expired key at `id`.
    pub(super) fn end(&mut self, id: Id) {
        let version = self.next_version(id);
        self.end_at(id, version);
    }

    /// The same as a change of this version.
    pub(super) fn end_at(&mut self, id: Id, version: Version) {
        self.record(id, version, Fact::Deleted);
        if let (Some(on_demand), Some(key)) = (&mut self.on_demand, self.table.key(id)) {
            on_demand.ended(key);
        }
        self.remove_entry(id);
    }

    /// Removes all expired fields of a hash, and the key when no field is left.
    #[cold]
    pub(super) fn drop_fields(&mut self, id: Id, now: Millis) -> Result<()> {
        self.drop_some_fields(id, now, usize::MAX)
    }

    pub(super) fn drop_some_fields(&mut self, id: Id, now: Millis, most: usize) -> Result<()> {
        self.load(id)?;
        let mut hash = self.edit_at::<Hash>(id)?;
        for _ in 0..most {
            let Some(field) = hash.next_expired(now).cloned() else {
                break;
            };
            hash.remove(&field);
        }
        let left = hash.next_expired(now).is_some();
        drop(hash);
        if left {
            // The wheel has returned it, and its earliest expiry may be the same as before.
            self.fields.wheel.schedule(id, self.fields.at(id));
        }
        Ok(())
    }

    /// Updates the field expiry of the value at `id`. An evicted value keeps the known one.
    pub(super) fn watch_fields(&mut self, id: Id) {
        match self.table.get(id).map(|entry| &entry.value) {
            Some(Value::Hash(hash)) => {
                let at = hash.next_expiry();
                if at != Millis::NEVER || !self.fields.due.is_empty() {
                    self.fields.set(id, at);
                }
            }
            Some(Value::Evicted(_)) => {}
            _ => {
                self.fields.take(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1_000_000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn due_keys_are_reclaimed_within_the_budget() {
        let mut ks = Keyspace::in_memory();
        for n in 0..100u32 {
            let expire = Expire::At(NOW.plus_ms(if n < 50 { 100 } else { 100_000 }));
            ks.set_str(format!("k{n}").as_bytes(), bytes("v"), expire, NOW).unwrap();
        }
        let later = NOW.plus_ms(200);
        ks.reclaim(later, &mut 10).unwrap();
        assert_eq!(ks.len(), 90);
        ks.reclaim(later, &mut { 1000 }).unwrap();
        assert_eq!(ks.len(), 50);
        assert_eq!(ks.effects().iter().filter(|effect| effect.fact == Fact::Deleted).count(), 50);
        ks.check().unwrap();
    }

    #[test]
    fn an_expired_field_is_absent_for_readers_at_once() {
        let mut ks = Keyspace::in_memory();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        hash.set_until(&bytes("soon"), &bytes("1"), NOW.plus_ms(10));
        hash.set(&bytes("stays"), &bytes("2"));
        drop(hash);
        let later = NOW.plus_ms(10);
        assert_eq!(ks.hash(b"h", later).unwrap().map(Hash::len), Some(1));
        assert_eq!(ks.meta(b"h", later).unwrap().map(|meta| meta.version), Some(Version(2)));
        assert!(ks.hash_mut(b"h", later).unwrap().set_field_expiry(&bytes("stays"), NOW.plus_ms(20)));
        assert!(!ks.exists(b"h", NOW.plus_ms(20)).unwrap(), "without a field there is no key");
        assert_eq!(ks.len(), 0);
    }

    #[test]
    fn due_fields_are_reclaimed_in_slices() {
        let mut ks = Keyspace::in_memory();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        for n in 0..1000 {
            hash.set_until(&bytes(&format!("f{n}")), &bytes("v"), NOW.plus_ms(10));
        }
        drop(hash);
        let later = NOW.plus_ms(100);
        ks.reclaim(later, &mut 1).unwrap();
        let left = ks.effects().iter().filter(|e| matches!(e.fact, Fact::HashFieldDeleted(_))).count();
        assert_eq!(left, FIELDS_SLICE);
        ks.reclaim(later, &mut 1000).unwrap();
        assert_eq!(ks.len(), 0);
        ks.check().unwrap();
    }
}

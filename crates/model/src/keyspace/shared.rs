//! A keyspace over rows that others write, too: what a job has looked up, so that its owner can have it compared when it writes.
//!
//! It touches nothing but the keyspace. In split mode commands run in one process on rows that another has: a job runs on what is held, and
//! its changes are written only if every key that it looked up is still as it was. Invariant: a name is noted with the state that its
//! row had before the job, whatever the job has changed since; a row id of a new key is one of those that the owner has reserved.

use std::ops::Range;

use indexmap::IndexMap;
use keystead_core::table::Id;
use keystead_core::{Revision, Version};

use super::{Keyspace, OnDemand};
use crate::Bytes;

/// The state of a row. Another state of the same key has another stamp, also when the key was deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the row.
    pub row: u32,
    /// The version of the key.
    pub version: Version,
    /// The revision of its last change.
    pub revision: Revision,
}

/// The names that were looked up, with the state before the job; none where there was no such key.
pub type LookedUp = IndexMap<Bytes, Option<Stamp>>;

/// What a keyspace over shared rows knows beside its keys.
#[derive(Default)]
pub(super) struct Shared {
    looked_up: LookedUp,
    /// Since a flush, what is looked up says nothing about rows.
    flushed: bool,
    /// The end of the reserved row ids.
    rows_end: u32,
}

impl OnDemand {
    /// Notes what a lookup has found, unless it was looked up before.
    pub(super) fn note(&mut self, name: &[u8], found: Option<(Id, Version, Revision)>) {
        let stamp = found.map(|(id, version, revision)| Stamp { row: self.row(id), version, revision });
        if let Some(shared) = self.shared.as_mut().filter(|shared| !shared.flushed)
            && !shared.looked_up.contains_key(name)
        {
            shared.looked_up.insert(Bytes::from(name), stamp);
        }
    }

    /// All keys were removed.
    pub(super) fn note_flush(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.flushed = true;
        }
    }
}

impl Keyspace {
    /// Notes from now on what is looked up. Without rows it does nothing.
    pub fn share(&mut self) {
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.shared = Some(Box::default());
            // No id may be used before it is reserved.
            on_demand.set_next_row(Some(0));
        }
    }

    /// The names that were looked up since [`begin_attempt`](Keyspace::begin_attempt).
    #[must_use]
    pub fn looked_up(&self) -> Option<&LookedUp> {
        self.on_demand.as_ref()?.shared.as_ref().map(|shared| &shared.looked_up)
    }

    /// Forgets what was looked up, and how many keys there are, which others may have changed.
    pub fn begin_attempt(&mut self) {
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.forget_count();
            if let Some(shared) = &mut on_demand.shared {
                shared.looked_up.clear();
                shared.flushed = false;
            }
        }
    }

    /// The row ids that are reserved and not yet used. The start is beyond the end when new keys have used more.
    #[must_use]
    pub fn reserved_rows(&self) -> Range<u32> {
        match self.on_demand.as_deref() {
            Some(on_demand) => {
                let end = on_demand.shared.as_ref().map_or(0, |shared| shared.rows_end);
                on_demand.next_row().unwrap_or(u32::MAX)..end
            }
            None => 0..0,
        }
    }

    /// Sets the row ids that new keys get.
    pub fn reserve_rows(&mut self, rows: Range<u32>) {
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.set_next_row(Some(rows.start));
            if let Some(shared) = &mut on_demand.shared {
                shared.rows_end = rows.end;
            }
        }
    }

    /// Whether a key is in memory. It is not looked up.
    #[must_use]
    pub fn is_held(&self, name: &[u8]) -> bool {
        self.table.find(name).is_some()
    }

    /// Drops a key from memory, so that its row is read again. Between two jobs, when everything is written.
    pub fn drop_held(&mut self, name: &[u8]) {
        let is_between = self.savepoint.is_none() && self.effects.is_empty();
        let Some(id) = self.table.find(name).filter(|_| self.on_demand.is_some() && is_between) else {
            return;
        };
        let Some((key, entry)) = self.table.remove(id) else { return };
        self.count_removed(&key, &entry.value);
        self.fields.take(id);
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::Millis;

    use super::*;
    use crate::keyspace::Expire;
    use crate::testing::Shared as Rows;

    const NOW: Millis = Millis(1000);

    fn set(ks: &mut Keyspace, name: &[u8], value: &[u8]) {
        ks.set_str(name, Bytes::from(value), Expire::Keep, NOW).unwrap();
    }

    fn committed(ks: &mut Keyspace) {
        ks.write_rows().unwrap();
        ks.release().unwrap();
        ks.take_effects(&mut Vec::new());
    }

    fn stamp(row: u32, version: u64, revision: u64) -> Option<Stamp> {
        Some(Stamp { row, version: Version(version), revision: Revision(revision) })
    }

    #[test]
    fn what_was_looked_up_is_as_it_was_before_the_job() {
        let (rows, mut ks) = Rows::with_keyspace();
        ks.share();
        ks.reserve_rows(5..10);
        ks.savepoint();
        set(&mut ks, b"a", b"1");
        assert_eq!(ks.looked_up().unwrap().get(&b"a"[..]), Some(&None));
        committed(&mut ks);
        assert_eq!(ks.reserved_rows(), 6..10);
        ks.begin_attempt();
        ks.savepoint();
        set(&mut ks, b"a", b"2");
        set(&mut ks, b"a", b"3");
        assert!(!ks.exists(b"absent", NOW).unwrap());
        let looked_up = ks.looked_up().unwrap().clone();
        assert_eq!(looked_up.get(&b"a"[..]), Some(&stamp(5, 1, 1)));
        assert_eq!(looked_up.get(&b"absent"[..]), Some(&None));
        ks.rollback();
        assert_eq!(ks.looked_up(), Some(&looked_up), "a rollback forgets nothing");
        // After a flush, what is absent may have a row.
        ks.begin_attempt();
        ks.savepoint();
        ks.flush();
        set(&mut ks, b"a", b"4");
        assert!(ks.looked_up().unwrap().is_empty());
        committed(&mut ks);
        drop(rows);
    }

    #[test]
    fn what_others_have_written_is_read_after_a_drop() {
        let (rows, mut ks) = Rows::with_keyspace();
        ks.share();
        ks.reserve_rows(0..10);
        ks.savepoint();
        set(&mut ks, b"a", b"1");
        committed(&mut ks);
        let mut other = rows.keyspace();
        set(&mut other, b"a", b"2");
        other.write_rows().unwrap();
        assert!(ks.is_held(b"a"));
        ks.drop_held(b"a");
        ks.restore_revision(other.revision());
        ks.begin_attempt();
        assert_eq!(ks.str(b"a", NOW).unwrap().map(|value| value.to_vec()), Some(b"2".to_vec()));
        assert_eq!(ks.looked_up().unwrap().get(&b"a"[..]), Some(&stamp(0, 2, 2)));
        ks.check().unwrap();
    }

    /// Writers that know nothing of each other must not move the revision back: a row would be younger than all of them.
    #[test]
    fn the_revision_of_shared_rows_grows_with_each_write() {
        let (rows, mut first) = Rows::with_keyspace();
        let mut second = rows.keyspace();
        for ks in [&mut first, &mut second] {
            ks.share();
        }
        first.reserve_rows(0..10);
        second.reserve_rows(10..20);
        for name in [b"a", b"b", b"c"] {
            set(&mut first, name, b"1");
        }
        first.write_rows().unwrap();
        set(&mut second, b"d", b"1");
        second.write_rows().unwrap();
        let mut third = rows.keyspace();
        assert_eq!(third.revision(), Revision(4));
        assert_eq!(third.count_keys().unwrap(), 4);
        for name in [b"a", b"b", b"c", b"d"] {
            assert!(third.exists(name, NOW).unwrap());
        }
    }
}

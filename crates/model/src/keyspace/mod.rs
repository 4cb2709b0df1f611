//! The keyspace of a shard: a table of all keys, their native values, and typed changes that record effects.
//!
//! | To find                                         | open       |
//! |-------------------------------------------------|------------|
//! | lookups: absent, expired, wrong type            | [`read`]   |
//! | scanning keys                                   | `walk`     |
//! | strings, documents, whole values                | `scalar`   |
//! | hashes, lists, sets, sorted sets, streams       | [`edit`]   |
//! | deleting, expiring, renaming, flushing          | `key`      |
//! | steps                                           | `step`     |
//! | recording effects, and their bound per job      | `record`   |
//! | savepoint and rollback                          | `undo`     |
//! | replaying effects                               | `replay`   |
//! | reclaiming what is expired                      | `expiry`   |
//! | evicting values, loading them from the archive  | [`eviction`]  |
//! | reading keys from rows when they are needed     | `on_demand`   |
//! | rows that others write, too                     | `shared`      |
//! | the memory bound, and when it is reached        | `memory`   |
//! | freeing large values later                      | `garbage`  |
//!
//! It touches nothing: time comes with every call, evicted values come from a [`ValueReader`]. Invariants: nothing changes
//! without an effect; every effect has its own revision, and a key's entry has the revision of its last one; an
//! entry is never an empty collection (except for streams); `used_bytes` is the sum over the entries.

pub mod check;
mod deletions;
pub mod edit;
pub mod eviction;
mod expiry;
mod facts;
mod fence;
mod garbage;
mod key;
mod memory;
mod native;
mod on_demand;
pub mod read;
mod record;
mod replay;
mod scalar;
mod shared;
mod step;
mod transfer;
mod undo;
mod walk;

use std::cell::Cell;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keystead_core::table::{Id, Table};
use keystead_core::{Millis, Revision, Version};

use crate::Bytes;
use crate::effect::Effect;
use crate::value::Value;

use deletions::Deletions;
pub use edit::{HashMut, ListMut, SetMut, StreamMut, ZSetMut};
pub use eviction::{NoArchive, ValueReader};
use expiry::FieldClock;
use fence::Fence;
pub use fence::SlotAccess;
use garbage::Bin;
pub use garbage::Garbage;
pub use key::Renamed;
use memory::MemoryBound;
use on_demand::OnDemand;
pub use read::{Meta, Miss};
pub use scalar::Expire;
pub use shared::{LookedUp, Stamp};
pub use step::Held;
use undo::{Savepoint, Undo};

/// Bytes of an entry without the heap bytes of its key and value: its slot in the slab and
/// its share of the index, which is between a half and three quarters full.
const ENTRY_BYTES: usize = size_of::<Entry>() + size_of::<Bytes>() + 8 + 13;

/// Parts of the index. With a million keys, growing a part moves a few thousand entries.
const INDEX_PARTS: usize = 256;

/// Capacity that is kept for effects and before-images. What a larger job needed is freed after it.
const BUFFER_KEPT: usize = 16 * 1024;

/// The data of a key, beside its name and expiry.
struct Entry {
    version: Version,
    revision: Revision,
    value: Value,
}

/// All keys of a shard.
pub struct Keyspace {
    table: Table<Entry>,
    fields: FieldClock,
    archive: Box<dyn ValueReader>,
    revision: Revision,
    archived: Revision,
    used_bytes: usize,
    /// The part of `used_bytes` that no eviction can free: everything but the values.
    entry_bytes: usize,
    memory: MemoryBound,
    garbage: Bin,
    effects: Vec<Effect>,
    deletions: Deletions,
    /// The highest revision that the current job depends on. A cell, because reads update it too.
    seen: Cell<Revision>,
    savepoint: Option<Savepoint>,
    undo: Vec<Undo>,
    /// Keys whose last effect, one of the current job, has an earlier state than the key.
    deferred: HashSet<Id, RandomState>,
    /// How many bytes a job may record.
    change_bytes_max: usize,
    /// Keys that were found expired since the start.
    expired: u64,
    /// The slots that are out of reach, on a node of a cluster.
    fence: Option<Box<Fence>>,
    /// Where the keys are that are not in memory; without it, all are.
    on_demand: Option<Box<OnDemand>>,
}

impl Keyspace {
    /// An empty keyspace whose evicted values are read from `archive`.
    #[must_use]
    pub fn new(archive: Box<dyn ValueReader>) -> Self {
        Keyspace {
            table: Table::new(INDEX_PARTS),
            fields: FieldClock::new(),
            archive,
            revision: Revision::ZERO,
            archived: Revision::ZERO,
            used_bytes: 0,
            entry_bytes: 0,
            memory: MemoryBound::default(),
            garbage: Bin::default(),
            effects: Vec::new(),
            deletions: Deletions::new(),
            seen: Cell::new(Revision::ZERO),
            savepoint: None,
            undo: Vec::new(),
            deferred: HashSet::default(),
            change_bytes_max: usize::MAX,
            expired: 0,
            fence: None,
            on_demand: None,
        }
    }

    /// An empty keyspace that is never archived.
    #[must_use]
    pub fn in_memory() -> Self {
        Keyspace::new(Box::new(NoArchive))
    }

    /// The revision of the last effect.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Keys that have expired since this keyspace was created.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// The revision up to which everything is in the archive. Younger values are never evicted.
    #[must_use]
    pub fn archived(&self) -> Revision {
        self.archived
    }

    /// Sets the revision up to which everything is in the archive.
    pub fn set_archived(&mut self, revision: Revision) {
        self.archived = self.archived.max(revision);
    }

    /// Effects that were recorded and not yet taken.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Swaps the recorded effects with `empty`, whose capacity is reused unless it is far above the usual one.
    ///
    /// Not while a savepoint is open: effects that were taken cannot be rolled back.
    pub fn take_effects(&mut self, empty: &mut Vec<Effect>) {
        debug_assert!(self.savepoint.is_none(), "effects of an open savepoint were taken");
        if let Some(on_demand) = &mut self.on_demand {
            debug_assert!(
                on_demand.has_written(self.effects.len()),
                "effects were taken before they were written"
            );
            on_demand.taken();
        }
        empty.clear();
        empty.shrink_to(BUFFER_KEPT);
        std::mem::swap(&mut self.effects, empty);
    }

    /// The highest revision that anything since the last call has read or made, absent keys included: a result that depends on
    /// it may be sent when that revision is durable.
    ///
    /// Absence is tracked by a small filter of deletions, so a read of an absent key may wait for the deletion of another one.
    pub fn take_seen(&mut self) -> Revision {
        // What was rolled back will never be durable, and no reply has reported it.
        self.seen.replace(Revision::ZERO).min(self.revision)
    }

    fn see(&self, revision: Revision) {
        if revision > self.seen.get() {
            self.seen.set(revision);
        }
    }

    /// Adds a key that does not exist, without a fact.
    fn add(&mut self, key: &[u8], value: Value) -> Id {
        let key = Bytes::from(key);
        self.count_added(&key, &value);
        let id = self.table.insert(key, Entry { version: Version::FIRST, revision: self.revision, value });
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.added(id);
        }
        self.before(|| Undo::Added(id));
        self.watch_fields(id);
        id
    }

    /// Removes a key, without a fact.
    fn remove_entry(&mut self, id: Id) {
        let (hash, expires_at) = match self.table.key(id) {
            Some(key) => (self.table.hash(key), self.table.expires_at(id)),
            None => return,
        };
        let Some((key, entry)) = self.table.remove(id) else {
            return;
        };
        self.count_removed(&key, &entry.value);
        self.deletions.note(hash, self.revision);
        let fields_due = self.fields.take(id);
        if self.savepoint.is_some() {
            let row = self.row_of(id);
            self.undo.push(Undo::removed(id, row, key, entry, expires_at, fields_due));
        } else {
            self.garbage.put_value(entry.value);
        }
    }

    /// Replaces the value at `id`, without a fact. The first one of a job is stored as a before-image.
    fn swap_value(&mut self, id: Id, value: Value) {
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        let added = value.mem_bytes();
        let old = std::mem::replace(&mut entry.value, value);
        self.used_bytes = self.used_bytes + added - old.mem_bytes();
        let fields_due = self.fields.take(id);
        if self.savepoint.is_some() && self.whole_effect(id).is_none() {
            self.undo.push(Undo::Value { id, value: old, fields_due });
        } else {
            self.garbage.put_value(old);
        }
        self.watch_fields(id);
    }

    /// Begins a change of the key at `id` and returns its next version.
    fn next_version(&mut self, id: Id) -> Version {
        let Some(entry) = self.table.get(id) else { return Version::FIRST };
        let (version, revision) = (entry.version, entry.revision);
        if let Some(savepoint) = &self.savepoint
            && !savepoint.is_before(revision)
        {
            self.undo.push(Undo::Stamp { id, version, revision });
        }
        version.next()
    }

    /// Sets when the key at `id` expires, without a fact.
    fn put_expiry(&mut self, id: Id, at: Millis) {
        let before = self.table.expires_at(id);
        self.before(|| Undo::Expiry { id, at: before });
        self.table.set_expires_at(id, at);
    }

    /// Stores a before-image, if a savepoint is open.
    fn before(&mut self, undo: impl FnOnce() -> Undo) {
        if self.savepoint.is_some() {
            self.undo.push(undo());
        }
    }
}

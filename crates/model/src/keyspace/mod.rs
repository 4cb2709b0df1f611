//! The keyspace of a shard: a directory of all keys, their native values, and typed changes that record effects.
//!
//! | To find                                         | open       |
//! |-------------------------------------------------|------------|
//! | looking up: absent, expired, wrong type         | [`read`]   |
//! | walking keys                                    | `walk`     |
//! | strings, documents, whole values                | `scalar`   |
//! | hashes, lists, sets, sorted sets, streams       | [`edit`]   |
//! | deleting, expiring, renaming, flushing          | `key`      |
//! | steps                                           | `step`     |
//! | recording: effects, and how much a job may      | `record`   |
//! | undoing                                         | `undo`     |
//! | effects applied again                           | `replay`   |
//! | reclaiming what is expired                      | `expiry`   |
//! | values that rest in the archive, and evicting   | [`eviction`]  |
//!
//! It touches nothing: time comes with every call, resting values come from a [`ValueReader`]. Invariants: nothing changes
//! without an effect; every effect has its own revision, and a key's entry holds the revision of its last one; an
//! entry is never an empty collection (but for streams); `used_bytes` is the sum over the entries.

pub mod check;
mod deletions;
pub mod edit;
pub mod eviction;
mod expiry;
mod facts;
mod key;
mod native;
pub mod read;
mod record;
mod replay;
mod scalar;
mod step;
mod undo;
mod walk;

use std::cell::Cell;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keystead_core::Millis;
use keystead_core::table::{Id, Table};

use crate::Bytes;
use crate::effect::Effect;
use crate::value::Value;
use crate::value::heap::shared_bytes;

use deletions::Deletions;
pub use edit::{HashMut, ListMut, SetMut, StreamMut, ZSetMut};
pub use eviction::{NoArchive, ValueReader};
use expiry::FieldClock;
pub use key::Renamed;
pub use read::{Meta, Miss};
pub use scalar::Expire;
pub use step::Held;
use undo::{Savepoint, Undo};

/// What an entry of the directory takes without what its key and value hold on the heap: its place in the slab and
/// its share of the index, which is about three quarters full.
const ENTRY_BYTES: usize = size_of::<Entry>() + size_of::<Bytes>() + 16 + 12;

/// Parts of the index. With a million keys a part that grows moves a few thousand places.
const INDEX_PARTS: usize = 256;

/// How many effects and before-images there is always room for. What a larger job needed is given back after it.
const BUFFER_KEPT: usize = 16 * 1024;

/// What the directory knows of a key, beside its name and expiry.
struct Entry {
    version: u64,
    revision: u64,
    value: Value,
}

/// All keys of a shard.
pub struct Keyspace {
    table: Table<Entry>,
    fields: FieldClock,
    archive: Box<dyn ValueReader>,
    revision: u64,
    archived: u64,
    used_bytes: usize,
    effects: Vec<Effect>,
    deletions: Deletions,
    /// The highest revision that the present job has seen. Looking is not changing, hence the cell.
    seen: Cell<u64>,
    savepoint: Option<Savepoint>,
    undo: Vec<Undo>,
    /// Keys whose last effect, one of the present job, tells an earlier state than they have.
    late: HashSet<Id, RandomState>,
    /// How many bytes a job may record.
    change_bytes_max: usize,
    /// Keys that were found expired since the start.
    expired: u64,
}

impl Keyspace {
    /// An empty keyspace whose resting values come from `archive`.
    #[must_use]
    pub fn new(archive: Box<dyn ValueReader>) -> Self {
        Keyspace {
            table: Table::new(INDEX_PARTS),
            fields: FieldClock::new(),
            archive,
            revision: 0,
            archived: 0,
            used_bytes: 0,
            effects: Vec::new(),
            deletions: Deletions::new(),
            seen: Cell::new(0),
            savepoint: None,
            undo: Vec::new(),
            late: HashSet::default(),
            change_bytes_max: usize::MAX,
            expired: 0,
        }
    }

    /// An empty keyspace that is never archived.
    #[must_use]
    pub fn in_memory() -> Self {
        Keyspace::new(Box::new(NoArchive))
    }

    /// The revision of the last effect.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Keys that have gone because their time was up, since this keyspace was made.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Heap bytes of keys, values and the directory, by estimate.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Up to which revision everything is in the archive. What is younger is never evicted.
    #[must_use]
    pub fn archived(&self) -> u64 {
        self.archived
    }

    /// Tells that everything up to `revision` is in the archive.
    pub fn set_archived(&mut self, revision: u64) {
        self.archived = self.archived.max(revision);
    }

    /// Effects that were recorded and not yet taken.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Swaps the recorded effects for `empty`, whose capacity is used again unless it is far more than is usual.
    ///
    /// Not while a savepoint is open: what was handed out cannot be taken back.
    pub fn take_effects(&mut self, empty: &mut Vec<Effect>) {
        debug_assert!(self.savepoint.is_none(), "effects of an open savepoint were taken");
        empty.clear();
        empty.shrink_to(BUFFER_KEPT);
        std::mem::swap(&mut self.effects, empty);
    }

    /// The highest revision that anything since the last call has seen or made, absence included: an answer that rests on
    /// it may leave when that revision is durable.
    ///
    /// Absence is told by a small filter of deletions, so a look at an absent key may wait for a deletion of another one.
    pub fn take_seen(&mut self) -> u64 {
        // What was rolled back will never be durable, and nobody was told.
        self.seen.replace(0).min(self.revision)
    }

    fn see(&self, revision: u64) {
        if revision > self.seen.get() {
            self.seen.set(revision);
        }
    }

    /// Adds a key that is not there, without a fact.
    fn add(&mut self, key: &[u8], value: Value) -> Id {
        let key = Bytes::from(key);
        self.used_bytes += ENTRY_BYTES + shared_bytes(&key) + value.mem_bytes();
        let id = self.table.insert(key, Entry { version: 1, revision: self.revision, value });
        self.before(|| Undo::Added(id));
        self.watch_fields(id);
        id
    }

    /// Takes a key out, without a fact.
    fn take_out(&mut self, id: Id) {
        let (hash, expires_at) = match self.table.key(id) {
            Some(key) => (self.table.hash(key), self.table.expires_at(id)),
            None => return,
        };
        let Some((key, entry)) = self.table.remove(id) else {
            return;
        };
        self.used_bytes -= ENTRY_BYTES + shared_bytes(&key) + entry.value.mem_bytes();
        self.deletions.note(hash, self.revision);
        let fields_due = self.fields.take(id);
        self.before(|| Undo::took_out(id, key, entry, expires_at, fields_due));
    }

    /// Puts another value in place of the one at `id`, without a fact. The first one of a job is kept as a before-image.
    fn swap_value(&mut self, id: Id, value: Value) {
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        let added = value.mem_bytes();
        let old = std::mem::replace(&mut entry.value, value);
        self.used_bytes = self.used_bytes + added - old.mem_bytes();
        let fields_due = self.fields.take(id);
        if self.told_whole(id).is_none() {
            self.before(|| Undo::Value { id, value: old, fields_due });
        }
        self.watch_fields(id);
    }

    /// Begins a change of the key at `id` and answers its next version.
    fn next_version(&mut self, id: Id) -> u64 {
        let Some(entry) = self.table.get(id) else { return 1 };
        let (version, revision) = (entry.version, entry.revision);
        if let Some(savepoint) = &self.savepoint
            && !savepoint.is_before(revision)
        {
            self.undo.push(Undo::Stamp { id, version, revision });
        }
        version + 1
    }

    /// Sets when the key at `id` expires, without a fact.
    fn put_expiry(&mut self, id: Id, at: Millis) {
        let before = self.table.expires_at(id);
        self.before(|| Undo::Expiry { id, at: before });
        self.table.set_expires_at(id, at);
    }

    /// Keeps a before-image, if a savepoint is open.
    fn before(&mut self, undo: impl FnOnce() -> Undo) {
        if self.savepoint.is_some() {
            self.undo.push(undo());
        }
    }
}

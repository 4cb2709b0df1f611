//! Effects that are to be written: the latest of each key and element, then rows in the order of their ids.
//!
//! It writes to the database it is given, inside the caller's transaction. Ids are reused, so deletions are written before anything
//! is inserted.
//!
//! A small batch holds the values it writes, and then the rows match the keyspace at [`Pending::revision`]. The values of a large
//! one do not fit in memory, so [`Pending::drop_values`] leaves only the ids of keys with whole values, a bit each, and
//! [`Pending::write_from`] reads those from the keyspace, where they may have changed since. Invariant: after it commits, every
//! row has everything up to [`Pending::revision`], and some have changes up to [`Pending::newest`]; the journal has all of these,
//! so replaying it from `revision` results in the keyspace at any revision from `newest` on. While `revision` is less than
//! `newest`, whole values are read from the keyspace in any case, so that no row becomes older.

mod ids;
mod row;
mod shared;
mod stream;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_core::{Code, Error, Result, Revision};

use super::executor::{Param, Sql};
use super::schema::{TRIGGERS, write_meta};
use crate::effect::{Effect, Fact};
use crate::keyspace::check::KeyDump;
use crate::value::Kind;

use ids::IdSet;
pub(super) use row::type_name;
use row::{Data, Row, put_dumped};

/// Keys that are requested at a time: reading them takes a shard well below a millisecond. Tests have few keys.
const KEYS_PER_REQUEST: usize = if cfg!(test) { 3 } else { 256 };

const END_KEY: &str = "DELETE FROM keys WHERE id = ?1";

/// Deletes everything. A table without triggers is emptied page by page, so those of `keys` are dropped first and restored after.
const END_ALL: [&str; 15] = [
    "DROP TRIGGER key_gone_hash",
    "DROP TRIGGER key_gone_list",
    "DROP TRIGGER key_gone_set",
    "DROP TRIGGER key_gone_zset",
    "DROP TRIGGER key_gone_stream",
    "DELETE FROM hash_fields",
    "DELETE FROM list_items",
    "DELETE FROM set_members",
    "DELETE FROM zset_members",
    "DELETE FROM streams",
    "DELETE FROM stream_entries",
    "DELETE FROM stream_groups",
    "DELETE FROM stream_consumers",
    "DELETE FROM stream_pending",
    "DELETE FROM keys",
];

/// Keys with whole values, read from a keyspace that goes on changing.
pub trait WholeKeys {
    /// Requests the keys with these ids. Several requests may be under way.
    ///
    /// # Errors
    /// When the keyspace cannot be read.
    fn request(&mut self, ids: Vec<u32>) -> Result<()>;

    /// The result of the oldest request under way, as [`dump_whole`](crate::keyspace::Keyspace::dump_whole).
    ///
    /// # Errors
    /// As [`request`](WholeKeys::request).
    fn receive(&mut self) -> Result<Vec<KeyDump>>;

    /// The revision of the keyspace when the last request was answered. Returns when everything up to it is durable.
    ///
    /// # Errors
    /// When that will never be durable.
    fn durable(&mut self) -> Result<Revision>;
}

/// Effects that are not yet written, coalesced.
pub struct Pending {
    revision: Revision,
    newest: Revision,
    /// All existing rows are deleted first.
    flushed: bool,
    keys: HashMap<u32, PendingKey, RandomState>,
    effects: usize,
    /// Estimated bytes of whole values, and of everything else.
    whole_bytes: usize,
    element_bytes: usize,
    /// Whole values are not held: the keys are in the following sets.
    by_id: bool,
    /// Keys with a whole value.
    whole: IdSet,
    /// Keys whose existing row is deleted first, beside those that say so themselves.
    ended: IdSet,
}

#[derive(Default)]
struct PendingKey {
    /// The existing row with this id is deleted first, with all its data.
    ended: bool,
    row: Option<Row>,
}

impl Pending {
    /// Nothing is pending, everything up to `revision` is written, and no row is younger than `newest`.
    #[must_use]
    pub fn new(revision: Revision, newest: Revision) -> Self {
        Pending {
            revision,
            newest: newest.max(revision),
            flushed: false,
            keys: HashMap::default(),
            effects: 0,
            whole_bytes: 0,
            element_bytes: 0,
            by_id: newest > revision,
            whole: IdSet::default(),
            ended: IdSet::default(),
        }
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.effects == 0
    }

    /// Number of pending effects, before coalescing.
    #[must_use]
    pub fn effects(&self) -> usize {
        self.effects
    }

    /// Number of pending keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len() + self.whole.len() + self.ended.len()
    }

    /// Estimated bytes that it holds: an upper bound, as overwritten values are counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.whole_bytes + self.element_bytes
    }

    /// Whether whole values are not held, so that effects need not carry them.
    #[must_use]
    pub fn is_by_id(&self) -> bool {
        self.by_id
    }

    /// The revision of the last effect that was absorbed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The highest revision that a row may have.
    #[must_use]
    pub fn newest(&self) -> Revision {
        self.newest.max(self.revision)
    }

    /// Adds the next effect. One that is not younger than all before is ignored.
    pub fn absorb(&mut self, effect: &Effect) {
        if effect.revision <= self.revision {
            return;
        }
        self.revision = effect.revision;
        self.effects += 1;
        match &effect.fact {
            Fact::Flushed => self.flush(),
            _ if self.by_id => self.absorb_by_id(effect),
            Fact::Str(_) | Fact::Json(_) | Fact::State(_) => {
                self.whole_bytes += effect.size_hint();
                self.absorb_in_map(effect);
            }
            _ => self.absorb_in_map(effect),
        }
    }

    fn flush(&mut self) {
        self.keys.clear();
        self.whole.clear();
        self.ended.clear();
        (self.whole_bytes, self.element_bytes) = (0, 0);
        self.flushed = true;
    }

    fn absorb_in_map(&mut self, effect: &Effect) {
        if !is_whole(&effect.fact) {
            self.element_bytes += effect.size_hint();
        }
        let key = self.keys.entry(effect.id).or_default();
        key.absorb(effect, self.flushed);
        if self.flushed && key.row.is_none() {
            self.keys.remove(&effect.id);
        }
    }

    fn absorb_by_id(&mut self, effect: &Effect) {
        let id = effect.id;
        match &effect.fact {
            Fact::Deleted => {
                self.whole.remove(id);
                self.keys.remove(&id);
                self.ended.insert(id);
            }
            Fact::Fresh(kind) if is_whole_kind(*kind) => {
                self.keys.remove(&id);
                self.ended.insert(id);
                self.whole.insert(id);
            }
            fact if is_whole(fact) => {
                // Until now only its expiry was pending, or its deletion.
                if self.keys.remove(&id).is_some_and(|key| key.ended) {
                    self.ended.insert(id);
                }
                self.whole.insert(id);
            }
            // Its row comes with its expiry.
            Fact::Expiry(_) if self.whole.contains(id) => {}
            _ => {
                self.whole.remove(id);
                let ended = self.ended.remove(id);
                self.absorb_in_map(effect);
                if let Some(key) = self.keys.get_mut(&id) {
                    key.ended |= ended;
                }
            }
        }
    }

    /// Drops the whole values that it holds, and holds none until it is cleared: [`write_from`](Pending::write_from) reads them.
    pub fn drop_values(&mut self) {
        self.by_id = true;
        self.whole_bytes = 0;
        let (whole, ended, flushed) = (&mut self.whole, &mut self.ended, self.flushed);
        self.keys.retain(|id, key| {
            let is_whole = key.row.as_ref().is_some_and(Row::is_whole);
            if key.row.is_some() && !is_whole {
                return true;
            }
            if is_whole {
                whole.insert(*id);
            }
            if key.ended && !flushed {
                ended.insert(*id);
            }
            false
        });
        self.keys.shrink_to_fit();
    }

    /// Writes what is pending, in the caller's transaction, together with the revision of the rows.
    ///
    /// Nothing is removed until [`clear`](Pending::clear), so that a transaction that failed can be retried.
    ///
    /// # Errors
    /// The error of the database; `corrupt` when the effects do not follow the rows; `internal` when it does not hold the
    /// values.
    pub fn write(&self, sql: &mut dyn Sql) -> Result<()> {
        if self.whole.len() > 0 {
            return Err(Error::new(Code::Internal, "the values that are to be written are not held"));
        }
        self.write_held(sql)?;
        self.write_revisions(sql)
    }

    /// The same, and reads whole values that it does not hold from the keyspace.
    ///
    /// # Errors
    /// As [`write`](Pending::write), and the error of `keyspace`.
    pub fn write_from(&mut self, sql: &mut dyn Sql, keyspace: &mut dyn WholeKeys) -> Result<()> {
        self.write_held(sql)?;
        if self.whole.len() > 0 {
            self.write_whole(sql, keyspace)?;
            self.newest = self.newest.max(keyspace.durable()?);
        }
        self.write_revisions(sql)
    }

    fn write_held(&self, sql: &mut dyn Sql) -> Result<()> {
        let mut ids: Vec<u32> = self.keys.keys().copied().collect();
        ids.sort_unstable();
        let ordered = || ids.iter().filter_map(|id| Some((*id, self.keys.get(id)?)));
        if self.flushed {
            for statement in END_ALL.iter().chain(&TRIGGERS) {
                sql.run(statement, &[])?;
            }
        } else {
            for (id, _) in ordered().filter(|(_, key)| key.ended) {
                sql.run(END_KEY, &[Param::id(id)])?;
            }
            for id in self.ended.iter() {
                sql.run(END_KEY, &[Param::id(id)])?;
            }
        }
        for (id, key) in ordered() {
            if let Some(row) = &key.row {
                row.write(sql, id, key.ended || self.flushed, self.newest)?;
            }
        }
        Ok(())
    }

    fn write_whole(&self, sql: &mut dyn Sql, keyspace: &mut dyn WholeKeys) -> Result<()> {
        let mut ids = self.whole.iter();
        let mut next = || -> Vec<u32> { ids.by_ref().take(KEYS_PER_REQUEST).collect() };
        let mut requested = next();
        keyspace.request(requested.clone())?;
        while !requested.is_empty() {
            // The keyspace is read while rows are written.
            let following = next();
            if !following.is_empty() {
                keyspace.request(following.clone())?;
            }
            let found = keyspace.receive()?;
            let mut keys = found.iter().peekable();
            for id in requested {
                match keys.next_if(|key| key.id == id) {
                    Some(key) => put_dumped(sql, key)?,
                    // Deleted since, or a collection by now: an effect to come says so.
                    None => sql.run(END_KEY, &[Param::id(id)]).map(|_| ())?,
                }
            }
            requested = following;
        }
        Ok(())
    }

    fn write_revisions(&self, sql: &mut dyn Sql) -> Result<()> {
        write_meta(sql, "revision", Param::uint(self.revision.0))?;
        write_meta(sql, "newest", Param::uint(self.newest().0))
    }

    /// Removes what was written.
    pub fn clear(&mut self) {
        *self = Pending::new(self.revision, self.newest());
    }
}

const fn is_whole(fact: &Fact) -> bool {
    matches!(fact, Fact::Str(_) | Fact::Json(_) | Fact::State(_))
}

const fn is_whole_kind(kind: Kind) -> bool {
    matches!(kind, Kind::Str | Kind::Json | Kind::State)
}

impl PendingKey {
    fn absorb(&mut self, effect: &Effect, flushed: bool) {
        if effect.fact == Fact::Deleted {
            *self = PendingKey { ended: true, row: None };
            return;
        }
        let row = self.row.get_or_insert_with(|| Row::new(effect));
        (row.version, row.revision) = (effect.version, effect.revision);
        match &effect.fact {
            Fact::Expiry(at) => row.expires_at = Some(*at),
            Fact::Fresh(kind) => {
                self.ended = true;
                (row.kind, row.expires_at, row.data) = (Some(*kind), None, Data::empty(*kind));
            }
            fact => {
                let fresh = self.ended || flushed;
                row.kind = Some(row.data.absorb(fact, fresh));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Millis, Version};

    use super::*;
    use crate::Bytes;
    use crate::keyspace::{Expire, Keyspace};
    use crate::sql::{audit, migrate};
    use crate::testing::Sqlite;

    const NOW: Millis = Millis(1000);

    fn absorb(pending: &mut Pending, ks: &mut Keyspace) {
        let mut effects = Vec::new();
        ks.take_effects(&mut effects);
        effects.iter().for_each(|effect| pending.absorb(effect));
    }

    fn count(db: &Sqlite, table: &str) -> i64 {
        db.0.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    fn strings(db: &Sqlite) -> i64 {
        db.0.query_row("SELECT count(*) FROM named_strings", [], |row| row.get(0)).unwrap()
    }

    fn string(ks: &mut Keyspace, key: &[u8]) {
        ks.set_str(key, Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
    }

    #[test]
    fn only_the_latest_of_each_key_is_pending() {
        let (mut ks, mut pending) = (Keyspace::in_memory(), Pending::new(Revision::ZERO, Revision::ZERO));
        assert!(pending.is_empty());
        for _ in 0..100 {
            string(&mut ks, b"a");
        }
        absorb(&mut pending, &mut ks);
        assert_eq!((pending.effects(), pending.keys(), pending.revision()), (100, 1, Revision(100)));
        pending.absorb(&Effect {
            id: 9,
            key: Bytes::from(b"old"),
            version: Version(1),
            revision: Revision(50),
            fact: Fact::Deleted,
        });
        assert_eq!(
            (pending.effects(), pending.revision()),
            (100, Revision(100)),
            "older effects are ignored"
        );
    }

    #[test]
    fn a_name_that_moved_to_another_id_is_stored_once() {
        let (mut ks, mut pending, mut db) =
            (Keyspace::in_memory(), Pending::new(Revision::ZERO, Revision::ZERO), Sqlite::in_memory());
        migrate(&mut db).unwrap();
        string(&mut ks, b"a");
        string(&mut ks, b"b");
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        // The two swap ids: each name is new where the other one was.
        ks.delete(b"b", NOW).unwrap();
        ks.delete(b"a", NOW).unwrap();
        string(&mut ks, b"b");
        string(&mut ks, b"a");
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        let names: Vec<u8> = ["0", "1"]
            .map(|id| {
                db.0.query_row(&format!("SELECT name FROM keys WHERE id = {id}"), [], |r| {
                    r.get::<_, Vec<u8>>(0)
                })
                .unwrap()
            })
            .concat();
        assert_eq!(names, b"ba");
    }

    #[test]
    fn deleting_a_key_deletes_its_data_and_a_flush_everything() {
        let (mut ks, mut pending, mut db) =
            (Keyspace::in_memory(), Pending::new(Revision::ZERO, Revision::ZERO), Sqlite::in_memory());
        migrate(&mut db).unwrap();
        string(&mut ks, b"a");
        for key in [b"h", b"i"] {
            ks.hash_mut(key, NOW).unwrap().set(&Bytes::from(b"f"), &Bytes::from(b"v"));
        }
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        ks.delete(b"h", NOW).unwrap();
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        assert_eq!((count(&db, "keys"), count(&db, "hash_fields"), strings(&db)), (2, 1, 1));
        ks.flush();
        ks.hash_mut(b"z", NOW).unwrap().set(&Bytes::from(b"f"), &Bytes::from(b"v"));
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        assert_eq!((count(&db, "keys"), count(&db, "hash_fields"), strings(&db)), (1, 1, 0));
        ks.delete(b"z", NOW).unwrap();
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        assert_eq!(count(&db, "hash_fields"), 0, "the triggers are restored");
        assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_change_of_a_missing_key_is_corrupt() {
        let (mut pending, mut db) = (Pending::new(Revision::ZERO, Revision::ZERO), Sqlite::in_memory());
        migrate(&mut db).unwrap();
        let fact = Fact::Expiry(Millis(5));
        pending.absorb(&Effect {
            id: 3,
            key: Bytes::from(b"a"),
            version: Version(2),
            revision: Revision(1),
            fact,
        });
        let error = pending.write(&mut db).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt);
        assert!(error.message().contains("'a' with id 3"), "{error}");
    }
}

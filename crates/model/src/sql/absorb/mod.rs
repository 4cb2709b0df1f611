//! Effects that are to be written: the latest of each key and element, then rows in the order of their ids.
//!
//! It writes to the database it is given, inside the caller's transaction. Invariant: after [`Pending::write`] commits, the rows
//! match the keyspace at [`Pending::revision`]. Ids are reused, so deletions are written before anything is inserted: a
//! name that has moved to another id is never stored twice.

mod row;
mod stream;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_core::{Result, Revision};

use super::executor::{Param, Sql};
use super::schema::{TRIGGERS, write_meta};
use crate::effect::{Effect, Fact};

pub(super) use row::type_name;
use row::{Data, Row};

const END_KEY: &str = "DELETE FROM keys WHERE id = ?1";

/// Deletes everything. A table without triggers is emptied page by page, so those of `keys` are dropped first and restored after.
const END_ALL: [&str; 21] = [
    "DROP TRIGGER key_gone_string",
    "DROP TRIGGER key_gone_json",
    "DROP TRIGGER key_gone_state",
    "DROP TRIGGER key_gone_hash",
    "DROP TRIGGER key_gone_list",
    "DROP TRIGGER key_gone_set",
    "DROP TRIGGER key_gone_zset",
    "DROP TRIGGER key_gone_stream",
    "DELETE FROM strings",
    "DELETE FROM documents",
    "DELETE FROM states",
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

/// Effects that are not yet written, coalesced.
pub struct Pending {
    revision: Revision,
    /// All existing rows are deleted first.
    flushed: bool,
    keys: HashMap<u32, PendingKey, RandomState>,
    effects: usize,
}

#[derive(Default)]
struct PendingKey {
    /// The existing row with this id is deleted first, with all its data.
    ended: bool,
    row: Option<Row>,
}

impl Pending {
    /// Nothing is pending, and everything up to `revision` is written.
    #[must_use]
    pub fn new(revision: Revision) -> Self {
        Pending { revision, flushed: false, keys: HashMap::default(), effects: 0 }
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
        self.keys.len()
    }

    /// The revision of the last effect that was absorbed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Adds the next effect. One that is not younger than all before is ignored.
    pub fn absorb(&mut self, effect: &Effect) {
        if effect.revision <= self.revision {
            return;
        }
        self.revision = effect.revision;
        self.effects += 1;
        if effect.fact == Fact::Flushed {
            self.keys.clear();
            self.flushed = true;
            return;
        }
        let key = self.keys.entry(effect.id).or_default();
        key.absorb(effect, self.flushed);
        if self.flushed && key.row.is_none() {
            self.keys.remove(&effect.id);
        }
    }

    /// Writes what is pending, in the caller's transaction, together with the revision of the rows.
    ///
    /// Nothing is removed until [`clear`](Pending::clear), so that a transaction that failed can be retried.
    ///
    /// # Errors
    /// The error of the database; `corrupt` when the effects do not follow the rows.
    pub fn write(&self, sql: &mut dyn Sql) -> Result<()> {
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
        }
        for (id, key) in ordered() {
            if let Some(row) = &key.row {
                row.write(sql, id, key.ended || self.flushed)?;
            }
        }
        write_meta(sql, "revision", Param::uint(self.revision.0))
    }

    /// Removes what was written.
    pub fn clear(&mut self) {
        self.flushed = false;
        self.effects = 0;
        self.keys.clear();
    }
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
    use keystead_core::{Code, Millis, Version};

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

    fn string(ks: &mut Keyspace, key: &[u8]) {
        ks.set_str(key, Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
    }

    #[test]
    fn only_the_latest_of_each_key_is_pending() {
        let (mut ks, mut pending) = (Keyspace::in_memory(), Pending::new(Revision::ZERO));
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
            (Keyspace::in_memory(), Pending::new(Revision::ZERO), Sqlite::in_memory());
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
            (Keyspace::in_memory(), Pending::new(Revision::ZERO), Sqlite::in_memory());
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
        assert_eq!((count(&db, "keys"), count(&db, "hash_fields"), count(&db, "strings")), (2, 1, 1));
        ks.flush();
        string(&mut ks, b"z");
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        assert_eq!((count(&db, "keys"), count(&db, "hash_fields"), count(&db, "strings")), (1, 0, 1));
        ks.delete(b"z", NOW).unwrap();
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        assert_eq!(count(&db, "strings"), 0, "the triggers are restored");
        assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_change_of_a_missing_key_is_corrupt() {
        let (mut pending, mut db) = (Pending::new(Revision::ZERO), Sqlite::in_memory());
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

//! Effects that wait to be written: the latest of each key and element, then rows in the order of their ids.
//!
//! It touches the database it is given, inside the caller's transaction. Invariant: after [`Pending::write`] commits, the rows
//! say what the keyspace said at [`Pending::revision`]. Places are reused, so whatever ended goes before anything is put: a
//! name that has moved to another id never stands twice.

mod row;
mod stream;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_core::Result;

use super::executor::{Param, Sql};
use super::schema::{TRIGGERS, write_meta};
use crate::effect::{Effect, Fact};

pub(super) use row::type_name;
use row::{Data, Row};

const END_KEY: &str = "DELETE FROM keys WHERE id = ?1";

/// Everything. A table without triggers is emptied page by page, so those of `keys` go first and come back.
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

/// Effects that are not yet at rest, coalesced.
pub struct Pending {
    revision: u64,
    /// All rows at rest go first.
    flushed: bool,
    keys: HashMap<u32, PendingKey, RandomState>,
    effects: usize,
}

#[derive(Default)]
struct PendingKey {
    /// The row at rest under this id goes first, with all its data.
    ended: bool,
    row: Option<Row>,
}

impl Pending {
    /// Nothing waits, and everything up to `revision` is at rest.
    #[must_use]
    pub fn new(revision: u64) -> Self {
        Pending { revision, flushed: false, keys: HashMap::default(), effects: 0 }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.effects == 0
    }

    /// How many effects wait, before coalescing.
    #[must_use]
    pub fn effects(&self) -> usize {
        self.effects
    }

    /// How many keys wait.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The revision of the last effect that was absorbed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes the next effect. One that is not younger than all before is known already.
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

    /// Writes what waits, in the caller's transaction, together with the revision that it brings the rows to.
    ///
    /// What waits is kept until [`clear`](Pending::clear), so that a transaction that failed can be tried again.
    ///
    /// # Errors
    /// What the database says; `corrupt` when the rows are not what the effects follow.
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
        write_meta(sql, "revision", Param::uint(self.revision))
    }

    /// What waited is at rest.
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
    use keystead_core::{Code, Millis};

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
    fn only_the_latest_of_each_key_waits() {
        let (mut ks, mut pending) = (Keyspace::in_memory(), Pending::new(0));
        assert!(pending.is_empty());
        for _ in 0..100 {
            string(&mut ks, b"a");
        }
        absorb(&mut pending, &mut ks);
        assert_eq!((pending.effects(), pending.keys(), pending.revision()), (100, 1, 100));
        pending.absorb(&Effect {
            id: 9,
            key: Bytes::from(b"old"),
            version: 1,
            revision: 50,
            fact: Fact::Deleted,
        });
        assert_eq!((pending.effects(), pending.revision()), (100, 100), "what is known is known");
    }

    #[test]
    fn a_name_that_moved_to_another_place_does_not_stand_twice() {
        let (mut ks, mut pending, mut db) = (Keyspace::in_memory(), Pending::new(0), Sqlite::in_memory());
        migrate(&mut db).unwrap();
        string(&mut ks, b"a");
        string(&mut ks, b"b");
        absorb(&mut pending, &mut ks);
        pending.write(&mut db).unwrap();
        pending.clear();
        // The two change places: each name is new where the other one was.
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
    fn a_key_takes_its_data_along_and_a_flush_everything() {
        let (mut ks, mut pending, mut db) = (Keyspace::in_memory(), Pending::new(0), Sqlite::in_memory());
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
        assert_eq!(count(&db, "strings"), 0, "the triggers are back");
        assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_change_of_a_key_that_is_not_there_is_corrupt() {
        let (mut pending, mut db) = (Pending::new(0), Sqlite::in_memory());
        migrate(&mut db).unwrap();
        let fact = Fact::Expiry(Millis(5));
        pending.absorb(&Effect { id: 3, key: Bytes::from(b"a"), version: 2, revision: 1, fact });
        let error = pending.write(&mut db).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt);
        assert!(error.message().contains("'a' with id 3"), "{error}");
    }
}

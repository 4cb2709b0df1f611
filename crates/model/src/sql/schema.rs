//! The tables, their views, and the migration of older files.
//!
//! It writes to the database it is given. Invariant: the `meta` table identifies the file and its migrations; a
//! file of another program, or of a newer version, is rejected and not changed.

use keystead_core::{Code, Error, Result, Revision};

use super::executor::{Param, Row, Sql};

/// The `format` in `meta` of our files.
pub const FORMAT: &str = "keystead archive";

/// The last migration that this version knows.
pub const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Tables of other programs; SQLite and Durable Objects have some of their own, and so has `wrangler dev`.
const HAS_TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'
    AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE '!_cf!_%' ESCAPE '!'
    AND name NOT LIKE '!_!_miniflare!_%' ESCAPE '!'";
const HAS_META: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'";
const CREATE_META: &str =
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID";
/// The query that reads a value of `meta` by its name.
pub const READ_META: &str = "SELECT value FROM meta WHERE name = ?1";
const WRITE_META: &str =
    "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const ADVANCE_META: &str = "INSERT INTO meta (name, value) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET value = max(value + 1, excluded.value)";

/// Deleting a key deletes its elements. Triggers know the type and so search one table, where a foreign key would search
/// all of them: measured, six times as many deletions a second.
pub(super) const TRIGGERS: [&str; 5] = [
    "CREATE TRIGGER key_gone_hash AFTER DELETE ON keys WHEN old.type = 'hash'
        BEGIN DELETE FROM hash_fields WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_list AFTER DELETE ON keys WHEN old.type = 'list'
        BEGIN DELETE FROM list_items WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_set AFTER DELETE ON keys WHEN old.type = 'set'
        BEGIN DELETE FROM set_members WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_zset AFTER DELETE ON keys WHEN old.type = 'zset'
        BEGIN DELETE FROM zset_members WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_stream AFTER DELETE ON keys WHEN old.type = 'stream' BEGIN
        DELETE FROM streams WHERE key_id = old.id;
        DELETE FROM stream_entries WHERE key_id = old.id;
        DELETE FROM stream_groups WHERE key_id = old.id;
        DELETE FROM stream_consumers WHERE key_id = old.id;
        DELETE FROM stream_pending WHERE key_id = old.id;
    END",
];

/// Triggers of the tables that [`WHOLE_VALUES_IN_KEYS`] removes.
const WHOLE_VALUE_TRIGGERS: [&str; 3] = [
    "CREATE TRIGGER key_gone_string AFTER DELETE ON keys WHEN old.type = 'string'
        BEGIN DELETE FROM strings WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_json AFTER DELETE ON keys WHEN old.type = 'json'
        BEGIN DELETE FROM documents WHERE key_id = old.id; END",
    "CREATE TRIGGER key_gone_state AFTER DELETE ON keys WHEN old.type = 'state'
        BEGIN DELETE FROM states WHERE key_id = old.id; END",
];

/// Statements of each migration, in order. A released one never changes.
const MIGRATIONS: [&[&[&str]]; 3] =
    [&[&TABLES, &VIEWS], &[&WHOLE_VALUE_TRIGGERS, &TRIGGERS], &[&WHOLE_VALUES_IN_KEYS, &TRIGGERS, &VIEWS_3]];

/// Moves strings, documents and states into the row of their key: one row and one page per change, and one statement. Names
/// have no index any more: it would make every insertion of a key a random write.
const WHOLE_VALUES_IN_KEYS: [&str; 15] = [
    "DROP VIEW named_strings",
    "DROP VIEW named_documents",
    "DROP VIEW named_states",
    "DROP VIEW named_hash_fields",
    "DROP VIEW named_list_items",
    "DROP VIEW named_set_members",
    "DROP VIEW named_zset_members",
    "DROP VIEW named_stream_entries",
    "ALTER TABLE keys RENAME TO old_keys",
    // `value` is the string, document or state; NULL for a collection, whose elements have tables of their own.
    "CREATE TABLE keys (
        id INTEGER PRIMARY KEY,
        name BLOB NOT NULL,
        type TEXT NOT NULL,
        version INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        expires_at INTEGER,
        value BLOB
    ) STRICT",
    "INSERT INTO keys SELECT id, name, type, version, revision, expires_at, CASE type
            WHEN 'string' THEN (SELECT value FROM strings WHERE key_id = id)
            WHEN 'json' THEN (SELECT json FROM documents WHERE key_id = id)
            WHEN 'state' THEN (SELECT json FROM states WHERE key_id = id)
        END FROM old_keys ORDER BY id",
    // Its triggers go with it.
    "DROP TABLE old_keys",
    "DROP TABLE strings",
    "DROP TABLE documents",
    "DROP TABLE states",
];

/// The tables of the first schema.
const TABLES: [&str; 14] = [
    // The keys. `id` is the key's id in memory, so it is small and dense, and reused.
    "CREATE TABLE keys (
        id INTEGER PRIMARY KEY,
        name BLOB NOT NULL UNIQUE,
        type TEXT NOT NULL,
        version INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        expires_at INTEGER
    ) STRICT",
    "CREATE TABLE strings (
        key_id INTEGER PRIMARY KEY,
        value BLOB NOT NULL
    ) STRICT",
    "CREATE TABLE documents (
        key_id INTEGER PRIMARY KEY,
        json BLOB NOT NULL
    ) STRICT",
    "CREATE TABLE states (
        key_id INTEGER PRIMARY KEY,
        json BLOB NOT NULL
    ) STRICT",
    "CREATE TABLE hash_fields (
        key_id INTEGER NOT NULL,
        field BLOB NOT NULL,
        value BLOB NOT NULL,
        expires_at INTEGER,
        PRIMARY KEY (key_id, field)
    ) STRICT, WITHOUT ROWID",
    "CREATE INDEX hash_fields_expiry ON hash_fields (key_id, expires_at) WHERE expires_at IS NOT NULL",
    "CREATE TABLE list_items (
        key_id INTEGER NOT NULL,
        position INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (key_id, position)
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE set_members (
        key_id INTEGER NOT NULL,
        member BLOB NOT NULL,
        PRIMARY KEY (key_id, member)
    ) STRICT, WITHOUT ROWID",
    // ANY and not REAL: a REAL column would lose the sign of -0.
    "CREATE TABLE zset_members (
        key_id INTEGER NOT NULL,
        member BLOB NOT NULL,
        score ANY NOT NULL,
        PRIMARY KEY (key_id, member)
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE streams (
        key_id INTEGER PRIMARY KEY,
        last_ms INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        max_deleted_ms INTEGER NOT NULL,
        max_deleted_seq INTEGER NOT NULL,
        entries_added INTEGER NOT NULL
    ) STRICT",
    // An entry is the rows of its fields, `n` their order.
    "CREATE TABLE stream_entries (
        key_id INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        n INTEGER NOT NULL,
        field BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (key_id, ms, seq, n)
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE stream_groups (
        key_id INTEGER NOT NULL,
        name BLOB NOT NULL,
        last_ms INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        entries_read INTEGER,
        PRIMARY KEY (key_id, name)
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE stream_consumers (
        key_id INTEGER NOT NULL,
        group_name BLOB NOT NULL,
        name BLOB NOT NULL,
        seen_at INTEGER NOT NULL,
        active_at INTEGER,
        PRIMARY KEY (key_id, group_name, name)
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE stream_pending (
        key_id INTEGER NOT NULL,
        group_name BLOB NOT NULL,
        ms INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        consumer BLOB NOT NULL,
        delivered_at INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        PRIMARY KEY (key_id, group_name, ms, seq)
    ) STRICT, WITHOUT ROWID",
];

/// The views of the first schema.
const VIEWS: [&str; 8] = [
    "CREATE VIEW named_strings AS SELECT name AS key, value FROM strings JOIN keys ON id = key_id",
    "CREATE VIEW named_documents AS SELECT name AS key, CAST(json AS TEXT) AS json FROM documents JOIN keys ON id = key_id",
    "CREATE VIEW named_states AS SELECT name AS key, CAST(json AS TEXT) AS json FROM states JOIN keys ON id = key_id",
    "CREATE VIEW named_hash_fields AS
        SELECT name AS key, field, value, hash_fields.expires_at FROM hash_fields JOIN keys ON id = key_id",
    "CREATE VIEW named_list_items AS SELECT name AS key, position, value FROM list_items JOIN keys ON id = key_id",
    "CREATE VIEW named_set_members AS SELECT name AS key, member FROM set_members JOIN keys ON id = key_id",
    "CREATE VIEW named_zset_members AS SELECT name AS key, member, score FROM zset_members JOIN keys ON id = key_id",
    "CREATE VIEW named_stream_entries AS
        SELECT name AS key, ms || '-' || seq AS entry, n, field, value FROM stream_entries JOIN keys ON id = key_id",
];

/// The views since [`WHOLE_VALUES_IN_KEYS`].
const VIEWS_3: [&str; 8] = [
    "CREATE VIEW named_strings AS SELECT name AS key, value FROM keys WHERE type = 'string'",
    "CREATE VIEW named_documents AS SELECT name AS key, CAST(value AS TEXT) AS json FROM keys WHERE type = 'json'",
    "CREATE VIEW named_states AS SELECT name AS key, CAST(value AS TEXT) AS json FROM keys WHERE type = 'state'",
    "CREATE VIEW named_hash_fields AS SELECT keys.name AS key, f.field, f.value, f.expires_at
        FROM hash_fields f JOIN keys ON keys.id = f.key_id",
    "CREATE VIEW named_list_items AS SELECT keys.name AS key, i.position, i.value
        FROM list_items i JOIN keys ON keys.id = i.key_id",
    "CREATE VIEW named_set_members AS SELECT keys.name AS key, m.member
        FROM set_members m JOIN keys ON keys.id = m.key_id",
    "CREATE VIEW named_zset_members AS SELECT keys.name AS key, m.member, m.score
        FROM zset_members m JOIN keys ON keys.id = m.key_id",
    "CREATE VIEW named_stream_entries AS SELECT keys.name AS key, e.ms || '-' || e.seq AS entry, e.n, e.field, e.value
        FROM stream_entries e JOIN keys ON keys.id = e.key_id",
];

/// Migrates a database to the current schema, in the caller's transaction. An empty one gets all tables.
///
/// # Errors
/// As [`stored`], and the error of the database.
pub fn migrate(sql: &mut dyn Sql) -> Result<()> {
    let done = stored(sql)?;
    if done.is_none() {
        sql.run(CREATE_META, &[])?;
        write_meta(sql, "format", Param::Text(FORMAT))?;
    }
    for statements in MIGRATIONS.iter().skip(usize::try_from(done.unwrap_or(0)).unwrap_or(0)) {
        for statement in statements.iter().copied().flatten() {
            sql.run(statement, &[])?;
        }
    }
    write_meta(sql, "schema", Param::Int(SCHEMA))
}

/// The statements that create an empty database of an earlier schema, without the rows of `meta`: for tests of migrations.
#[must_use]
pub fn statements_up_to(schema: usize) -> Vec<&'static str> {
    let statements = MIGRATIONS[..schema].iter().copied().flatten().copied().flatten().copied();
    std::iter::once(CREATE_META).chain(statements).collect()
}

/// The schema of a database; `None` when it is empty. Changes nothing.
///
/// # Errors
/// `corrupt` when the file is of another program, `unsupported` when it is of a newer Keystead; the error of the database.
pub fn stored(sql: &mut dyn Sql) -> Result<Option<i64>> {
    if count(sql, HAS_META)? == 0 {
        return if count(sql, HAS_TABLES)? == 0 { Ok(None) } else { Err(foreign()) };
    }
    let mut format = String::new();
    sql.query(READ_META, &[Param::Text("format")], &mut |cells| {
        format = String::from_utf8_lossy(Row(cells).bytes(0)?).into_owned();
        Ok(())
    })?;
    if format != FORMAT {
        return Err(foreign());
    }
    let done = read_meta_int(sql, "schema")?.unwrap_or(0);
    if done > SCHEMA {
        return Err(Error::new(
            Code::Unsupported,
            format!(
                "the archive has schema {done}, and this Keystead knows up to {SCHEMA}: use a newer Keystead"
            ),
        ));
    }
    Ok(Some(done))
}

fn count(sql: &mut dyn Sql, query: &'static str) -> Result<i64> {
    let mut count = 0;
    sql.query(query, &[], &mut |cells| {
        count = Row(cells).int(0)?;
        Ok(())
    })?;
    Ok(count)
}

pub(super) fn read_meta_int(sql: &mut dyn Sql, name: &str) -> Result<Option<i64>> {
    let mut value = None;
    sql.query(READ_META, &[Param::Text(name)], &mut |cells| {
        value = Some(Row(cells).int(0)?);
        Ok(())
    })?;
    Ok(value)
}

pub(super) fn write_meta(sql: &mut dyn Sql, name: &str, value: Param<'_>) -> Result<()> {
    sql.run(WRITE_META, &[Param::Text(name), value]).map(|_| ())
}

/// Moves a revision forward, to this one or by one.
pub(super) fn advance_meta(sql: &mut dyn Sql, name: &str, revision: Revision) -> Result<()> {
    sql.run(ADVANCE_META, &[Param::Text(name), Param::uint(revision.0)]).map(|_| ())
}

fn foreign() -> Error {
    Error::new(Code::Corrupt, "the file is a database, but not a Keystead archive")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use keystead_core::{Millis, Version};

    use super::*;
    use crate::Bytes;
    use crate::keyspace::Keyspace;
    use crate::keyspace::check::KeyDump;
    use crate::sql::{audit, load};
    use crate::testing::{SharedReader, Sqlite};
    use crate::value::{StateCell, Value};

    #[test]
    fn an_empty_database_gets_all_tables_and_a_current_one_stays() {
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        migrate(&mut db).unwrap();
        assert_eq!(read_meta_int(&mut db, "schema").unwrap(), Some(SCHEMA));
        let keys: i64 = db.0.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap();
        assert_eq!(keys, 0);
    }

    #[test]
    fn tables_of_the_platform_are_no_tables_of_another_program() {
        let mut db = Sqlite::in_memory();
        db.0.execute_batch("CREATE TABLE _cf_KV (key); CREATE TABLE __miniflare_do_name (id)").unwrap();
        migrate(&mut db).unwrap();
        assert_eq!(stored(&mut db).unwrap(), Some(SCHEMA));
    }

    /// A database of the first or second schema, with a key of each type.
    fn of_schema(schema: usize) -> Sqlite {
        let mut db = Sqlite::in_memory();
        for statement in statements_up_to(schema) {
            db.run(statement, &[]).unwrap();
        }
        db.0.execute_batch(
            "INSERT INTO meta VALUES ('format', 'keystead archive'), ('schema', 2), ('revision', 8);
            INSERT INTO keys VALUES (0, x'61', 'string', 3, 1, 5000), (1, x'62', 'json', 1, 2, NULL),
                (2, x'63', 'state', 1, 3, NULL), (3, x'64', 'hash', 1, 4, NULL), (4, x'65', 'list', 1, 5, NULL),
                (5, x'66', 'set', 1, 6, NULL), (6, x'67', 'zset', 1, 7, NULL), (9, x'68', 'stream', 1, 8, NULL);
            INSERT INTO strings VALUES (0, x'00ff');
            INSERT INTO documents VALUES (1, CAST('{\"a\":1}' AS BLOB));
            INSERT INTO states VALUES (2, CAST('7' AS BLOB));
            INSERT INTO hash_fields VALUES (3, x'66', x'76', 9000);
            INSERT INTO list_items VALUES (4, -5, x'76');
            INSERT INTO set_members VALUES (5, x'6d');
            INSERT INTO zset_members VALUES (6, x'6d', -0.0);
            INSERT INTO streams VALUES (9, 1, 1, 0, 0, 1);
            INSERT INTO stream_entries VALUES (9, 1, 1, 0, x'66', x'76');",
        )
        .unwrap();
        write_meta(&mut db, "schema", Param::Int(schema as i64)).unwrap();
        db
    }

    fn dump(db: Sqlite) -> Vec<KeyDump> {
        let db = Arc::new(Mutex::new(db));
        let mut keyspace = Keyspace::new(Box::new(SharedReader(Arc::clone(&db))));
        load(&mut *db.lock().unwrap(), &mut keyspace).unwrap();
        keyspace.dump().unwrap()
    }

    #[test]
    fn whole_values_move_into_the_row_of_their_key() {
        for schema in [1, 2] {
            let mut db = of_schema(schema);
            migrate(&mut db).unwrap();
            assert_eq!(stored(&mut db).unwrap(), Some(SCHEMA));
            assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
            let dumped = dump(db);
            let names: Vec<&[u8]> = dumped.iter().map(|key| key.key.as_slice()).collect();
            assert_eq!(names, [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]);
            assert_eq!(dumped[0].value, Value::Str(Bytes::from(&[0, 255][..]).into()));
            assert_eq!((dumped[0].version, dumped[0].expires_at), (Version(3), Millis(5000)));
            assert_eq!(dumped[1].value, Value::Json(Bytes::from(b"{\"a\":1}")));
            assert_eq!(dumped[2].value, Value::State(StateCell::Text("7".into())));
            assert_eq!(dumped[7].id, 9);
        }
    }

    #[test]
    fn a_migrated_database_has_the_tables_views_and_triggers_of_a_new_one() {
        let names = |mut db: Sqlite| {
            migrate(&mut db).unwrap();
            let mut names = Vec::new();
            let query = "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name";
            db.query(query, &[], &mut |cells| {
                let row = Row(cells);
                names.push([row.bytes(0)?.to_vec(), row.bytes(1)?.to_vec()]);
                Ok(())
            })
            .unwrap();
            names
        };
        let new = names(Sqlite::in_memory());
        assert!(new.len() > 20, "{new:?}");
        assert_eq!(names(of_schema(1)), new);
        assert_eq!(names(of_schema(2)), new);
    }

    #[test]
    fn a_migration_that_is_cut_short_leaves_the_old_schema() {
        let statements: Vec<&str> = MIGRATIONS[2].iter().copied().flatten().copied().collect();
        for done in 0..=statements.len() {
            let mut db = of_schema(2);
            db.0.execute_batch("BEGIN").unwrap();
            for statement in &statements[..done] {
                db.run(statement, &[]).unwrap();
            }
            db.0.execute_batch("ROLLBACK").unwrap();
            assert_eq!(stored(&mut db).unwrap(), Some(2));
            migrate(&mut db).unwrap();
            assert_eq!(dump(db).len(), 8, "after {done} statements");
        }
    }

    #[test]
    fn every_view_can_be_queried() {
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        let mut names = Vec::new();
        db.query("SELECT name FROM sqlite_schema WHERE type = 'view'", &[], &mut |cells| {
            names.push(String::from_utf8(Row(cells).bytes(0)?.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!(names.len(), 8);
        for name in names {
            db.0.execute_batch(&format!("SELECT * FROM {name}")).unwrap();
        }
    }

    #[test]
    fn foreign_and_newer_files_are_rejected() {
        let mut foreign = Sqlite::in_memory();
        foreign.0.execute_batch("CREATE TABLE users (id)").unwrap();
        let error = migrate(&mut foreign).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt);
        assert!(error.message().contains("not a Keystead archive"), "{error}");

        let mut other = Sqlite::in_memory();
        other
            .0
            .execute_batch("CREATE TABLE meta (name, value); INSERT INTO meta VALUES ('format', 'x')")
            .unwrap();
        assert_eq!(migrate(&mut other).unwrap_err().code(), Code::Corrupt);

        let mut newer = Sqlite::in_memory();
        migrate(&mut newer).unwrap();
        write_meta(&mut newer, "schema", Param::Int(SCHEMA + 1)).unwrap();
        let error = migrate(&mut newer).unwrap_err();
        assert!(error.message().contains("use a newer Keystead"), "{error}");
    }
}

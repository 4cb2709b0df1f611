//! The peer of the engine: the same operations on hand-written SQLite tables, one commit a batch.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::engine::{Op, name_for, value};
use crate::latency::Latencies;
use crate::report::Random;

pub(crate) struct Raw {
    connection: Connection,
    _dir: tempfile::TempDir,
}

impl Raw {
    /// A database in WAL mode with this `synchronous`, and `keys` strings.
    pub(crate) fn filled(synchronous: &str, keys: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("raw.sqlite")).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", "off").unwrap();
        connection
            .execute_batch(
                "CREATE TABLE strings (name BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
                 CREATE TABLE hashes (name BLOB, field BLOB, value BLOB, PRIMARY KEY (name, field)) WITHOUT ROWID;
                 CREATE TABLE lists (id INTEGER PRIMARY KEY, name BLOB, value BLOB);
                 CREATE INDEX lists_by_name ON lists (name, id);",
            )
            .unwrap();
        connection.execute_batch("BEGIN").unwrap();
        for n in 0..keys {
            put(&connection, Op::Set, n, 0);
        }
        connection.execute_batch("COMMIT").unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        connection.pragma_update(None, "synchronous", synchronous).unwrap();
        Raw { connection, _dir: dir }
    }

    pub(crate) fn drive(&self, op: Op, keys: usize, batch: usize, length: Duration) -> Latencies {
        let mut random = Random(1);
        let mut latencies = Vec::new();
        let started = Instant::now();
        while started.elapsed() < length {
            let asked = Instant::now();
            self.connection.execute_batch("BEGIN").unwrap();
            for _ in 0..batch {
                put(&self.connection, op, random.below(keys), random.0);
            }
            self.connection.execute_batch("COMMIT").unwrap();
            latencies.push(asked.elapsed().as_nanos() as u32);
        }
        Latencies::of_batches(latencies, batch, started.elapsed())
    }

    /// How many keys an archive has, and how long SQLite takes to read their rows.
    pub(crate) fn count_rows(path: &Path) -> (usize, Duration) {
        let connection = Connection::open(path).unwrap();
        let started = Instant::now();
        let mut statement = connection
            .prepare("SELECT id, name, type, version, revision, expires_at FROM keys ORDER BY id")
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut count = 0;
        while let Some(row) = rows.next().unwrap() {
            assert!(!row.get_ref(1).unwrap().as_blob().unwrap().is_empty());
            count += 1;
        }
        (count, started.elapsed())
    }
}

fn put(connection: &Connection, op: Op, n: usize, salt: u64) {
    let value = value(salt);
    let name = name_for(op, n);
    let sql = match op {
        Op::Get => {
            let mut get =
                connection.prepare_cached("SELECT length(value) FROM strings WHERE name = ?1").unwrap();
            assert_eq!(get.query_row(params![name], |row| row.get::<_, i64>(0)).unwrap(), 24);
            return;
        }
        Op::Set => "INSERT OR REPLACE INTO strings VALUES (?1, ?3)",
        Op::HashSet => "INSERT OR REPLACE INTO hashes VALUES (?1, ?2, ?3)",
        Op::ListPush => "INSERT INTO lists (name, value) VALUES (?1, ?3)",
    };
    let mut statement = connection.prepare_cached(sql).unwrap();
    statement.raw_bind_parameter(1, name).unwrap();
    if op == Op::HashSet {
        statement.raw_bind_parameter(2, [b'f', b':', b'0' + (n % 10) as u8]).unwrap();
    }
    statement.raw_bind_parameter(3, value).unwrap();
    statement.raw_execute().unwrap();
}

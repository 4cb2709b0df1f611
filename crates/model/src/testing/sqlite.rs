//! The executor over an SQLite database in memory, and the archive over it. For tests.

#[cfg(test)]
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Code, Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::keyspace::Keyspace;
#[cfg(test)]
use crate::keyspace::ValueReader;
#[cfg(test)]
use crate::sql::fetch;
use crate::sql::{Cell, Param, Sql, migrate_on_demand};
#[cfg(test)]
use crate::value::{Kind, Value};

/// A database.
pub struct Sqlite(pub(crate) Connection);

impl Sqlite {
    /// An empty one in memory.
    ///
    /// # Panics
    /// When there is no memory.
    #[must_use]
    #[allow(clippy::unwrap_used, reason = "a test fails")]
    pub fn in_memory() -> Self {
        Sqlite::over(Connection::open_in_memory().unwrap())
    }

    fn over(connection: Connection) -> Self {
        connection.set_prepared_statement_cache_capacity(128);
        Sqlite(connection)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Param::Null => ValueRef::Null,
            Param::Int(n) => ValueRef::Integer(n),
            Param::Real(n) => ValueRef::Real(n),
            Param::Text(text) => ValueRef::Text(text.as_bytes()),
            Param::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn failed(e: rusqlite::Error) -> Error {
    Error::new(Code::StoreUnavailable, "the archive rejected a statement").with_source(e)
}

impl Sql for Sqlite {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        let mut statement = self.0.prepare_cached(sql).map_err(|e| failed(e).context(sql))?;
        let changed =
            statement.execute(rusqlite::params_from_iter(params)).map_err(|e| failed(e).context(sql))?;
        Ok(changed as u64)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.0.prepare_cached(sql).map_err(|e| failed(e).context(sql))?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(failed)?;
        while let Some(found) = rows.next().map_err(failed)? {
            let mut cells = [Cell::Null; 8];
            for (column, cell) in cells.iter_mut().enumerate().take(columns) {
                *cell = match found.get_ref(column).map_err(failed)? {
                    ValueRef::Null => Cell::Null,
                    ValueRef::Integer(n) => Cell::Int(n),
                    ValueRef::Real(n) => Cell::Real(n),
                    ValueRef::Text(text) => Cell::Text(std::str::from_utf8(text).unwrap_or_default()),
                    ValueRef::Blob(bytes) => Cell::Blob(bytes),
                };
            }
            row(&cells[..columns])?;
        }
        Ok(())
    }
}

/// A database that a keyspace reads on demand and the test can ask, too. It counts what it returns.
#[derive(Clone)]
pub struct Shared {
    database: Arc<Mutex<Sqlite>>,
    rows_read: Arc<AtomicU64>,
}

impl Shared {
    /// An empty one, with a keyspace over it.
    ///
    /// # Panics
    /// When the schema cannot be created.
    #[must_use]
    #[allow(clippy::unwrap_used, reason = "a test fails")]
    pub fn with_keyspace() -> (Shared, Keyspace) {
        let shared =
            Shared { database: Arc::new(Mutex::new(Sqlite::in_memory())), rows_read: Arc::default() };
        let keyspace = shared.keyspace();
        (shared, keyspace)
    }

    /// A keyspace over it, as after a restart.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    #[allow(clippy::unwrap_used, reason = "a test fails")]
    pub fn keyspace(&self) -> Keyspace {
        migrate_on_demand(&mut self.clone()).unwrap();
        Keyspace::on_demand(Box::new(self.clone())).unwrap()
    }

    /// The rows that queries have returned.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Runs statements without parameters, as `SAVEPOINT`.
    ///
    /// # Panics
    /// When one fails.
    #[allow(clippy::unwrap_used, reason = "a test fails")]
    pub fn batch(&self, statements: &str) {
        self.lock().0.execute_batch(statements).unwrap();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sqlite> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sql for Shared {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.lock().run(sql, params)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        self.lock().query(sql, params, &mut |cells| {
            self.rows_read.fetch_add(1, Ordering::Relaxed);
            row(cells)
        })
    }
}

/// A reader of a database that the test also writes.
#[cfg(test)]
pub(crate) struct SharedReader(pub(crate) Arc<Mutex<Sqlite>>);

#[cfg(test)]
impl ValueReader for SharedReader {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        fetch(&mut *self.0.lock().unwrap(), id, kind)
    }
}

#[cfg(test)]
/// A database in a file: a reader sees what was committed while another connection writes.
pub(crate) struct Files(PathBuf);

#[cfg(test)]
impl Files {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("keystead-{}-{}.sqlite", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = Path::new("/dev/shm");
        Files(if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }.join(name))
    }

    pub(crate) fn open(&self) -> Sqlite {
        let connection = Connection::open(&self.0).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; PRAGMA synchronous = off").unwrap();
        Sqlite::over(connection)
    }

    /// An empty keyspace that reads evicted values from here.
    pub(crate) fn keyspace(&self) -> Keyspace {
        Keyspace::new(Box::new(SharedReader(Arc::new(Mutex::new(self.open())))))
    }
}

#[cfg(test)]
impl Drop for Files {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

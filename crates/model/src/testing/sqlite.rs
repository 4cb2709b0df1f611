//! The executor over an SQLite database in memory, and the archive over it. For tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keystead_core::{Code, Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::keyspace::{Keyspace, ValueReader};
use crate::sql::{Cell, Param, Sql, fetch};
use crate::value::{Kind, Value};

pub(crate) struct Sqlite(pub(crate) Connection);

impl Sqlite {
    pub(crate) fn in_memory() -> Self {
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
                    ValueRef::Text(text) => Cell::Text(std::str::from_utf8(text).unwrap()),
                    ValueRef::Blob(bytes) => Cell::Blob(bytes),
                };
            }
            row(&cells[..columns])?;
        }
        Ok(())
    }
}

/// A reader of a database that the test also writes.
pub(crate) struct SharedReader(pub(crate) Arc<Mutex<Sqlite>>);

impl ValueReader for SharedReader {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        fetch(&mut *self.0.lock().unwrap(), id, kind)
    }
}

/// A database in a file: a reader sees what was committed while another connection writes.
pub(crate) struct Files(PathBuf);

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

impl Drop for Files {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

//! SQLite through rusqlite, as the model's executor.

use std::path::{Path, PathBuf};

use keystead_core::{Code, Error, Result};
use keystead_model::sql::{Cell, Param, Sql};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags, ToSql, params_from_iter};

use crate::bounds::WAL_FILE_BYTES;
use crate::directory::cannot;
use crate::private;

/// Size of the prepared statement cache: all statements of the model fit.
const STATEMENTS: usize = 64;

/// How a database file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write; created if it does not exist.
    Write,
    /// Read and write; it must exist.
    Existing,
    /// Read only.
    Read,
}

/// How much of a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) free: u64,
    pub(crate) all: u64,
}

/// One connection to a shard's archive.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self> {
        let flags = match access {
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Existing => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        if access != Access::Write && !path.is_file() {
            return Err(Error::new(
                Code::Corrupt,
                format!("{} is missing: restore it from a backup", path.display()),
            ));
        }
        if access == Access::Write {
            private::create_file(path).map_err(|e| cannot("create", path, &e))?;
        }
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "busy_timeout", 10_000)?;
            // The archiver checkpoints when it is closed in time. Otherwise this would take as long as it likes.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            if access != Access::Read {
                // Only has an effect before the first table exists. Other files get it with their first vacuum.
                connection.pragma_update(None, "auto_vacuum", "incremental")?;
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "normal")?;
                // Checkpoints are run by the archiver: it must know when one is complete.
                connection.pragma_update(None, "wal_autocheckpoint", 0)?;
                connection.pragma_update(None, "journal_size_limit", WAL_FILE_BYTES as i64)?;
                connection.pragma_update(None, "cache_size", -32_768)?;
            }
            Ok(connection)
        };
        let connection = open().map_err(|e| failed(path, &e))?;
        Ok(Database { connection, path: path.to_path_buf() })
    }

    /// Makes the statement that is running fail, from another thread.
    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        self.connection.get_interrupt_handle()
    }

    /// Runs `write` in one transaction.
    pub(crate) fn transaction<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|e| failed(&self.path, &e))?;
        let outcome = write(self).and_then(|value| {
            self.connection.execute_batch("COMMIT").map_err(|e| failed(&self.path, &e))?;
            Ok(value)
        });
        if outcome.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        outcome
    }

    /// Runs a checkpoint and returns whether it was complete.
    pub(crate) fn checkpoint(&mut self, truncate: bool) -> Result<bool> {
        let sql = if truncate { "PRAGMA wal_checkpoint(TRUNCATE)" } else { "PRAGMA wal_checkpoint(PASSIVE)" };
        let row = self.connection.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        let (busy, frames, moved) = row.map_err(|e| failed(&self.path, &e))?;
        Ok(busy == 0 && frames == moved)
    }

    /// Free pages of the file, and all pages.
    pub(crate) fn pages(&mut self) -> Result<Pages> {
        let number = |pragma: &str| {
            let read = self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            read.map(i64::unsigned_abs).map_err(|e| failed(&self.path, &e))
        };
        Ok(Pages { free: number("freelist_count")?, all: number("page_count")? })
    }

    /// Removes up to `pages` free pages from the file, which becomes shorter with the next checkpoint.
    pub(crate) fn vacuum(&mut self, pages: u64) -> Result<()> {
        let run = |connection: &Connection| -> rusqlite::Result<()> {
            let is_incremental =
                connection.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0))? == 2;
            if !is_incremental {
                // Once, for a file of an earlier version.
                return connection.execute_batch("VACUUM");
            }
            let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        };
        run(&self.connection).map_err(|e| failed(&self.path, &e))
    }

    /// SQLite's own integrity check of the file.
    pub(crate) fn integrity(&mut self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for pragma in ["PRAGMA integrity_check(20)", "PRAGMA foreign_key_check"] {
            let mut statement = self.connection.prepare(pragma).map_err(|e| failed(&self.path, &e))?;
            let mut rows = statement.query([]).map_err(|e| failed(&self.path, &e))?;
            while let Some(row) = rows.next().map_err(|e| failed(&self.path, &e))? {
                let text: String =
                    row.get_ref(0).ok().and_then(|cell| cell.as_str().ok()).unwrap_or("?").into();
                if text != "ok" {
                    problems.push(format!("{pragma}: {text}"));
                }
            }
        }
        Ok(problems)
    }

    /// Writes a compact copy of what is committed to a new file.
    pub(crate) fn copy_to(&mut self, path: &Path) -> Result<()> {
        // `VACUUM INTO` accepts an existing file if it is empty.
        private::create_file(path).map_err(|e| cannot("create", path, &e))?;
        let target = path.to_string_lossy();
        self.connection.execute("VACUUM INTO ?1", [&*target]).map_err(|e| failed(path, &e))?;
        Ok(())
    }
}

impl Sql for Database {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|e| failed(&self.path, &e))?;
        let changed = statement.execute(params_from_iter(params.iter().map(Bound)));
        Ok(changed.map_err(|e| failed(&self.path, &e))? as u64)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|e| failed(&self.path, &e))?;
        let columns = statement.column_count();
        let mut rows = statement
            .query(params_from_iter(params.iter().map(Bound)))
            .map_err(|e| failed(&self.path, &e))?;
        while let Some(found) = rows.next().map_err(|e| failed(&self.path, &e))? {
            let mut cells = [Cell::Null; 8];
            for (column, cell) in cells.iter_mut().enumerate().take(columns) {
                *cell = match found.get_ref(column).map_err(|e| failed(&self.path, &e))? {
                    ValueRef::Null => Cell::Null,
                    ValueRef::Integer(n) => Cell::Int(n),
                    ValueRef::Real(n) => Cell::Real(n),
                    ValueRef::Text(text) => match std::str::from_utf8(text) {
                        Ok(text) => Cell::Text(text),
                        Err(_) => Cell::Blob(text),
                    },
                    ValueRef::Blob(bytes) => Cell::Blob(bytes),
                };
            }
            row(&cells[..columns.min(cells.len())])?;
        }
        Ok(())
    }
}

struct Bound<'a>(&'a Param<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Param::Null => ValueRef::Null,
            Param::Int(n) => ValueRef::Integer(*n),
            Param::Real(n) => ValueRef::Real(*n),
            Param::Text(text) => ValueRef::Text(text.as_bytes()),
            Param::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Converts SQLite's error. SQLite has rolled back what it wrote, so nothing has changed.
fn failed(path: &Path, error: &rusqlite::Error) -> Error {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Code::Corrupt,
        _ => Code::StoreUnavailable,
    };
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ": free some space",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ": restore it from a backup",
        Some(ErrorCode::ReadOnly) => ": make it writable",
        // SQLite's error when a file beside the database cannot be created or extended.
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            ": make sure that it can be written and that the disk has space"
        }
        _ => "",
    };
    Error::new(code, format!("{}: {error}{advice}", path.display()))
}

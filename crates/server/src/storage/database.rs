//! The SQLite file of a storage service: one connection, and one transaction per item. Touches one directory.
//!
//! ```text
//! DIR/lock             held by the process that has the file open
//! DIR/storage.sqlite   keys and values, in the model's schema with its indexes for reading on demand
//! ```
//!
//! Invariant: a statement of a client reads and writes rows of this file and nothing else: no other files, no settings, no transactions of
//! its own. SQLite's authorizer decides that when a statement is compiled.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Code, Error, Millis, Result, Stopwatch};
use keystead_http_api::statements::{
    Expectation, Failure, Item, Mismatch, Outcome, Row, Rows, Statement, Value,
};
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::migrate_on_demand;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};

use super::executor::{Borrowed, Bound, Shared, failed, value};
use crate::bounds::{
    STORAGE_FORGET_AFTER_MS, STORAGE_ITEM_TIMEOUT, STORAGE_PROGRESS_OPS, STORAGE_RECLAIM_SLICE,
    STORAGE_RESULT_BYTES_MAX, STORAGE_ROWS_MAX, STORAGE_VALUE_BYTES_MAX,
};
use crate::failure::{failure, io_words};

const FILE: &str = "storage.sqlite";

/// Who has written last: a compute service finds out here whether a write, whose response was lost, was executed.
const WRITERS: &str = "CREATE TABLE IF NOT EXISTS writers (
        id TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID";
const FORGET_WRITERS: &str = "DELETE FROM writers WHERE at < ?1";

/// Functions that statements may not call: they reach files or other code, in builds of SQLite that have them.
const FUNCTIONS_DENIED: [&str; 6] =
    ["load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir"];

/// Statements whose compiled form is kept.
const CACHED: usize = 256;

/// The open file.
pub(super) struct Database {
    connection: Arc<Mutex<Connection>>,
    guard: Arc<Guard>,
    _lock: File,
}

/// What holds while statements of a client are compiled and executed.
#[derive(Default)]
struct Guard {
    is_client: AtomicBool,
    began: Mutex<Option<Stopwatch>>,
    /// Rows that statements have returned and changed, since the start.
    returned: AtomicU64,
    changed: AtomicU64,
}

/// What is left of the bounds of an item.
struct Budget {
    rows: usize,
    bytes: usize,
}

impl Database {
    pub(super) fn open(dir: &Path) -> Result<Database> {
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        let cannot = |error: &dyn std::fmt::Display| {
            Error::new(Code::StoreUnavailable, format!("cannot open {}: {error}", path.display()))
        };
        // SQLite creates the files beside it with the same mode.
        private().write(true).create(true).truncate(false).open(&path).map_err(|error| cannot(&error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let guard = Arc::new(Guard::default());
        let connection = Connection::open_with_flags(&path, flags).and_then(|mut connection| {
            prepare(&mut connection, &guard)?;
            Ok(connection)
        });
        let connection = Arc::new(Mutex::new(connection.map_err(|error| cannot(&error))?));
        let database = Database { connection, guard, _lock: lock };
        database.transaction(|connection| {
            migrate_on_demand(&mut Borrowed(connection))?;
            connection.execute_batch(WRITERS).map_err(|error| failed(&error))
        })?;
        Ok(database)
    }

    /// Rows that were returned and changed by all statements of clients since the start.
    pub(super) fn figures(&self) -> Figures {
        Figures(Arc::clone(&self.guard))
    }

    /// Runs something in a transaction of the service's own.
    fn transaction(&self, run: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| failed(&error))?;
        let done = run(&connection)
            .and_then(|()| connection.execute_batch("COMMIT").map_err(|error| failed(&error)));
        if done.is_err() && !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        done
    }

    /// Executes an item in one transaction.
    pub(super) fn execute(&self, item: &Item) -> Outcome {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = connection.execute_batch("BEGIN") {
            return Outcome::Error(refused(&error));
        }
        self.guard.begin();
        let outcome = self.guarded(&connection, item);
        self.guard.end();
        let outcome = match outcome {
            Ok(Outcome::Results(results)) => match connection.execute_batch("COMMIT") {
                Ok(()) => Outcome::Results(results),
                // The log may have it although it was not synced.
                Err(error) => {
                    Outcome::Error(Failure { outcome: Some("unknown".to_owned()), ..refused(&error) })
                }
            },
            Ok(other) => other,
            Err(failure) => Outcome::Error(failure),
        };
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        outcome
    }

    fn guarded(&self, connection: &Connection, item: &Item) -> std::result::Result<Outcome, Failure> {
        let mut budget = Budget { rows: STORAGE_ROWS_MAX, bytes: STORAGE_RESULT_BYTES_MAX };
        let all =
            |statements: &[Statement], budget: &mut Budget| -> std::result::Result<Vec<Rows>, Failure> {
                statements.iter().map(|s| self.statement(connection, &s.sql, &s.params, budget)).collect()
            };
        let mut mismatches = Vec::with_capacity(item.expect.len());
        for Expectation { sql, params, rows, otherwise } in &item.expect {
            let found = self.statement(connection, sql, params, &mut budget)?.rows;
            let holds =
                found.len() == rows.len() && found.iter().zip(rows).all(|(one, other)| is_row(one, other));
            mismatches.push(match holds {
                true => None,
                false => Some(Mismatch { rows: found, otherwise: all(otherwise, &mut budget)? }),
            });
        }
        if mismatches.iter().any(Option::is_some) {
            return Ok(Outcome::Conflict(mismatches));
        }
        all(&item.statements, &mut budget).map(Outcome::Results)
    }

    fn statement(
        &self,
        connection: &Connection,
        sql: &str,
        params: &[Value],
        budget: &mut Budget,
    ) -> std::result::Result<Rows, Failure> {
        let mut run = || -> rusqlite::Result<std::result::Result<Rows, Failure>> {
            let mut statement = connection.prepare_cached(sql)?;
            let before = connection.total_changes();
            let columns = statement.column_count();
            let mut found =
                statement.query(params_from_iter(params.iter().map(|value| Bound(value.param()))))?;
            let mut result = Rows::default();
            while let Some(row) = found.next()? {
                let row: rusqlite::Result<Row> = (0..columns).map(|n| row.get_ref(n).map(value)).collect();
                let row = row?;
                let bytes: usize = row.iter().map(|value| value.bytes() + 16).sum();
                match (budget.rows.checked_sub(1), budget.bytes.checked_sub(bytes)) {
                    (Some(rows), Some(bytes)) => *budget = Budget { rows, bytes },
                    _ => return Ok(Err(too_large())),
                }
                result.rows.push(row);
            }
            drop(found);
            result.changes = connection.total_changes() - before;
            self.guard.returned.fetch_add(result.rows.len() as u64, Ordering::Relaxed);
            self.guard.changed.fetch_add(result.changes, Ordering::Relaxed);
            Ok(Ok(result))
        };
        run().unwrap_or_else(|error| Err(refused(&error)))
    }

    /// Reclaims a slice of what is expired, and forgets writers that have long been gone.
    pub(super) fn reclaim(&self, now: Millis) -> Result<()> {
        self.transaction(|connection| {
            let forget = i64::try_from(now.0.saturating_sub(STORAGE_FORGET_AFTER_MS)).unwrap_or(i64::MAX);
            connection.execute(FORGET_WRITERS, [forget]).map_err(|error| failed(&error))?;
            Ok(())
        })?;
        let begin = |sql: &str| {
            let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            connection.execute_batch(sql).map_err(|error| failed(&error))
        };
        begin("BEGIN IMMEDIATE")?;
        let done =
            Keyspace::on_demand(Box::new(Shared(Arc::clone(&self.connection)))).and_then(|mut keys| {
                keys.share();
                keys.reclaim(now, &mut { STORAGE_RECLAIM_SLICE })?;
                keys.write_rows()
            });
        match done {
            Ok(()) => begin("COMMIT"),
            Err(error) => begin("ROLLBACK").and(Err(error)),
        }
    }
}

/// What statements of clients have read and written.
pub(super) struct Figures(Arc<Guard>);

impl Figures {
    pub(super) fn rows(&self) -> [u64; 2] {
        [&self.0.returned, &self.0.changed].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Guard {
    fn began(&self) -> std::sync::MutexGuard<'_, Option<Stopwatch>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        *self.began() = Some(Stopwatch::start());
        self.is_client.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        self.is_client.store(false, Ordering::Relaxed);
        *self.began() = None;
    }

    fn is_over(&self) -> bool {
        self.began().as_ref().is_some_and(|began| began.elapsed() > STORAGE_ITEM_TIMEOUT)
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if !self.is_client.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        let is_ours = context.database_name.is_none_or(|name| name == "main");
        match context.action {
            AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
            AuthAction::Read { .. }
            | AuthAction::Insert { .. }
            | AuthAction::Update { .. }
            | AuthAction::Delete { .. }
                if is_ours =>
            {
                Authorization::Allow
            }
            // FLUSHALL empties tables page by page, which SQLite does only without triggers.
            AuthAction::CreateTrigger { .. } | AuthAction::DropTrigger { .. } if is_ours => {
                Authorization::Allow
            }
            AuthAction::Function { function_name } => {
                match FUNCTIONS_DENIED.iter().any(|denied| function_name.eq_ignore_ascii_case(denied)) {
                    true => Authorization::Deny,
                    false => Authorization::Allow,
                }
            }
            _ => Authorization::Deny,
        }
    }
}

fn prepare(connection: &mut Connection, guard: &Arc<Guard>) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(CACHED);
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, STORAGE_VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let for_clients = Arc::clone(guard);
    connection.authorizer(Some(move |context: AuthContext<'_>| for_clients.authorize(&context)))?;
    let for_time = Arc::clone(guard);
    connection.progress_handler(STORAGE_PROGRESS_OPS, Some(move || for_time.is_over()))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates the directory, and takes its lock.
fn lock(dir: &Path) -> Result<File> {
    let cannot = |error: &std::io::Error| {
        failure(
            format_args!("cannot write to {} ({})", dir.display(), io_words(error)),
            "choose another directory",
        )
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| cannot(&error))?;
    if dir.join("database.json").exists() {
        return Err(failure(
            format_args!("{} is the database of a server", dir.display()),
            "choose another directory: keystead serve --data opens this one",
        ));
    }
    let lock =
        private().create(true).truncate(false).write(true).open(dir.join("lock")).map_err(|e| cannot(&e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            Code::StoreUnavailable,
            format!("{} is open in another process: stop it, or choose another directory", dir.display()),
        )),
        Err(TryLockError::Error(error)) => Err(cannot(&error)),
    }
}

fn is_row(found: &[Value], expected: &[Value]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(one, other)| one.is(other))
}

fn too_large() -> Failure {
    let message = format!(
        "the rows of an item are over {STORAGE_ROWS_MAX}, or over {STORAGE_RESULT_BYTES_MAX} bytes: read fewer at a time"
    );
    Failure { code: Code::TooLarge.as_str().to_owned(), message, outcome: None }
}

/// Why SQLite has refused a statement.
fn refused(error: &rusqlite::Error) -> Failure {
    let (code, message) = match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            ("forbidden", "a statement may only read and write rows of this database".to_owned())
        }
        Some(ErrorCode::OperationInterrupted) => {
            ("timed_out", format!("an item took longer than {STORAGE_ITEM_TIMEOUT:?}, and was rolled back"))
        }
        Some(ErrorCode::ApiMisuse) => {
            (Code::BadRequest.as_str(), "a statement is empty: write one statement of SQL".to_owned())
        }
        Some(ErrorCode::DiskFull) => {
            (Code::OutOfMemory.as_str(), "the disk is full: free some space".to_owned())
        }
        Some(ErrorCode::TooBig) => {
            (Code::TooLarge.as_str(), format!("a value is over {STORAGE_VALUE_BYTES_MAX} bytes"))
        }
        Some(
            ErrorCode::Unknown
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::ReadOnly,
        )
        | None => (Code::BadRequest.as_str(), error.to_string()),
        Some(_) => (Code::StoreUnavailable.as_str(), format!("the storage's database failed: {error}")),
    };
    Failure { code: code.to_owned(), message, outcome: None }
}

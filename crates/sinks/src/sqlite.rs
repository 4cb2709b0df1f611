//! A SQLite file. Touches that file, and creates the table of positions in it.
//!
//! A batch is one transaction. Calls run on a thread for blocking work, one at a time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Code, Error, Result};
use keystead_rows::sqlite::{self, COLUMNS, ColumnRow, DIALECT, UNIQUE};
use keystead_stores::connect::Url;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Params, Transaction, TransactionBehavior, params_from_iter,
};

use crate::batch::{Batch, Position, Rejection, Row, Shown, Written};
use crate::bounds::{DEADLINE, REJECTIONS_MAX};
use crate::layout::{BATCH_COLUMN, DELETED_COLUMN, Deletes, Layout, Values};
use crate::log::{Cells, Compaction, LogTarget, Query};
use crate::param::Param;
use crate::statement::{Sorted, Statement, differing, look, prepare, writes};
use crate::table::{self, Table};
use crate::{Capabilities, Scheme, Sink, SinkFuture, log, positions};

pub(super) const SCHEME: Scheme =
    Scheme { name: "sqlite", form: "sqlite:PATH", about: "a SQLite file that exists", open };

struct SqliteSink {
    path: PathBuf,
    layout: Layout,
    open: Mutex<Option<Open>>,
}

/// A connection, and what is known of the table.
struct Open {
    connection: Connection,
    table: Table,
}

fn open(url: &Url<'_>, layout: Layout) -> Result<Arc<dyn Sink>> {
    let path = url.path.strip_prefix("//").unwrap_or(url.path);
    if path.is_empty() {
        return Err(url.bad("the path is missing"));
    }
    url.finish()?;
    Ok(Arc::new(Shared(Arc::new(SqliteSink { path: path.into(), layout, open: Mutex::default() }))))
}

/// Why a transaction was rolled back.
enum Failed {
    /// Because of some row: the reason.
    Row(String),
    Call(Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Failed {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                Failed::Row(error.to_string())
            }
            _ => Failed::Call(call_error(&error)),
        }
    }
}

fn call_error(error: &rusqlite::Error) -> Error {
    Error::new(Code::StoreUnavailable, format!("the SQLite file: {error}"))
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Row(reason) => Error::new(Code::StoreUnavailable, reason),
            Failed::Call(error) => error,
        }
    }
}

type Call<T> = std::result::Result<T, Failed>;

/// Parameters of a statement, as the driver binds them.
fn bound(params: &[Param]) -> impl Params {
    params_from_iter(params.iter().map(|param| match param {
        Param::Null => ToSqlOutput::Owned(Value::Null),
        Param::Bool(value) => ToSqlOutput::Owned(Value::Integer(i64::from(*value))),
        Param::Integer(value) => ToSqlOutput::Owned(Value::Integer(*value)),
        Param::Real(value) => ToSqlOutput::Owned(Value::Real(*value)),
        Param::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
    }))
}

impl SqliteSink {
    /// Runs something on the connection, which is closed if it fails.
    fn with<T>(&self, run: impl FnOnce(&mut Connection, &Table) -> Result<T>) -> Result<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = match open.take() {
            Some(now) => now,
            None => self.connect()?,
        };
        let result = run(&mut now.connection, &now.table)?;
        *open = Some(now);
        Ok(result)
    }

    fn connect(&self) -> Result<Open> {
        // A file is not created: a mistake in its name would be found out much later. That of a log is our own.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.layout.values == Values::Events {
            self.create()?;
        }
        let connection = Connection::open_with_flags(&self.path, flags).map_err(|error| {
            let path = self.path.display();
            let code = match error.sqlite_error_code() {
                Some(ErrorCode::CannotOpen) if !self.path.exists() => Code::ConfigInvalid,
                _ => Code::StoreUnavailable,
            };
            Error::new(
                code,
                format!("cannot open {path} ({error}): create it with its table first, with sqlite3"),
            )
        })?;
        let call = |error: rusqlite::Error| call_error(&error);
        connection.busy_timeout(DEADLINE).map_err(call)?;
        connection.execute_batch(&positions::create(&DIALECT)).map_err(call)?;
        if self.layout.values == Values::Events
            && let Some(quoted) = table::quoted_name(&self.layout.table, &DIALECT)
        {
            let types = &DIALECT.types;
            let create = log::sql::create(&self.layout, &quoted, &DIALECT, types.key);
            connection.execute_batch(&create).map_err(call)?;
            connection.execute_batch(&log::sql::create_logs(&DIALECT)).map_err(call)?;
        }
        let table = self.look(&connection).map_err(Error::from)??;
        if self.layout.values == Values::Events {
            let register = log::sql::register(&self.layout, &table.quoted, &DIALECT);
            execute(&connection, &register).map_err(Error::from)?;
        }
        Ok(Open { connection, table })
    }

    /// Creates the file unless it is there. Only its owner may read it.
    fn create(&self) -> Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Err(error) if !self.path.exists() => {
                let message = format!("cannot create {}: {error}", self.path.display());
                Err(Error::new(Code::ConfigInvalid, message))
            }
            // Whether it can be opened is found out next.
            _ => Ok(()),
        }
    }

    fn look(&self, connection: &Connection) -> Call<Result<Table>> {
        let name = self.layout.table.rsplit('.').next().unwrap_or_default();
        let mut columns = connection.prepare(COLUMNS)?;
        let columns = columns.query_map([name], |row| {
            Ok(ColumnRow {
                name: row.get(0)?,
                type_name: row.get(1)?,
                is_required: row.get(2)?,
                is_generated: row.get(3)?,
                is_key: row.get::<_, i64>(4)? > 0,
            })
        })?;
        let columns = columns.collect::<rusqlite::Result<_>>()?;
        let mut unique = connection.prepare(UNIQUE)?;
        let unique = unique.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let found = sqlite::found(columns, unique);
        Ok(table::check(&self.layout, found, &DIALECT))
    }

    fn sorted(&self, table: &Table, rows: &[Row], which: impl Iterator<Item = usize>) -> Sorted {
        prepare(&self.layout, table, which.map(|row| (row, &rows[row])))
    }

    fn write_batch(&self, connection: &mut Connection, table: &Table, batch: &Batch) -> Call<Written> {
        let sorted = self.sorted(table, &batch.rows, 0..batch.rows.len());
        if !sorted.rejected.is_empty() {
            return Ok(Written::Rejected(sorted.rejected));
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if execute(&transaction, &positions::advance(&DIALECT, &self.layout.sink, batch))? == 0 {
            return Ok(Written::Fenced);
        }
        let mut statements = writes(table, &DIALECT, batch.next.batch, &sorted);
        statements.extend(log::sql::advance(&self.layout, &DIALECT, batch));
        // A foreign key may only be violated at the end.
        match run(&transaction, &statements).and_then(|()| Ok(transaction.commit()?)) {
            Ok(()) => Ok(Written::Done),
            Err(Failed::Call(error)) => Err(Failed::Call(error)),
            Err(Failed::Row(reason)) => {
                let rejections = self.find_rejected(connection, table, batch)?;
                if rejections.is_empty() {
                    return Err(Failed::Call(Error::new(Code::StoreUnavailable, reason)));
                }
                Ok(Written::Rejected(rejections))
            }
        }
    }

    /// Tries each row alone, beside those that are accepted.
    fn find_rejected(
        &self,
        connection: &mut Connection,
        table: &Table,
        batch: &Batch,
    ) -> Call<Vec<Rejection>> {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rejected = Vec::new();
        for row in 0..batch.rows.len() {
            let savepoint = transaction.savepoint()?;
            let sorted = self.sorted(table, &batch.rows, row..row + 1);
            match run(&savepoint, &writes(table, &DIALECT, batch.next.batch, &sorted)) {
                Ok(()) => savepoint.commit()?,
                Err(Failed::Row(reason)) => rejected.push(Rejection::new(row, &reason)),
                Err(failed) => return Err(failed),
            }
            if rejected.len() == REJECTIONS_MAX {
                break;
            }
        }
        Transaction::rollback(transaction)?;
        Ok(rejected)
    }

    fn position(&self, connection: &Connection) -> Call<Option<Position>> {
        let read = positions::read(&DIALECT, &self.layout.sink);
        let mut statement = connection.prepare(&read.sql)?;
        let mut rows = statement.query(bound(&read.params))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let revisions: String = row.get(2)?;
        let position = Position::of_parts(row.get(0)?, row.get(1)?, &revisions, row.get(3)?);
        position.map(Some).map_err(Failed::Call)
    }

    fn keys(
        &self,
        connection: &Connection,
        table: &Table,
        after: Option<&str>,
        before: Option<u64>,
        most: usize,
    ) -> Call<Vec<String>> {
        let key = &table.key.quoted;
        let mut sql =
            format!("SELECT CAST({key} AS TEXT) AS k FROM {} WHERE {BATCH_COLUMN} > 0", table.quoted);
        if let Some(before) = before {
            sql.push_str(&format!(" AND {BATCH_COLUMN} < {before}"));
        }
        if table.deletes == Deletes::Tombstone {
            sql.push_str(&format!(" AND NOT {DELETED_COLUMN}"));
        }
        let after = after.map(|after| Param::Text(self.layout.key_text(after).to_owned()));
        if after.is_some() {
            sql.push_str(&format!(" AND CAST({key} AS TEXT) > ?1"));
        }
        sql.push_str(&format!(" ORDER BY k LIMIT {most}"));
        let statement = Statement { sql, params: after.into_iter().collect(), otherwise: None };
        self.found(connection, &statement)
    }

    fn found(&self, connection: &Connection, statement: &Statement) -> Call<Vec<String>> {
        let mut prepared = connection.prepare(&statement.sql)?;
        let found = prepared.query_map(bound(&statement.params), |row| row.get::<_, String>(0))?;
        found.map(|key| Ok(self.layout.key_of(key?))).collect()
    }

    fn differing(&self, connection: &Connection, table: &Table, rows: &[Row]) -> Call<Vec<String>> {
        let sorted = self.sorted(table, rows, 0..rows.len());
        let mut keys: Vec<String> =
            sorted.rejected.iter().map(|rejection| rows[rejection.row].key.clone()).collect();
        for statement in differing(table, &DIALECT, &sorted) {
            let sql = format!("WITH found (k) AS ({}) SELECT CAST(k AS TEXT) FROM found", statement.sql);
            keys.extend(self.found(connection, &Statement { sql, ..statement })?);
        }
        Ok(keys)
    }
}

fn execute(connection: &Connection, statement: &Statement) -> Call<u64> {
    let mut prepared = connection.prepare(&statement.sql)?;
    Ok(prepared.execute(bound(&statement.params))? as u64)
}

fn run(connection: &Connection, statements: &[Statement]) -> Call<()> {
    for statement in statements {
        let changed = execute(connection, statement)?;
        if let Some((expected, missing)) = &statement.otherwise
            && changed < *expected
        {
            execute(connection, missing)?;
        }
    }
    Ok(())
}

/// Calls run on other threads.
struct Shared(Arc<SqliteSink>);

impl Shared {
    fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&SqliteSink, &mut Connection, &Table) -> Result<T> + Send + 'static,
    ) -> SinkFuture<'static, T> {
        let sink = Arc::clone(&self.0);
        Box::pin(async move {
            let call = move || sink.with(|connection, table| run(&sink, connection, table));
            tokio::task::spawn_blocking(call)
                .await
                .unwrap_or_else(|error| Err(Error::unknown(Code::Internal, error.to_string())))
        })
    }
}

impl Sink for Shared {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_position: true, readable: true }
    }

    fn probe(&self) -> SinkFuture<'_, ()> {
        // Opened again, so that the table is looked at again.
        *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.call(|_, _, _| Ok(()))
    }

    fn position(&self) -> SinkFuture<'_, Option<Position>> {
        self.call(|sink, connection, _| Ok(sink.position(connection)?))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written> {
        let batch = batch.clone();
        self.call(move |sink, connection, table| Ok(sink.write_batch(connection, table, &batch)?))
    }

    fn keys<'a>(
        &'a self,
        after: Option<&'a str>,
        before: Option<u64>,
        most: usize,
    ) -> SinkFuture<'a, Vec<String>> {
        let after = after.map(str::to_owned);
        self.call(move |sink, connection, table| {
            Ok(sink.keys(connection, table, after.as_deref(), before, most)?)
        })
    }

    fn differing<'a>(&'a self, rows: &'a [Row]) -> SinkFuture<'a, Vec<String>> {
        let rows = rows.to_vec();
        self.call(move |sink, connection, table| Ok(sink.differing(connection, table, &rows)?))
    }

    fn look<'a>(&'a self, keys: &'a [String]) -> SinkFuture<'a, Vec<Shown>> {
        let keys = keys.to_vec();
        self.call(move |sink, connection, table| {
            let mut shown = Vec::new();
            for statement in look(&sink.layout, table, &DIALECT, &keys) {
                let rows = cells(connection, &statement)?;
                shown.extend(rows.into_iter().map(|row| Shown::of_cells(&sink.layout, row)));
            }
            Ok(shown)
        })
    }

    fn close(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
            Ok(())
        })
    }

    fn log(&self) -> Option<&dyn LogTarget> {
        (self.0.layout.values == Values::Events).then_some(self)
    }
}

impl LogTarget for Shared {
    fn read<'a>(&'a self, what: &'a Query) -> SinkFuture<'a, Vec<Cells>> {
        let what = what.clone();
        self.call(move |sink, connection, table| {
            let statement = log::sql::read(&what, &sink.layout, table, &DIALECT).ok_or_else(log::no_log)?;
            Ok(cells(connection, &statement)?)
        })
    }

    fn change<'a>(&'a self, change: &'a Compaction) -> SinkFuture<'a, u64> {
        let change = change.clone();
        self.call(move |sink, connection, table| {
            let statements =
                log::sql::change(&change, &sink.layout, table, &DIALECT).ok_or_else(log::no_log)?;
            Ok(transaction(connection, &statements)?)
        })
    }
}

fn cells(connection: &Connection, statement: &Statement) -> Call<Vec<Cells>> {
    let mut prepared = connection.prepare(&statement.sql)?;
    let columns = prepared.column_count();
    let rows = prepared.query_map(bound(&statement.params), |row| {
        (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<Cells>>()
    })?;
    rows.map(|row| Ok(row?)).collect()
}

fn transaction(connection: &mut Connection, statements: &[Statement]) -> Call<u64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut changed = 0;
    for statement in statements {
        changed += execute(&transaction, statement)?;
    }
    transaction.commit()?;
    Ok(changed)
}

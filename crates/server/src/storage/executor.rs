//! The model's statements on the file of a storage service: its schema, and what it reclaims. Touches the connection that it is given.

use std::sync::{Arc, Mutex, PoisonError};

use keystead_core::{Code, Error, Result};
use keystead_http_api::statements::{Row, Value};
use keystead_model::sql::{Cell, Param, Sql};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};

/// A connection that is locked already.
pub(super) struct Borrowed<'a>(pub(super) &'a Connection);

/// A connection that is locked for each statement.
pub(super) struct Shared(pub(super) Arc<Mutex<Connection>>);

impl Sql for Borrowed<'_> {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        // Not cached: a cached statement would not be authorised again when a client sends the same text.
        let mut statement = self.0.prepare(sql).map_err(|error| failed(&error))?;
        let changed = statement.execute(params_from_iter(params.iter().map(|param| Bound(*param))));
        changed.map(|changed| changed as u64).map_err(|error| failed(&error))
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let read = || -> rusqlite::Result<Vec<Row>> {
            let mut statement = self.0.prepare(sql)?;
            let columns = statement.column_count();
            let mut found = statement.query(params_from_iter(params.iter().map(|param| Bound(*param))))?;
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                rows.push(
                    (0..columns).map(|n| row.get_ref(n).map(value)).collect::<rusqlite::Result<Row>>()?,
                );
            }
            Ok(rows)
        };
        let rows = read().map_err(|error| failed(&error))?;
        rows.iter().try_for_each(|cells| row(&cells.iter().map(Value::param).collect::<Vec<_>>()))
    }
}

impl Sql for Shared {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        Borrowed(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).run(sql, params)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        Borrowed(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).query(sql, params, row)
    }
}

/// A value that is bound.
pub(super) struct Bound<'a>(pub(super) Param<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Param::Null => ValueRef::Null,
            Param::Int(number) => ValueRef::Integer(number),
            Param::Real(number) => ValueRef::Real(number),
            Param::Text(text) => ValueRef::Text(text.as_bytes()),
            Param::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

pub(super) fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(text.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

pub(super) fn failed(error: &rusqlite::Error) -> Error {
    Error::new(Code::StoreUnavailable, format!("the storage's database failed: {error}"))
}

//! The model's statements on the SQLite of a Durable Object. Touches its storage.
//!
//! JavaScript has doubles only: a whole number that a double cannot hold is bound as text, which the column converts back, and so is -0,
//! which would become 0. A result with such a number is read again, with whole numbers as text. Invariant: what was bound is read unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use js_sys::{Array, ArrayBuffer, Uint8Array};
use keystead_core::{Code, Error, Result};
use keystead_http_api::statements::Value;
use keystead_model::sql::{Cell, Param, Sql};
use wasm_bindgen::{JsCast, JsValue};
use worker::send::SendWrapper;

use crate::storage::{Cursor, SqlStorage};

/// Up to here, every whole number is a double of its own.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// The database of an object. There is one thread.
pub(crate) struct ObjectSql {
    sql: SendWrapper<SqlStorage>,
    figures: Figures,
}

/// What statements have cost.
#[derive(Clone, Default)]
pub(crate) struct Figures(Arc<[AtomicU64; 2]>);

impl Figures {
    /// Rows that were read and written since the last call.
    pub(crate) fn take(&self) -> [u64; 2] {
        [0, 1].map(|n: usize| self.0[n].swap(0, Ordering::Relaxed))
    }

    fn add(&self, cursor: &Cursor) {
        for (sum, count) in self.0.iter().zip([cursor.rows_read(), cursor.rows_written()]) {
            sum.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

impl ObjectSql {
    pub(crate) fn new(sql: SqlStorage) -> ObjectSql {
        ObjectSql { sql: SendWrapper(sql), figures: Figures::default() }
    }

    /// The same database again, with the same figures.
    pub(crate) fn another(&self, sql: SqlStorage) -> ObjectSql {
        ObjectSql { sql: SendWrapper(sql), figures: self.figures() }
    }

    pub(crate) fn figures(&self) -> Figures {
        self.figures.clone()
    }

    fn exec(&self, statement: &str, params: &[Param<'_>]) -> Result<Cursor> {
        let all: Array = params.iter().map(bound).collect();
        self.sql.0.exec(statement, &all).map_err(|error| failed(&text_of(&error)))
    }

    fn rows(&self, cursor: &Cursor) -> Result<Vec<Vec<Owned>>> {
        let mut rows = Vec::new();
        for row in &cursor.raw() {
            let row = Array::from(&row.map_err(|error| failed(&text_of(&error)))?);
            rows.push(row.iter().map(Owned::of).collect::<Result<_>>()?);
        }
        self.figures.add(cursor);
        Ok(rows)
    }
}

/// Rows of a statement, and how many it has written.
pub(crate) type Executed = (Vec<Vec<Value>>, u64);

impl ObjectSql {
    /// Another handle of the same database, whose figures count together.
    pub(crate) fn beside(sql: SqlStorage, figures: Figures) -> ObjectSql {
        ObjectSql { sql: SendWrapper(sql), figures }
    }

    /// Executes a statement of a compute service.
    pub(crate) fn statement(&self, sql: &str, params: &[Value]) -> Result<Executed> {
        let params: Vec<Param<'_>> = params.iter().map(Value::param).collect();
        let cursor = self.exec(sql, &params)?;
        let mut rows = self.rows(&cursor)?;
        // Only a query can run again.
        let is_query = sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"));
        if is_query && rows.iter().flatten().any(Owned::may_be_inexact) {
            let columns: Vec<String> =
                cursor.column_names().iter().filter_map(|name| name.as_string()).collect();
            rows = self.rows(&self.exec(&with_text(sql, &columns), &params)?)?;
        }
        let rows = rows.into_iter().map(|row| row.into_iter().map(Owned::value).collect());
        Ok((rows.collect(), cursor.rows_written() as u64))
    }
}

impl Sql for ObjectSql {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        let cursor = self.exec(sql, params)?;
        self.figures.add(&cursor);
        // Rows of indexes are counted, too: what the model asks is whether it was one or none.
        Ok(u64::from(cursor.rows_written() > 0.0))
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let cursor = self.exec(sql, params)?;
        let mut rows = self.rows(&cursor)?;
        if rows.iter().flatten().any(Owned::may_be_inexact) {
            let columns: Vec<String> =
                cursor.column_names().iter().filter_map(|name| name.as_string()).collect();
            rows = self.rows(&self.exec(&with_text(sql, &columns), params)?)?;
        }
        for cells in &rows {
            let cells: Vec<Cell<'_>> = cells.iter().map(Owned::cell).collect();
            row(&cells)?;
        }
        Ok(())
    }
}

/// A query whose whole numbers are text.
fn with_text(sql: &str, columns: &[String]) -> String {
    let column = |name: &String| {
        let name = name.replace('"', "\"\"");
        format!("CASE typeof(\"{name}\") WHEN 'integer' THEN CAST(\"{name}\" AS TEXT) ELSE \"{name}\" END")
    };
    let columns: Vec<String> = columns.iter().map(column).collect();
    format!("SELECT {} FROM ({sql})", columns.join(", "))
}

/// A value of a row.
enum Owned {
    Null,
    Number(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Owned {
    fn of(value: JsValue) -> Result<Owned> {
        if value.is_null() || value.is_undefined() {
            return Ok(Owned::Null);
        }
        if let Some(number) = value.as_f64() {
            return Ok(Owned::Number(number));
        }
        if let Some(text) = value.as_string() {
            return Ok(Owned::Text(text));
        }
        match value.dyn_into::<ArrayBuffer>() {
            Ok(buffer) => Ok(Owned::Blob(Uint8Array::new(&buffer).to_vec())),
            Err(_) => Err(Error::new(Code::Corrupt, "a row has a value of an unknown type")),
        }
    }

    /// Whether it may be a whole number that a double cannot hold.
    fn may_be_inexact(&self) -> bool {
        matches!(self, Owned::Number(number) if number.is_finite() && number.abs() > EXACT_MAX)
    }

    fn value(self) -> Value {
        match self {
            Owned::Null => Value::Null,
            Owned::Number(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => {
                match number == 0.0 && number.is_sign_negative() {
                    true => Value::Real(number),
                    false => Value::Int(number as i64),
                }
            }
            Owned::Number(number) => Value::Real(number),
            Owned::Text(text) => Value::Text(text),
            Owned::Blob(bytes) => Value::Blob(bytes),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Owned::Null => Cell::Null,
            Owned::Number(number) => Cell::Real(*number),
            Owned::Text(text) => Cell::Text(text),
            Owned::Blob(bytes) => Cell::Blob(bytes),
        }
    }
}

fn bound(param: &Param<'_>) -> JsValue {
    match param {
        Param::Null => JsValue::NULL,
        Param::Int(number) if (*number as f64).abs() <= EXACT_MAX => JsValue::from_f64(*number as f64),
        Param::Int(number) => JsValue::from_str(&number.to_string()),
        Param::Real(number) if *number == 0.0 && number.is_sign_negative() => JsValue::from_str("-0.0"),
        Param::Real(number) => JsValue::from_f64(*number),
        Param::Text(text) => JsValue::from_str(text),
        Param::Blob(bytes) => Uint8Array::from(*bytes).into(),
    }
}

/// An error of the database. Its texts are SQLite's, behind the platform's.
pub(crate) fn failed(why: &str) -> Error {
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if has(&["SQLITE_TOOBIG", "too big", "too large"]) {
        return Error::new(
            Code::TooLarge,
            "a key or an element is larger than a row of a Durable Object may be (2 MB)",
        );
    }
    if has(&["SQLITE_FULL", "storage limit", "exceeded the maximum", "Exceeded allowed storage"]) {
        return Error::new(Code::OutOfMemory, "the object's storage is full: delete keys");
    }
    Error::new(Code::StoreUnavailable, format!("the object's database rejected a statement: {why}"))
}

/// The text of a JavaScript error.
pub(crate) fn text_of(error: &JsValue) -> String {
    match error.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => error.as_string().unwrap_or_default(),
    }
}

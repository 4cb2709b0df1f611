//! Records on D1: one table for each store. Touches that database.
//!
//! All items of a request are one batch, which D1 runs as a transaction. A swap is a statement with the expected version as its condition, and
//! returns a row if it was made; what those that were not made have met is read afterwards. Reads go to the primary database.

use std::cell::Cell;

use keystead_core::{Code, Error, Result};
use serde::Deserialize;
use wasm_bindgen::JsValue;
use worker::{D1Database, D1PreparedStatement, D1Result, Env};

use super::items::{Call, Outcome, Swap};
use super::object::reclaim_at;
use super::{Rows, unbound};
use crate::bounds::{STORE_SHARED_RECORD_BYTES_MAX, STORE_SWEEP_EVERY_MS, STORE_SWEEP_ROWS_MAX};
use crate::database::now;
use crate::sql::text_of;

/// The binding of the database.
const BINDING: &str = "D1";

thread_local! {
    /// When this isolate last deleted what may be reclaimed, in milliseconds.
    static SWEPT: Cell<u64> = const { Cell::new(0) };
}

/// The records of one store.
pub(crate) struct D1Records {
    database: D1Database,
    table: String,
}

/// A row of a read. The record is absent where it is too large to be sent with others.
#[derive(Deserialize)]
struct Row {
    record: Option<String>,
}

impl D1Records {
    pub(super) fn open(env: &Env, name: &str) -> Result<D1Records> {
        let database = env.d1(BINDING).map_err(|_| unbound("D1 database", BINDING))?;
        Ok(D1Records { database, table: format!("keystead_{name}") })
    }

    pub(super) async fn run(&self, calls: &[Call<'_>]) -> Result<(Vec<Outcome>, Rows)> {
        let mut rows = Rows::default();
        let several = calls.len() > 1;
        let sweeps = calls.iter().any(|call| matches!(call, Call::Swap(_))) && is_time_to_sweep();
        let statements = || {
            let all = calls.iter().map(|call| self.statement(call, several));
            all.chain(sweeps.then(|| self.sweep())).collect()
        };
        let results = self.batch(&statements, &mut rows).await?;
        let mut lost = Vec::new();
        let mut outcomes = Vec::with_capacity(calls.len());
        for (i, call) in calls.iter().enumerate() {
            let result = results.get(i).ok_or_else(|| unexpected("no result"))?;
            outcomes.push(match call {
                Call::Read { .. } => read_of(result, several)?,
                Call::Swap(swap) if has_row(result)? => Outcome::Swapped(swap.version),
                Call::Swap(swap) => {
                    lost.push((i, swap));
                    Outcome::LargeConflict
                }
            });
        }
        if lost.is_empty() {
            return Ok((outcomes, rows));
        }
        let reads = || lost.iter().map(|(_, swap)| self.read(&swap.key, several)).collect();
        // The swaps were not made, whatever becomes of these reads.
        if let Ok(results) = self.batch(&reads, &mut rows).await {
            for ((i, swap), result) in lost.iter().zip(&results) {
                if let Ok(Outcome::Record(current)) = read_of(result, several) {
                    outcomes[*i] = Outcome::of_lost(swap, current);
                }
            }
        }
        Ok((outcomes, rows))
    }

    fn statement(&self, call: &Call<'_>, several: bool) -> Result<D1PreparedStatement> {
        let table = &self.table;
        let Call::Swap(swap) = call else { return self.read(call.key(), several) };
        let Swap { key, expected, record, version, .. } = swap;
        let at = reclaim_at(swap).map_or(JsValue::NULL, |at| JsValue::from_f64(at.0 as f64));
        let mut params =
            vec![JsValue::from_str(key), JsValue::from_f64(*version as f64), JsValue::from_str(record), at];
        let sql = match expected {
            None => format!(
                "INSERT INTO {table} (key, version, record, reclaim_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO \
                 NOTHING RETURNING version"
            ),
            Some(expected) => {
                params.push(JsValue::from_f64(*expected as f64));
                format!(
                    "UPDATE {table} SET version = ?2, record = ?3, reclaim_at = ?4 WHERE key = ?1 AND version = ?5 \
                     RETURNING version"
                )
            }
        };
        self.bound(sql, &params)
    }

    fn read(&self, key: &str, several: bool) -> Result<D1PreparedStatement> {
        let table = &self.table;
        let mut params = vec![JsValue::from_str(key)];
        let column = if several {
            params.push(JsValue::from_f64(STORE_SHARED_RECORD_BYTES_MAX as f64));
            "CASE WHEN length(record) <= ?2 THEN record END AS record"
        } else {
            "record"
        };
        self.bound(format!("SELECT {column} FROM {table} WHERE key = ?1"), &params)
    }

    fn sweep(&self) -> Result<D1PreparedStatement> {
        let table = &self.table;
        let sql = format!(
            "DELETE FROM {table} WHERE key IN (SELECT key FROM {table} WHERE reclaim_at <= ?1 LIMIT ?2)"
        );
        self.bound(sql, &[JsValue::from_f64(now().0 as f64), JsValue::from_f64(STORE_SWEEP_ROWS_MAX.into())])
    }

    fn bound(&self, sql: String, params: &[JsValue]) -> Result<D1PreparedStatement> {
        // Nothing has been sent yet.
        let failed = |error: worker::Error| Error::new(Code::StoreUnavailable, words_of(error));
        self.database.prepare(sql).bind(params).map_err(failed)
    }

    /// Runs statements as one transaction, and creates the table if it is missing.
    async fn batch(
        &self,
        statements: &dyn Fn() -> Result<Vec<D1PreparedStatement>>,
        rows: &mut Rows,
    ) -> Result<Vec<D1Result>> {
        let ran = match self.database.batch(statements()?).await.map_err(words_of) {
            // The transaction was rolled back.
            Err(words) if words.contains("no such table") => {
                let schema: Vec<_> = self.schema().iter().map(|sql| self.database.prepare(sql)).collect();
                self.database.batch(schema).await.map_err(|error| failed(&words_of(error)))?;
                self.database.batch(statements()?).await.map_err(words_of)
            }
            ran => ran,
        };
        let results = ran.map_err(|words| failed(&words))?;
        for meta in results.iter().filter_map(|result| result.meta().ok().flatten()) {
            rows.0[0] += meta.rows_read.unwrap_or(0) as u64;
            rows.0[1] += meta.rows_written.unwrap_or(0) as u64;
        }
        Ok(results)
    }

    fn schema(&self) -> [String; 2] {
        let table = &self.table;
        [
            format!(
                "CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, version INTEGER NOT NULL, record TEXT NOT \
                 NULL, reclaim_at INTEGER) WITHOUT ROWID"
            ),
            format!(
                "CREATE INDEX IF NOT EXISTS {table}_to_reclaim ON {table} (reclaim_at) WHERE reclaim_at IS NOT NULL"
            ),
        ]
    }
}

fn is_time_to_sweep() -> bool {
    let now = now().0;
    let is_time = SWEPT.get().saturating_add(STORE_SWEEP_EVERY_MS) <= now;
    if is_time {
        SWEPT.set(now);
    }
    is_time
}

fn read_of(result: &D1Result, several: bool) -> Result<Outcome> {
    let found = result.results::<Row>().map_err(|error| unexpected(&error.to_string()))?;
    Ok(match found.into_iter().next() {
        None => Outcome::Record(None),
        Some(Row { record: None }) => Outcome::Later,
        Some(Row { record }) => Outcome::Record(record).among(several),
    })
}

fn has_row(result: &D1Result) -> Result<bool> {
    #[derive(Deserialize)]
    struct Made {}
    Ok(!result.results::<Made>().map_err(|error| unexpected(&error.to_string()))?.is_empty())
}

fn unexpected(why: &str) -> Error {
    Error::unknown(Code::StoreUnavailable, format!("D1 replied in another form: {why}"))
}

fn words_of(error: worker::Error) -> String {
    match error {
        worker::Error::D1(error) => text_of(error.as_ref()),
        error => error.to_string(),
    }
}

/// The error of a batch. Its texts are SQLite's, behind the platform's.
fn failed(words: &str) -> Error {
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["SQLITE_FULL", "maximum DB size", "exceeded its maximum"]) {
        return Error::new(Code::OutOfMemory, "the D1 database is full: delete keys");
    }
    if has(&["SQLITE_TOOBIG"]) {
        return Error::new(Code::TooLarge, "the record is larger than a row of D1 may be (2 MB)");
    }
    let message = format!("D1 rejected a request: {words}");
    // These did not begin, or their transaction was rolled back.
    match has(&["overloaded", "SQLITE_ERROR", "SQLITE_AUTH", "SQLITE_CONSTRAINT", "no such table"]) {
        true => Error::new(Code::StoreUnavailable, message),
        false => Error::unknown(Code::StoreUnavailable, message),
    }
}

//! Statements on a D1 database. Touches that database.

use std::time::Duration;

use futures_util::future::{Either, select};
use keystead_core::{Code, Error, Result};
use keystead_rows::param::Param;
use keystead_rows::positions;
use keystead_rows::statement::Statement;
use serde_json::Value;
use wasm_bindgen::JsValue;
use worker::{D1Database, D1PreparedStatement, Delay, Env};

use crate::bounds::FLUSH_DEADLINE_MS;

/// Up to here, every whole number is a double of its own.
const EXACT_MAX: u64 = 9_007_199_254_740_991;

/// Why a list of statements was not executed.
pub(crate) enum Failed {
    /// The position is another one: nothing was changed.
    Fenced,
    /// Because of some row, with D1's reason: nothing was changed.
    Row(String),
    /// Something else. What was written is not known.
    Call(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Fenced => Error::new(Code::Conflict, "D1 is at another position"),
            Failed::Row(reason) => Error::new(Code::StoreUnavailable, reason),
            Failed::Call(error) => error,
        }
    }
}

impl From<worker::Error> for Failed {
    fn from(error: worker::Error) -> Failed {
        let text = error.to_string();
        let is_about_a_row =
            ["constraint failed", "SQLITE_MISMATCH", "SQLITE_TOOBIG", "too big", "datatype mismatch"];
        if positions::is_fence(&text) {
            Failed::Fenced
        } else if is_about_a_row.iter().any(|words| text.contains(words)) {
            Failed::Row(text)
        } else {
            Failed::Call(Error::unknown(Code::StoreUnavailable, format!("D1: {text}")))
        }
    }
}

/// A database.
pub(crate) struct D1(D1Database);

impl D1 {
    /// The database of this binding.
    pub(crate) fn of(env: &Env, binding: &str) -> Result<D1> {
        let missing = |_| {
            let words = format!(
                "there is no D1 database with the binding '{binding}': add it to wrangler.toml with [[d1_databases]]"
            );
            Error::new(Code::ConfigInvalid, words)
        };
        env.d1(binding).map(D1).map_err(missing)
    }

    fn prepared(&self, statement: &Statement) -> worker::Result<D1PreparedStatement> {
        let params: Vec<JsValue> = statement.params.iter().map(bound).collect();
        self.0.prepare(&statement.sql).bind(&params)
    }

    /// The rows of a query.
    pub(crate) async fn rows(&self, statement: &Statement) -> std::result::Result<Vec<Vec<Value>>, Failed> {
        let prepared = self.prepared(statement)?;
        in_time(prepared.raw()).await
    }

    /// Executes all statements in one transaction, or none.
    pub(crate) async fn batch(&self, statements: &[Statement]) -> std::result::Result<(), Failed> {
        let prepared: Vec<_> =
            statements.iter().map(|one| self.prepared(one)).collect::<worker::Result<_>>()?;
        in_time(self.0.batch(prepared)).await.map(|_| ())
    }
}

async fn in_time<T>(call: impl Future<Output = worker::Result<T>>) -> std::result::Result<T, Failed> {
    let deadline = Delay::from(Duration::from_millis(FLUSH_DEADLINE_MS));
    match select(Box::pin(call), Box::pin(deadline)).await {
        Either::Left((done, _)) => Ok(done?),
        Either::Right(_) => {
            let words = format!("D1 did not reply within {} s", FLUSH_DEADLINE_MS / 1000);
            Err(Failed::Call(Error::unknown(Code::StoreUnavailable, words)))
        }
    }
}

fn bound(param: &Param) -> JsValue {
    match param {
        Param::Null => JsValue::NULL,
        Param::Bool(value) => JsValue::from_f64(f64::from(u8::from(*value))),
        Param::Integer(number) if number.unsigned_abs() <= EXACT_MAX => JsValue::from_f64(*number as f64),
        // The column converts it.
        Param::Integer(number) => JsValue::from_str(&number.to_string()),
        Param::Real(number) => JsValue::from_f64(*number),
        Param::Text(text) => JsValue::from_str(text),
    }
}

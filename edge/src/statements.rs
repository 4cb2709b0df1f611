//! `POST /statements`: the object as the storage service of compute services elsewhere. Touches the object's rows.
//!
//! It has a secret of its own. Without it nothing is executed. Invariant: an item is one transaction, and the commands of this object see what
//! it has written.

use http::request::Parts;
use http::{Method, StatusCode};
use keystead_core::{Code, Error, Outcome as ErrorOutcome};
use keystead_http_api::statements::{
    Expectation, Failure, Item, Mismatch, Outcome, Outcomes, Request, Row, Rows, Statement, Value,
};
use keystead_http_api::status;
use serde::Serialize;
use worker::Env;

use crate::bounds::{RESPONSE_BYTES_MAX, STATEMENT_ROWS_MAX};
use crate::database::Database;
use crate::exchange::{JSON, Reply};
use crate::object::Arrived;
use crate::settings;
use crate::sql::ObjectSql;

/// Who has written last, as in the file of `keystead storage`.
const WRITERS: &str = "CREATE TABLE IF NOT EXISTS writers (
        id TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID";

/// The code of what `keystead storage` rejects with the same one.
const FORBIDDEN: &str = "forbidden";

/// A result whose error is part of the response.
type Rejected<T> = Result<T, Failure>;

/// The response of a request that is not authorised, or has another method.
pub(crate) fn before(env: &Env, head: &Parts) -> Option<Reply> {
    match settings::is_compute(env, &head.headers) {
        None => {
            let words = "the secret KEYSTEAD_STORAGE_TOKEN is not set, and without it no statement is executed: npx wrangler secret put KEYSTEAD_STORAGE_TOKEN";
            return Some(Reply::error(StatusCode::UNAUTHORIZED, "unauthorized", words));
        }
        Some(false) => {
            let words = "send the token of the storage service in a header: Authorization: Bearer TOKEN";
            let mut reply = Reply::error(StatusCode::UNAUTHORIZED, "unauthorized", words);
            reply.set("www-authenticate", "Bearer");
            return Some(reply);
        }
        Some(true) => {}
    }
    (head.method != Method::POST).then(|| {
        let mut reply =
            Reply::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes POST");
        reply.set("allow", "POST");
        reply
    })
}

pub(crate) fn respond(database: &mut Database, request: &Arrived<'_>) -> Reply {
    let request = match Request::parse(request.body) {
        Ok(request) => request,
        Err(why) => return Reply::error(StatusCode::BAD_REQUEST, Code::BadRequest.as_str(), &why),
    };
    let mut outcomes: Vec<Outcome> = request.items().iter().map(|item| execute(database, item)).collect();
    match request {
        Request::Pipeline(_) => json(StatusCode::OK, &Outcomes { pipeline: outcomes }),
        Request::One(_) => match outcomes.pop() {
            Some(outcome) => json(status_of(&outcome), &outcome),
            None => Reply::empty(StatusCode::OK),
        },
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    match serde_json::to_string(body) {
        Ok(text) => Reply::new(status, JSON, (text + "\n").into_bytes()),
        Err(error) => Reply::broken(&Error::new(Code::Internal, error.to_string())),
    }
}

fn status_of(outcome: &Outcome) -> StatusCode {
    match outcome {
        Outcome::Results(_) => StatusCode::OK,
        Outcome::Conflict(_) => StatusCode::CONFLICT,
        Outcome::Error(Failure { code, .. }) if code == FORBIDDEN => StatusCode::FORBIDDEN,
        Outcome::Error(Failure { code, .. }) => {
            let known = Code::ALL.iter().find(|known| known.as_str() == code);
            known.map_or(StatusCode::BAD_REQUEST, |known| status::of(*known))
        }
    }
}

/// Executes an item in a transaction of its own.
fn execute(database: &mut Database, item: &Item) -> Outcome {
    let mut rejection = None;
    let executed = database.execute(|sql| {
        sql.statement(WRITERS, &[])?;
        let mut left = Left { rows: STATEMENT_ROWS_MAX, bytes: RESPONSE_BYTES_MAX };
        left.item(sql, item).map_err(|failure| {
            let error = Error::new(Code::BadRequest, failure.message.clone());
            rejection = Some(failure);
            error
        })
    });
    executed.unwrap_or_else(|error| Outcome::Error(rejection.unwrap_or_else(|| failure_of(&error))))
}

fn failure_of(error: &Error) -> Failure {
    let is_unknown = error.outcome() == ErrorOutcome::Unknown;
    failure(error.code().as_str(), error.message(), is_unknown.then_some("unknown"))
}

fn failure(code: &str, message: &str, outcome: Option<&str>) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned(), outcome: outcome.map(str::to_owned) }
}

/// Why the platform has rejected a statement, with the codes of `keystead storage`.
fn rejected(error: &Error) -> Failure {
    const OF_THE_STATEMENT: [&str; 5] =
        ["SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_RANGE", "SQLITE_READONLY"];
    let words = error.message();
    match error.code() {
        Code::StoreUnavailable if ["SQLITE_AUTH", "not authorized"].iter().any(|why| words.contains(why)) => {
            forbidden()
        }
        Code::StoreUnavailable if OF_THE_STATEMENT.iter().any(|code| words.contains(code)) => {
            failure(Code::BadRequest.as_str(), words, None)
        }
        _ => failure_of(error),
    }
}

fn forbidden() -> Failure {
    failure(FORBIDDEN, "a statement may only read and write rows of this database, one at a time", None)
}

fn is_expected(found: &[Row], expected: &[Row]) -> bool {
    let is_row = |(one, other): (&Row, &Row)| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is(other))
    };
    found.len() == expected.len() && found.iter().zip(expected).all(is_row)
}

/// What is left of the bounds of an item.
struct Left {
    rows: usize,
    bytes: usize,
}

impl Left {
    /// The outcome of an item, and whether it has written.
    fn item(&mut self, sql: &ObjectSql, item: &Item) -> Rejected<(Outcome, bool)> {
        let mut mismatches = Vec::with_capacity(item.expect.len());
        for Expectation { sql: text, params, rows, otherwise } in &item.expect {
            let found = self.run(sql, text, params)?.rows;
            mismatches.push(match is_expected(&found, rows) {
                true => None,
                false => Some(Mismatch { rows: found, otherwise: self.all(sql, otherwise)? }),
            });
        }
        if mismatches.iter().any(Option::is_some) {
            return Ok((Outcome::Conflict(mismatches), false));
        }
        let results = self.all(sql, &item.statements)?;
        let has_written = results.iter().any(|result| result.changes > 0);
        Ok((Outcome::Results(results), has_written))
    }

    fn all(&mut self, sql: &ObjectSql, statements: &[Statement]) -> Rejected<Vec<Rows>> {
        statements.iter().map(|statement| self.run(sql, &statement.sql, &statement.params)).collect()
    }

    fn run(&mut self, sql: &ObjectSql, text: &str, params: &[Value]) -> Rejected<Rows> {
        check(text)?;
        let (rows, changes) = sql.statement(text, params).map_err(|error| rejected(&error))?;
        let bytes: usize = rows.iter().flatten().map(|value| value.bytes() + 16).sum();
        match (self.rows.checked_sub(rows.len()), self.bytes.checked_sub(bytes)) {
            (Some(rows), Some(bytes)) => *self = Left { rows, bytes },
            _ => {
                let words = "the rows of an item are too large: read fewer at a time";
                return Err(failure(Code::TooLarge.as_str(), words, None));
            }
        }
        Ok(Rows { rows, changes })
    }
}

/// One statement that reads or writes rows. The platform rejects what would reach anything but this object.
fn check(text: &str) -> Rejected<()> {
    const FIRST: [&str; 7] = ["select", "with", "insert", "replace", "update", "delete", "drop trigger"];
    let text = text.trim();
    if text.is_empty() {
        let words = "a statement is empty: write one statement of SQL";
        return Err(failure(Code::BadRequest.as_str(), words, None));
    }
    let begins = |word: &str| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    // The body of a trigger has statements, which end with a semicolon.
    let is_one = !text.contains(';') && FIRST.into_iter().any(begins);
    let is_trigger = begins("create trigger")
        && text.get(text.len() - 3..).is_some_and(|end| end.eq_ignore_ascii_case("end"));
    if is_one || is_trigger { Ok(()) } else { Err(forbidden()) }
}

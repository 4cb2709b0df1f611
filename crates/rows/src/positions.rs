//! The table of positions: its creation, reading and advancing. Pure.

use crate::batch::Batch;
use crate::layout::POSITIONS_TABLE;
use crate::param::{Kind, Param};
use crate::statement::{Dialect, Grammar, Statement};
use crate::table::Column;

/// Creates the table.
#[must_use]
pub fn create(dialect: &Dialect) -> String {
    let types = &dialect.types;
    format!(
        "CREATE TABLE IF NOT EXISTS {POSITIONS_TABLE} (sink {key} PRIMARY KEY, database_id {text} NOT NULL, \
         batch {integer} NOT NULL, revisions {text} NOT NULL, resync {integer})",
        key = types.key,
        text = types.text,
        integer = types.integer,
    )
}

/// Reads the columns `database_id`, `batch`, `revisions`, `resync`.
#[must_use]
pub fn read(dialect: &Dialect, sink: &str) -> Statement {
    let mut params = Vec::new();
    let sink = parameter(dialect, &mut params, sink);
    let sql =
        format!("SELECT database_id, batch, revisions, resync FROM {POSITIONS_TABLE} WHERE sink = {sink}");
    Statement { sql, params, otherwise: None }
}

/// Changes one row if the target has the position that a batch expects, and none otherwise.
#[must_use]
pub fn advance(dialect: &Dialect, sink: &str, batch: &Batch) -> Statement {
    let (next, mut params) = (&batch.next, Vec::new());
    let resync = next.resync.map_or("NULL".to_owned(), |first| first.to_string());
    let (number, revisions) = (next.batch, next.revisions_text());
    // In the order in which they appear: not every dialect numbers its parameters.
    let mut parameter = |text: &str| parameter(dialect, &mut params, text);
    let sql = match &batch.expected {
        None => {
            let (sink, database, revisions) =
                (parameter(sink), parameter(&next.database), parameter(&revisions));
            let nothing = match dialect.grammar {
                Grammar::Conflict => "ON CONFLICT (sink) DO NOTHING",
                Grammar::Duplicate => "ON DUPLICATE KEY UPDATE sink = VALUES(sink)",
            };
            format!(
                "INSERT INTO {POSITIONS_TABLE} (sink, database_id, batch, revisions, resync) \
                 VALUES ({sink}, {database}, {number}, {revisions}, {resync}) {nothing}"
            )
        }
        Some((expected, before)) => {
            let (database, revisions) = (parameter(&next.database), parameter(&revisions));
            let (sink, expected) = (parameter(sink), parameter(expected));
            format!(
                "UPDATE {POSITIONS_TABLE} SET database_id = {database}, batch = {number}, revisions = {revisions}, \
                 resync = {resync} WHERE sink = {sink} AND database_id = {expected} AND batch = {before}"
            )
        }
    };
    Statement { sql, params, otherwise: None }
}

/// As [`advance`], for a target that runs a list of statements as one transaction and cannot look at their results in between: where it
/// has another position, this fails with a violated constraint of the column `batch`, and with it the transaction.
#[must_use]
pub fn advance_or_fail(dialect: &Dialect, sink: &str, batch: &Batch) -> Statement {
    let (next, mut params) = (&batch.next, Vec::new());
    let resync = next.resync.map_or("NULL".to_owned(), |first| first.to_string());
    let mut parameter = |text: &str| parameter(dialect, &mut params, text);
    let (name, database, revisions) =
        (parameter(sink), parameter(&next.database), parameter(&next.revisions_text()));
    let is = match &batch.expected {
        None => format!("NOT EXISTS (SELECT 1 FROM {POSITIONS_TABLE} WHERE sink = {})", parameter(sink)),
        Some((expected, before)) => format!(
            "EXISTS (SELECT 1 FROM {POSITIONS_TABLE} WHERE sink = {} AND database_id = {} AND batch = {before})",
            parameter(sink),
            parameter(expected)
        ),
    };
    // NULL where the position is another one: the column is NOT NULL.
    let number = format!("CASE WHEN {is} THEN {} END", next.batch);
    let sql = format!(
        "INSERT INTO {POSITIONS_TABLE} (sink, database_id, revisions, batch, resync) \
         VALUES ({name}, {database}, {revisions}, {number}, {resync}) ON CONFLICT (sink) DO UPDATE SET \
         database_id = excluded.database_id, revisions = excluded.revisions, batch = excluded.batch, resync = excluded.resync"
    );
    Statement { sql, params, otherwise: None }
}

/// Whether a target's error is that of [`advance_or_fail`].
#[must_use]
pub fn is_fence(error: &str) -> bool {
    error.contains(&format!("{POSITIONS_TABLE}.batch"))
}

fn parameter(dialect: &Dialect, params: &mut Vec<Param>, text: &str) -> String {
    params.push(Param::Text(text.to_owned()));
    let type_name = dialect.types.text.to_owned();
    let column = Column { quoted: String::new(), name: String::new(), type_name, kind: Kind::Text };
    (dialect.parameter)(params.len(), &column)
}

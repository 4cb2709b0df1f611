//! The one helper that builds statements with bound parameters, and chunks them by what a target takes. Pure.
//!
//! Invariant: no statement changes a row that a later batch has written.

use std::collections::BTreeMap;

use keystead_core::{Revision, ShardId, Version};

use crate::batch::{Change, Rejection, Row};
use crate::layout::{BATCH_COLUMN, DELETED_COLUMN, Deletes, Layout, VERSION_COLUMN};
use crate::param::Param;
use crate::table::{Column, Table};

/// The names of types, for statements that are suggested to users.
pub struct Types {
    /// Of a key.
    pub key: &'static str,
    /// Of text.
    pub text: &'static str,
    /// Of JSON.
    pub json: &'static str,
    /// Of whole numbers of 64 bits.
    pub integer: &'static str,
    /// Of true and false.
    pub bool: &'static str,
}

/// How an insertion meets rows that exist, and where an update finds its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// `ON CONFLICT`, and `UPDATE ... FROM`: PostgreSQL and SQLite.
    Conflict,
    /// `ON DUPLICATE KEY UPDATE`, and `UPDATE ... JOIN`: MySQL.
    Duplicate,
}

/// How a target writes what all of them can do.
pub struct Dialect {
    /// What names stand between.
    pub quote: char,
    /// How rows that exist are met.
    pub grammar: Grammar,
    /// Most bound parameters of one statement.
    pub params_max: usize,
    /// Most rows of one statement.
    pub rows_max: usize,
    /// Most bytes of values of one statement. A larger row is alone in its statement.
    pub bytes: usize,
    /// The parameter with this number (the first is 1) as a value of a column. They are numbered in the order in which they appear.
    pub parameter: fn(usize, &Column) -> String,
    /// Whether two values of a column are the same, or both NULL.
    pub same: fn(&str, &str, &Column) -> String,
    /// The names of types.
    pub types: Types,
    /// True.
    pub yes: &'static str,
    /// False.
    pub no: &'static str,
}

impl Dialect {
    /// A name as in statements.
    #[must_use]
    pub fn quoted(&self, name: &str) -> String {
        let quote = self.quote;
        format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
    }
}

/// A statement and its parameters.
#[derive(Debug)]
pub struct Statement {
    /// Its text.
    pub sql: String,
    /// Its parameters, in the order of their numbers.
    pub params: Vec<Param>,
    /// What follows if it changes fewer rows than this: some are missing.
    pub otherwise: Option<(u64, Box<Statement>)>,
}

/// A row with its parameters.
#[derive(Clone)]
struct Prepared {
    key: Param,
    version: i64,
    values: Vec<Param>,
}

impl Prepared {
    fn size(&self) -> usize {
        self.key.size() + 8 + self.values.iter().map(Param::size).sum::<usize>()
    }
}

/// Rows by what happens to them.
#[derive(Default)]
pub struct Sorted {
    puts: Vec<Prepared>,
    /// Rows of which some columns have changed.
    partial: BTreeMap<Vec<usize>, Vec<Prepared>>,
    deletes: Vec<Prepared>,
    /// Events, and those that replace one.
    events: Vec<Prepared>,
    repairs: Vec<Prepared>,
    /// Rows that cannot be stored, whatever the target says.
    pub rejected: Vec<Rejection>,
}

/// Prepares some rows of a batch.
#[must_use]
pub fn prepare<'r>(
    layout: &Layout,
    table: &Table,
    rows: impl IntoIterator<Item = (usize, &'r Row)>,
) -> Sorted {
    let mut sorted = Sorted::default();
    for (index, row) in rows {
        let prepared = prepared(layout, table, row);
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => {
                sorted.rejected.push(Rejection::new(index, &reason));
                continue;
            }
        };
        match &row.change {
            Change::Delete => sorted.deletes.push(prepared),
            Change::Event(_) => sorted.events.push(prepared),
            Change::Repair(_) => sorted.repairs.push(prepared),
            Change::Put { changed: None, .. } => sorted.puts.push(prepared),
            Change::Put { changed: Some(changed), .. } => {
                let columns = (0..table.values.len()).filter(|at| layout.is_changed(*at, changed)).collect();
                sorted.partial.entry(columns).or_default().push(prepared);
            }
        }
    }
    sorted
}

fn prepared(layout: &Layout, table: &Table, row: &Row) -> Result<Prepared, String> {
    let version = i64::try_from(row.version.0).unwrap_or(i64::MAX);
    if let Change::Event(event) | Change::Repair(event) = &row.change {
        let seq = i64::try_from(event.seq.0).unwrap_or(i64::MAX);
        return Ok(Prepared { key: Param::Integer(seq), version, values: event.params() });
    }
    let key = serde_json::Value::from(layout.key_text(&row.key));
    let key = Param::of(Some(&key), table.key.kind, &table.key.name)?;
    let values = match &row.change {
        Change::Delete | Change::Event(_) | Change::Repair(_) => Vec::new(),
        Change::Put { value, .. } => {
            let columns = table.values.iter().enumerate();
            columns
                .map(|(at, column)| Param::of(layout.value_of(at, value), column.kind, &column.name))
                .collect::<Result<_, _>>()?
        }
    };
    Ok(Prepared { key, version, values })
}

/// The statements that write these rows as part of a batch.
#[must_use]
pub fn writes(table: &Table, dialect: &Dialect, batch: u64, rows: &Sorted) -> Vec<Statement> {
    let build = Builder { table, dialect, batch };
    let all: Vec<usize> = (0..table.values.len()).collect();
    let mut statements = Vec::new();
    for chunk in build.chunks(&rows.puts, all.len() + 2) {
        statements.push(build.insert(chunk, &all, Existing::Update));
    }
    for chunk in build.chunks(&rows.events, all.len() + 2) {
        statements.push(build.insert(chunk, &all, Existing::Reject));
    }
    for chunk in build.chunks(&rows.repairs, all.len() + 2) {
        statements.push(build.insert(chunk, &all, Existing::Update));
    }
    for (columns, rows) in &rows.partial {
        for chunk in build.chunks(rows, all.len() + 2) {
            let missing = Box::new(build.insert(chunk, &all, Existing::Keep));
            let otherwise = Some((chunk.len() as u64, missing));
            statements.push(Statement { otherwise, ..build.update(chunk, columns) });
        }
    }
    for chunk in build.chunks(&rows.deletes, 1) {
        statements.push(build.delete(chunk));
    }
    statements
}

/// The statements that return the keys of rows that the target has otherwise.
#[must_use]
pub fn differing(table: &Table, dialect: &Dialect, rows: &Sorted) -> Vec<Statement> {
    let build = Builder { table, dialect, batch: 0 };
    let mut statements = Vec::new();
    for chunk in build.chunks(&rows.puts, table.values.len() + 2) {
        statements.push(build.differing(chunk));
    }
    for chunk in build.chunks(&rows.deletes, 1) {
        let mut params = Vec::new();
        let keys = build.keys(chunk, &mut params);
        let (name, key) = (&table.quoted, &table.key.quoted);
        let live = if table.deletes == Deletes::Tombstone {
            format!(" AND NOT {DELETED_COLUMN}")
        } else {
            String::new()
        };
        let sql = format!("SELECT {key} FROM {name} WHERE {key} IN ({keys}){live}");
        statements.push(Statement { sql, params, otherwise: None });
    }
    statements
}

/// The statements that return the rows of these keys: key, version, and each column of the value, all as text.
#[must_use]
pub fn look(layout: &Layout, table: &Table, dialect: &Dialect, keys: &[String]) -> Vec<Statement> {
    let build = Builder { table, dialect, batch: 0 };
    let text = match dialect.grammar {
        Grammar::Conflict => "TEXT",
        Grammar::Duplicate => "CHAR",
    };
    let as_text = |name: &str| format!("CAST({name} AS {text})");
    let columns: Vec<String> = table.values.iter().map(|column| as_text(&column.quoted)).collect();
    let live = if table.deletes == Deletes::Tombstone {
        format!(" AND NOT {DELETED_COLUMN}")
    } else {
        String::new()
    };
    let deleted = |key: &String| Row {
        key: key.clone(),
        version: Version::ZERO,
        shard: ShardId(0),
        revision: Revision::ZERO,
        change: Change::Delete,
    };
    let rows: Vec<Row> = keys.iter().map(deleted).collect();
    // A key that does not fit the column has no row.
    let sorted = prepare(layout, table, rows.iter().enumerate());
    let chunks = build.chunks(&sorted.deletes, 1).into_iter().map(|chunk| {
        let mut params = Vec::new();
        let keys = build.keys(chunk, &mut params);
        let (name, key) = (&table.quoted, &table.key.quoted);
        let shown = [as_text(key), as_text(VERSION_COLUMN)].into_iter().chain(columns.iter().cloned());
        let shown = shown.collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {shown} FROM {name} WHERE {key} IN ({keys}){live}");
        Statement { sql, params, otherwise: None }
    });
    chunks.collect()
}

/// What an insertion does with a row that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Update,
    Keep,
    Reject,
}

struct Builder<'b> {
    table: &'b Table,
    dialect: &'b Dialect,
    batch: u64,
}

impl Builder<'_> {
    /// Rows of one statement each, where each row has so many parameters.
    fn chunks<'r>(&self, rows: &'r [Prepared], params: usize) -> Vec<&'r [Prepared]> {
        let most = (self.dialect.params_max / params.max(1)).clamp(1, self.dialect.rows_max);
        let (mut chunks, mut rest) = (Vec::new(), rows);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(most).take_while(|row| {
                bytes += row.size();
                bytes <= self.dialect.bytes
            });
            let (chunk, after) = rest.split_at(fits.count().max(1));
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }

    fn parameter(&self, params: &mut Vec<Param>, param: &Param, column: &Column) -> String {
        params.push(param.clone());
        (self.dialect.parameter)(params.len(), column)
    }

    fn keys(&self, rows: &[Prepared], params: &mut Vec<Param>) -> String {
        let keys: Vec<String> =
            rows.iter().map(|row| self.parameter(params, &row.key, &self.table.key)).collect();
        keys.join(", ")
    }

    fn insert(&self, rows: &[Prepared], columns: &[usize], existing: Existing) -> Statement {
        let Table { quoted, key, values, deletes } = self.table;
        let tombstone = *deletes == Deletes::Tombstone;
        let mut params = Vec::new();
        let tuples: Vec<String> = rows
            .iter()
            .map(|row| {
                let mut parameters = vec![self.parameter(&mut params, &row.key, key)];
                parameters.extend(
                    columns.iter().map(|at| self.parameter(&mut params, &row.values[*at], &values[*at])),
                );
                parameters.push(row.version.to_string());
                parameters.push(self.batch.to_string());
                if tombstone {
                    parameters.push(self.dialect.no.to_owned());
                }
                format!("({})", parameters.join(", "))
            })
            .collect();
        let mut names: Vec<&str> = columns.iter().map(|at| values[*at].quoted.as_str()).collect();
        names.extend([VERSION_COLUMN, BATCH_COLUMN]);
        if tombstone {
            names.push(DELETED_COLUMN);
        }
        let conflict = match (existing, self.dialect.grammar) {
            (Existing::Reject, _) => String::new(),
            (_, Grammar::Conflict) => self.on_conflict(&names, existing),
            (_, Grammar::Duplicate) => self.on_duplicate_key(&names, existing),
        };
        let sql = format!(
            "INSERT INTO {quoted} ({key}, {names}) VALUES {tuples} {conflict}",
            key = key.quoted,
            names = names.join(", "),
            tuples = tuples.join(", "),
        );
        Statement { sql, params, otherwise: None }
    }

    fn on_conflict(&self, names: &[&str], existing: Existing) -> String {
        let Table { quoted, key, .. } = self.table;
        let what = match existing {
            Existing::Keep | Existing::Reject => "NOTHING".to_owned(),
            Existing::Update => {
                let sets: Vec<String> =
                    names.iter().map(|name| format!("{name} = excluded.{name}")).collect();
                let sets = sets.join(", ");
                format!("UPDATE SET {sets} WHERE {quoted}.{BATCH_COLUMN} < excluded.{BATCH_COLUMN}")
            }
        };
        format!("ON CONFLICT ({}) DO {what}", key.quoted)
    }

    /// The row that exists may be one of another key, with the same value in another unique column: then NULL is assigned to a column
    /// that is NOT NULL, so that the statement fails. Assignments are executed in their order, so the number of the batch is the last.
    fn on_duplicate_key(&self, names: &[&str], existing: Existing) -> String {
        let (key, batch) = (&self.table.key.quoted, self.batch);
        let mut sets = Vec::new();
        let mut number = BATCH_COLUMN.to_owned();
        if existing == Existing::Update {
            let others = names.iter().filter(|name| **name != BATCH_COLUMN);
            sets.extend(
                others.map(|name| format!("{name} = IF({BATCH_COLUMN} < {batch}, VALUES({name}), {name})")),
            );
            number = format!("GREATEST({BATCH_COLUMN}, {batch})");
        }
        sets.push(format!("{BATCH_COLUMN} = IF({key} <=> VALUES({key}), {number}, NULL)"));
        format!("ON DUPLICATE KEY UPDATE {}", sets.join(", "))
    }

    /// Rows as a table `v` with the columns `k`, `n` (the version) and `c0`, `c1`, ...
    fn as_table(&self, rows: &[Prepared], columns: &[usize], params: &mut Vec<Param>) -> String {
        let Table { key, values, .. } = self.table;
        let selects: Vec<String> = rows
            .iter()
            .map(|row| {
                let mut parts = vec![format!("{} AS k", self.parameter(params, &row.key, key))];
                parts.push(format!("{} AS n", row.version));
                parts.extend(columns.iter().map(|at| {
                    format!("{} AS c{at}", self.parameter(params, &row.values[*at], &values[*at]))
                }));
                format!("SELECT {}", parts.join(", "))
            })
            .collect();
        format!("({}) AS v", selects.join(" UNION ALL "))
    }

    fn update(&self, rows: &[Prepared], columns: &[usize]) -> Statement {
        let Table { quoted, key, values, deletes } = self.table;
        let mut params = Vec::new();
        let from = self.as_table(rows, columns, &mut params);
        // A key that was deleted is new, and all of it has changed: a tombstone is not updated in parts.
        let live =
            if *deletes == Deletes::Tombstone { format!(" AND NOT {DELETED_COLUMN}") } else { String::new() };
        let mut sets: Vec<String> =
            columns.iter().map(|at| format!("{} = v.c{at}", values[*at].quoted)).collect();
        sets.push(format!("{VERSION_COLUMN} = v.n"));
        sets.push(format!("{BATCH_COLUMN} = {}", self.batch));
        let (sets, key, batch) = (sets.join(", "), &key.quoted, self.batch);
        let sql = match self.dialect.grammar {
            Grammar::Conflict => format!(
                "UPDATE {quoted} SET {sets} FROM {from} WHERE {quoted}.{key} = v.k AND {quoted}.{BATCH_COLUMN} < {batch}{live}"
            ),
            Grammar::Duplicate => format!(
                "UPDATE {quoted} JOIN {from} ON {quoted}.{key} = v.k SET {sets} WHERE {BATCH_COLUMN} < {batch}{live}"
            ),
        };
        Statement { sql, params, otherwise: None }
    }

    fn delete(&self, rows: &[Prepared]) -> Statement {
        let Table { quoted, key, deletes, .. } = self.table;
        let (mut params, batch) = (Vec::new(), self.batch);
        let keys = self.keys(rows, &mut params);
        let which = format!("WHERE {} IN ({keys}) AND {BATCH_COLUMN} < {batch}", key.quoted);
        let sql = match deletes {
            Deletes::Delete => format!("DELETE FROM {quoted} {which}"),
            Deletes::Tombstone => {
                let yes = self.dialect.yes;
                format!("UPDATE {quoted} SET {DELETED_COLUMN} = {yes}, {BATCH_COLUMN} = {batch} {which}")
            }
        };
        Statement { sql, params, otherwise: None }
    }

    fn differing(&self, rows: &[Prepared]) -> Statement {
        let Table { quoted, key, values, deletes } = self.table;
        let all: Vec<usize> = (0..values.len()).collect();
        let mut params = Vec::new();
        let from = self.as_table(rows, &all, &mut params);
        let mut differs = vec![format!("t.{} IS NULL", key.quoted), format!("t.{VERSION_COLUMN} <> v.n")];
        if *deletes == Deletes::Tombstone {
            differs.push(format!("t.{DELETED_COLUMN}"));
        }
        for (at, column) in values.iter().enumerate() {
            let same = (self.dialect.same)(&format!("t.{}", column.quoted), &format!("v.c{at}"), column);
            differs.push(format!("NOT ({same})"));
        }
        let sql = format!(
            "SELECT v.k FROM {from} LEFT JOIN {quoted} AS t ON t.{key} = v.k WHERE {differs}",
            key = key.quoted,
            differs = differs.join(" OR "),
        );
        Statement { sql, params, otherwise: None }
    }
}

#[cfg(test)]
#[path = "statement_tests.rs"]
pub mod tests;

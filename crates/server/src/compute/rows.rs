//! The model's executor over rows that were fetched: it answers from them, notes what is missing, and collects what is to be written.
//! Touches nothing.
//!
//! The executor is synchronous and the storage service is far away. So a query whose rows are not here fails and is noted; the batch is
//! rolled back, the rows are fetched, and it runs again. Statements that write are kept until the batch is sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_core::{Code, Error, Result};
use keystead_http_api::statements::{Row, Rows as Found, Statement, Value};
use keystead_model::sql::{Cell, ELEMENTS, FIND, Param, READ_META, Sql};

/// What a batch knows of the rows. Shared with the keyspace that reads them.
#[derive(Clone, Default)]
pub(super) struct Rows(Arc<Mutex<Known>>);

#[derive(Default)]
pub(super) struct Known {
    found: HashMap<(&'static str, String), Vec<Row>>,
    /// Queries without rows here.
    pub(super) missing: Vec<(&'static str, Row)>,
    /// Statements that are to be executed.
    pub(super) writes: Vec<Statement>,
    /// Whether rows of all keys were read, not only those of names.
    pub(super) read_all: bool,
    /// Whether rows of all keys may be read although something is to be written: a job that only reads has expired what it met.
    pub(super) only_reads: bool,
    /// The revision of the rows when they were fetched last.
    pub(super) revision: u64,
}

impl Rows {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a query.
fn query_of(sql: &'static str, params: &[Value]) -> (&'static str, String) {
    (sql, format!("{params:?}"))
}

/// The statements that read all rows of a key by its name, and the revision of the rows first.
pub(super) fn all_of_key(name: &[u8]) -> Vec<Statement> {
    let by_name = ELEMENTS
        .iter()
        .map(|sql| sql.replace("key_id = ?1", "key_id = (SELECT id FROM keys WHERE name = ?1)"));
    let find = std::iter::once(FIND.to_owned());
    let name = || vec![Value::Blob(name.to_vec())];
    std::iter::once(revision())
        .chain(find.chain(by_name).map(|sql| Statement { sql: sql.into(), params: name() }))
        .collect()
}

/// How many statements these are.
pub(super) const OF_KEY: usize = ELEMENTS.len() + 2;

/// The statement that reads the revision of the rows.
pub(super) fn revision() -> Statement {
    Statement { sql: READ_META.into(), params: vec![Value::Text("revision".to_owned())] }
}

/// A whole number of a row.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Real(number) if number.fract() == 0.0 && *number >= 0.0 => Some(*number as u64),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

impl Known {
    /// A new attempt: nothing is missing or to be written.
    pub(super) fn begin(&mut self) {
        self.missing.clear();
        self.writes.clear();
        self.read_all = false;
    }

    /// A new batch: nothing is known.
    pub(super) fn clear(&mut self) {
        *self = Known { revision: self.revision, ..Known::default() };
    }

    /// Forgets rows of all keys, which may have changed.
    pub(super) fn forget_all(&mut self) {
        self.found.retain(|(sql, _), _| is_of_key(sql));
    }

    /// The rows of a key, as [`all_of_key`] reads them.
    pub(super) fn add_key(&mut self, name: &[u8], results: Vec<Found>) -> Result<()> {
        let mut results = results.into_iter();
        let (Some(revision), Some(found), ELEMENTS_LEN) = (results.next(), results.next(), results.len())
        else {
            return Err(Error::new(Code::Internal, "storage: an answer has too few results"));
        };
        self.learn(&revision);
        let id = found.rows.first().and_then(|row| row.first()).cloned();
        self.found.insert(query_of(FIND, &[Value::Blob(name.to_vec())]), found.rows);
        if let Some(id) = number(id.as_ref()).and_then(|id| i64::try_from(id).ok()) {
            for (sql, elements) in ELEMENTS.iter().zip(results) {
                self.found.insert(query_of(sql, &[Value::Int(id)]), elements.rows);
            }
        }
        Ok(())
    }

    /// The rows of a query.
    pub(super) fn add(&mut self, sql: &'static str, params: &[Value], rows: Vec<Row>) {
        self.found.insert(query_of(sql, params), rows);
    }

    /// The revision that was read.
    pub(super) fn learn(&mut self, result: &Found) {
        let found = number(result.rows.first().and_then(|row| row.first()));
        self.revision = self.revision.max(found.unwrap_or(0));
    }
}

const ELEMENTS_LEN: usize = ELEMENTS.len();

fn is_of_key(sql: &str) -> bool {
    sql == FIND || sql == READ_META || ELEMENTS.contains(&sql)
}

impl Sql for Rows {
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        let params = params.iter().map(Value::from).collect();
        self.known().writes.push(Statement { sql: sql.into(), params });
        // What the statement changes is what was looked up, and that is compared when it is executed.
        Ok(1)
    }

    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let params: Row = params.iter().map(Value::from).collect();
        let mut known = self.known();
        if !is_of_key(sql) {
            known.read_all = true;
            if !known.writes.is_empty() && !known.only_reads {
                let words = "split mode does not read over all keys after a change in the same transaction: send it on its own";
                return Err(Error::new(Code::Unsupported, words));
            }
        }
        let Some(found) = known.found.get(&query_of(sql, &params)) else {
            known.missing.push((sql, params));
            return Err(Error::new(Code::TryAgain, "rows are not here yet"));
        };
        found.iter().try_for_each(|cells| row(&cells.iter().map(Value::param).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_of_a_key_are_read_by_its_name() {
        let all = all_of_key(b"k");
        assert_eq!(all.len(), OF_KEY);
        for statement in &all[2..] {
            assert!(statement.sql.contains("(SELECT id FROM keys WHERE name = ?1)"), "{}", statement.sql);
        }
    }

    #[test]
    fn what_is_not_here_is_noted_and_then_found() {
        let mut rows = Rows::default();
        let name = [Param::Blob(b"k")];
        assert_eq!(rows.query(FIND, &name, &mut |_| Ok(())).unwrap_err().code(), Code::TryAgain);
        assert_eq!(rows.known().missing.len(), 1);
        let result = |rows| Found { rows, changes: 0 };
        let mut results =
            vec![result(vec![vec![Value::Int(7)]]), result(vec![vec![Value::Int(3), Value::Null]])];
        results.extend((0..ELEMENTS.len()).map(|_| result(Vec::new())));
        rows.known().add_key(b"k", results).unwrap();
        assert_eq!(rows.known().revision, 7);
        let mut count = 0;
        let mut counting = |by| {
            count += by;
            Ok(())
        };
        rows.query(FIND, &name, &mut |_| counting(1)).unwrap();
        rows.query(ELEMENTS[0], &[Param::Int(3)], &mut |_| counting(10)).unwrap();
        assert_eq!(count, 1);
    }
}

//! Archives: rows of any cells, as a damaged or foreign SQLite file may have them. Loading the directory and fetching values succeeds or is an
//! error, and what was loaded can be read and expires.

#![no_main]

use std::sync::{Arc, Mutex};

use keystead_core::{Millis, Result};
use keystead_fuzz::source::Source;
use keystead_model::keyspace::{Keyspace, ValueReader};
use keystead_model::sql::{self, Cell, Param, Sql};
use keystead_model::value::{Kind, Value};
use libfuzzer_sys::fuzz_target;

/// Most rows of a query.
const ROWS_MAX: usize = 6;

/// Texts that are meaningful in some column.
const WORDS: [&str; 10] =
    ["string", "json", "state", "hash", "list", "set", "zset", "stream", "revision", "{}"];

/// A database that returns the next values of an input for every query.
struct Rows {
    bytes: Vec<u8>,
    at: usize,
}

impl Rows {
    fn take<T>(&mut self, take: impl FnOnce(&mut Source<'_>) -> T) -> T {
        let mut source = Source::new(&self.bytes[self.at..]);
        let taken = take(&mut source);
        self.at = self.bytes.len() - source.rest().len();
        taken
    }
}

/// A cell with contents of its own.
enum Owned {
    Null,
    Int(i64),
    Real(f64),
    Text(&'static str),
    Blob(Vec<u8>),
}

/// A number that is not a large id: a table allocates all slots below an id.
fn number(source: &mut Source<'_>) -> i64 {
    let number = source.number() as i64;
    if u32::try_from(number).is_ok() { number % 4096 } else { number }
}

impl Owned {
    fn take(source: &mut Source<'_>, count: i64) -> Owned {
        match source.byte() {
            0..=15 => Owned::Null,
            16..=31 => Owned::Real(f64::from_bits(source.number() | 1)),
            32..=47 => Owned::Real(f64::from(source.byte()) / 4.0),
            48..=79 => Owned::Int(number(source)),
            80..=127 => Owned::Text(source.one_of(&WORDS)),
            128..=191 => Owned::Blob(source.short().to_vec()),
            // As most columns have: a small number that grows from row to row.
            _ => Owned::Int(count),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Owned::Null => Cell::Null,
            Owned::Int(n) => Cell::Int(*n),
            Owned::Real(n) => Cell::Real(*n),
            Owned::Text(text) => Cell::Text(text),
            Owned::Blob(bytes) => Cell::Blob(bytes),
        }
    }
}

impl Sql for Rows {
    fn run(&mut self, _: &'static str, _: &[Param<'_>]) -> Result<u64> {
        Ok(1)
    }

    fn query(
        &mut self,
        sql: &'static str,
        _: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()> {
        let columns = sql.split(" FROM ").next().unwrap_or(sql).matches(',').count() + 1;
        // A count is computed by SQLite, so a file cannot forge it.
        if sql.starts_with("SELECT count(*)") {
            return row(&[Cell::Int(ROWS_MAX as i64)]);
        }
        for count in 0..self.take(|source| source.below(ROWS_MAX)) {
            let cells: Vec<_> =
                (0..columns).map(|_| self.take(|source| Owned::take(source, count as i64 + 1))).collect();
            row(&cells.iter().map(Owned::cell).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Reads values from the same input.
struct FromRows(Arc<Mutex<Rows>>);

impl ValueReader for FromRows {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        sql::fetch(&mut *self.0.lock().expect("no holder panics"), id, kind)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let rows = Arc::new(Mutex::new(Rows { bytes: bytes.to_vec(), at: 0 }));
    let mut keyspace = Keyspace::new(Box::new(FromRows(Arc::clone(&rows))));
    let _ = sql::audit(&mut *rows.lock().expect("no holder panics"));
    let loaded = sql::load(&mut *rows.lock().expect("no holder panics"), &mut keyspace);
    // What the schema rejects, such as a duplicate name, is reported by `keystead check`.
    if loaded.is_ok() && keyspace.check().is_ok() {
        let names: Vec<_> = keyspace.dump().unwrap_or_default().into_iter().map(|dump| dump.key).collect();
        for now in [Millis(0), Millis(3), Millis(u64::MAX / 2)] {
            for name in &names {
                let _ = keyspace.value(name, now).map(|value| value.is_some());
            }
            let _ = keyspace.reclaim(now, &mut { 100 });
        }
        let _ = keyspace.check();
    }
    for kind in
        [Kind::Str, Kind::Json, Kind::State, Kind::Hash, Kind::List, Kind::Set, Kind::ZSet, Kind::Stream]
    {
        let _ = sql::fetch(&mut *rows.lock().expect("no holder panics"), 1, kind);
    }
});

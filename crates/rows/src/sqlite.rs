//! How SQLite writes what all targets can do, and what its tables look like: a file, or Cloudflare's D1. Pure.

use crate::bounds::{D1_PARAMS_MAX, D1_STATEMENT_BYTES, SQLITE_PARAMS_MAX, SQLITE_ROWS_MAX, STATEMENT_BYTES};
use crate::param::Kind;
use crate::statement::{Dialect, Grammar, Types};
use crate::table::{Found, FoundColumn};

/// A file.
pub const DIALECT: Dialect = Dialect {
    quote: '"',
    grammar: Grammar::Conflict,
    bytes: STATEMENT_BYTES,
    params_max: SQLITE_PARAMS_MAX,
    rows_max: SQLITE_ROWS_MAX,
    parameter: |number, _| format!("?{number}"),
    same: |one, other, _| format!("{one} IS {other}"),
    types: Types { key: "TEXT", text: "TEXT", json: "TEXT", integer: "INTEGER", bool: "INTEGER" },
    yes: "1",
    no: "0",
};

/// D1.
pub const D1: Dialect = Dialect { bytes: D1_STATEMENT_BYTES, params_max: D1_PARAMS_MAX, ..DIALECT };

/// The columns of the table in the first parameter: see [`ColumnRow`].
pub const COLUMNS: &str = "SELECT name, type, \"notnull\" AND dflt_value IS NULL AND NOT (pk AND type = 'INTEGER'), hidden > 1, pk \
    FROM pragma_table_xinfo(?1)";

/// The columns of the table in the first parameter that are unique by themselves.
pub const UNIQUE: &str = "SELECT min(c.name) FROM pragma_index_list(?1) AS i, pragma_index_info(i.name) AS c \
    WHERE i.\"unique\" AND NOT i.partial GROUP BY i.name HAVING count(*) = 1";

/// A row of [`COLUMNS`].
pub struct ColumnRow {
    /// The name.
    pub name: String,
    /// The declared type.
    pub type_name: String,
    /// A row without it is rejected.
    pub is_required: bool,
    /// SQLite computes it.
    pub is_generated: bool,
    /// It is part of the primary key.
    pub is_key: bool,
}

/// The table that has these columns. None: there is no such table.
#[must_use]
pub fn found(columns: Vec<ColumnRow>, mut unique: Vec<String>) -> Option<Found> {
    if columns.is_empty() {
        return None;
    }
    if let [key] = &columns.iter().filter(|column| column.is_key).collect::<Vec<_>>()[..] {
        unique.push(key.name.clone());
    }
    let columns =
        columns.into_iter().map(|ColumnRow { name, type_name, is_required, is_generated, .. }| {
            let kind = kind_of(&type_name);
            FoundColumn { name, type_name, kind, is_required, is_generated }
        });
    Some(Found { columns: columns.collect(), unique })
}

fn kind_of(type_name: &str) -> Kind {
    let upper = type_name.to_ascii_uppercase();
    // By the rules of column affinity.
    if upper.contains("INT") {
        Kind::Integer
    } else if upper.contains("JSON") {
        Kind::Json
    } else if ["CHAR", "CLOB", "TEXT"].iter().any(|word| upper.contains(word)) {
        Kind::Text
    } else if ["REAL", "FLOA", "DOUB"].iter().any(|word| upper.contains(word)) {
        Kind::Real
    } else if upper.contains("BOOL") {
        Kind::Bool
    } else {
        Kind::Other
    }
}

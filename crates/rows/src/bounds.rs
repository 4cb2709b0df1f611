//! Every bound of rows, named in one file. The comment of each constant says what happens when it is reached.

/// Most bytes of a target's reason for rejecting a row. The rest is cut off.
pub const REASON_BYTES_MAX: usize = 400;

/// Most bytes of a table's or column's name. Longer ones are rejected with `config_invalid`; PostgreSQL would cut them off.
pub const NAME_BYTES_MAX: usize = 63;

/// Most bytes of values of one statement. A larger row is alone in its statement.
pub const STATEMENT_BYTES: usize = 8 * 1024 * 1024;

/// Bound parameters of one statement of SQLite, as it is built by default. More rows are in the next statement.
pub const SQLITE_PARAMS_MAX: usize = 32_766;

/// Rows of one statement of SQLite: it joins at most 500 `SELECT`s. More rows are in the next statement.
pub const SQLITE_ROWS_MAX: usize = 500;

/// Bound parameters of one statement of Cloudflare D1. More rows are in the next statement.
pub const D1_PARAMS_MAX: usize = 100;

/// Most bytes of values of one statement of D1. A larger row is alone in its statement.
pub const D1_STATEMENT_BYTES: usize = 512 * 1024;

//! Every bound of the sinks, named in one file. The comment of each constant says what happens when it is reached.

use std::time::Duration;

/// Most rows of one statement. More rows are in the next one.
pub const STATEMENT_ROWS_MAX: usize = 1_000;

/// Bytes of values after which a statement takes no further row.
pub const STATEMENT_BYTES: usize = 8 * 1024 * 1024;

/// Most rejected rows that one write reports. If there are more, the next write reports them.
pub const REJECTIONS_MAX: usize = 100;

/// Most bytes of a target's reason for rejecting a row. The rest is cut off.
pub const REASON_BYTES_MAX: usize = 400;

/// How long a call of a target may take, unless the URL says otherwise (`deadline=`). Then it is `store_unavailable`, of unknown outcome.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The shortest and the longest deadline. Others are rejected with `config_invalid`.
pub const DEADLINE_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(600);

/// How long a login may take. Then it is `store_unavailable`.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Most bytes of a table's or column's name. Longer ones are rejected with `config_invalid`; PostgreSQL would cut them off.
pub const NAME_BYTES_MAX: usize = 63;

/// Bound parameters of one statement: the limit of PostgreSQL's protocol. More rows are in the next statement.
pub const POSTGRES_PARAMS_MAX: usize = 65_535;

/// The same of SQLite, as it is built by default.
pub const SQLITE_PARAMS_MAX: usize = 32_766;

/// Rows of one statement of SQLite: it joins at most 500 `SELECT`s. More rows are in the next statement.
pub const SQLITE_ROWS_MAX: usize = 500;

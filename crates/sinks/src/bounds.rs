//! Every bound of the sinks, named in one file. The comment of each constant says what happens when it is reached.

use std::time::Duration;

/// Most rows of one statement. More rows are in the next one.
pub const STATEMENT_ROWS_MAX: usize = 1_000;

/// Most rejected rows that one write reports. If there are more, the next write reports them.
pub const REJECTIONS_MAX: usize = 100;

/// How long a call of a target may take, unless the URL says otherwise (`deadline=`). Then it is `store_unavailable`, of unknown outcome.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The shortest and the longest deadline. Others are rejected with `config_invalid`.
pub const DEADLINE_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(600);

/// How long a login may take. Then it is `store_unavailable`.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Bound parameters of one statement: the limit of PostgreSQL's protocol. More rows are in the next statement.
pub const POSTGRES_PARAMS_MAX: usize = 65_535;

/// Bound parameters of one statement: the limit of MySQL's protocol. More rows are in the next statement.
pub const MYSQL_PARAMS_MAX: usize = 65_535;

/// Rows of one statement of MySQL, whose parser needs stack for each `SELECT` that is joined. More rows are in the next statement.
pub const MYSQL_ROWS_MAX: usize = 500;

/// Prepared statements that a connection to MySQL keeps. The one used longest ago is closed first.
pub const MYSQL_STATEMENTS_KEPT: usize = 8;

/// Most events of one request of a webhook, unless the URL says otherwise (`events=`). More are in the next request.
pub const WEBHOOK_EVENTS: usize = 100;

/// The fewest and the most events of one request (`events=`). Others are rejected with `config_invalid`.
pub const WEBHOOK_EVENTS_RANGE: std::ops::RangeInclusive<usize> = 1..=1_000;

/// Bytes of a request's body after which it takes no further event. A larger event is alone in its request.
pub const WEBHOOK_BODY_BYTES: usize = 1024 * 1024;

/// Most bytes of a webhook's response that are read. The rest is not, and the connection is closed.
pub const WEBHOOK_REPLY_BYTES_MAX: usize = 64 * 1024;

/// The longest time that a webhook is left alone when it asks for it (`Retry-After`). A longer one is cut to this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Fewest bytes of a secret of a webhook. A shorter one is rejected with `config_invalid`.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

/// Most rows of one atomic batch of NATS, beside the position: the server's limit of 1,000 messages. More rows are in the next one.
pub const NATS_ROWS_MAX: usize = 999;

/// Longest subject of a message on NATS. A row whose key makes it longer is rejected.
pub const NATS_SUBJECT_BYTES_MAX: usize = 3_500;

/// What the headers of a message on NATS take, beside its subject. A row that does not fit with them is rejected.
pub const NATS_HEADER_BYTES: usize = 1_024;

/// Rows of an event log that one statement reads for a page. More are read by the next one.
pub const LOG_SLICE_ROWS: usize = 16;

/// Events that one page goes through to find those of a prefix. The next page goes on.
pub const LOG_SCAN_EVENTS: u64 = 100_000;

/// Events of one key that one statement reads. More are read by the next one.
pub const LOG_FOLD_ROWS: usize = 1_000;

/// Most events since the last whole value of one key. With more its state is `too_large` until the log is compacted.
pub const LOG_FOLD_EVENTS_MAX: usize = 1_000_000;

/// Rows of an event log that one statement of a compaction goes through. More are in the next one.
pub const LOG_COMPACT_ROWS: usize = 5_000;

/// Keys, and about as many bytes of values, that one step of a compaction makes whole. More are in the next one.
pub const LOG_FOLD_KEYS: usize = 100;
/// See [`LOG_FOLD_KEYS`].
pub const LOG_FOLD_BYTES: usize = 1 << 20;

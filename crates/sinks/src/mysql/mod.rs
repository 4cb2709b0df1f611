//! MySQL and MariaDB. Accesses that server, and creates the table of positions there.
//!
//! Sessions are strict, so nothing is cut off or replaced silently, and only InnoDB takes part in transactions, so other tables are
//! rejected. A key column must distinguish what Keystead distinguishes: most collations take `a` and `A` for the same.
//!
//! | To find                                  | open      |
//! |------------------------------------------|-----------|
//! | logging in, and what errors mean         | `connect` |
//! | what the table looks like                | `look`    |

mod connect;
mod look;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use keystead_rows::bounds::STATEMENT_BYTES;
use keystead_stores::connect::Url;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tokio::sync::Mutex;

use crate::batch::{Batch, Position, Row, Shown, Written};
use crate::bounds::{CONNECT_WITHIN, MYSQL_PARAMS_MAX, MYSQL_ROWS_MAX};
use crate::layout::{BATCH_COLUMN, DELETED_COLUMN, Deletes, Layout, Values};
use crate::log::{Cells, Compaction, LogTarget, Query};
use crate::param::{Kind, Param};
use crate::session::{Call, Failed, Session, Writer, transaction};
use crate::statement::{Dialect, Grammar, Statement, Types, differing, look, prepare};
use crate::table::{Column, Table};
use crate::{Capabilities, Scheme, Sink, SinkFuture, deadline, log, positions};
use connect::{Target, failed};

pub(super) const MYSQL: Scheme = Scheme {
    name: "mysql",
    form: "mysql://USER:PASSWORD@HOST:3306/DATABASE?tls=false&deadline=30s",
    about: "MySQL",
    open,
};

pub(super) const MARIADB: Scheme = Scheme {
    name: "mariadb",
    form: "mariadb://USER:PASSWORD@HOST:3306/DATABASE?tls=false&deadline=30s",
    about: "MariaDB",
    open,
};

/// How values are written, with the key's type in tables that are suggested: of a collation that distinguishes all texts.
const fn dialect(key: &'static str, bytes: usize) -> Dialect {
    Dialect {
        quote: '`',
        grammar: Grammar::Duplicate,
        params_max: MYSQL_PARAMS_MAX,
        rows_max: MYSQL_ROWS_MAX,
        bytes,
        parameter: |_, column| match column.type_name.split_once(" COLLATE ") {
            Some((_, collation)) => format!("? COLLATE {collation}"),
            None if column.type_name.starts_with("varbinary") => "CAST(? AS BINARY)".to_owned(),
            None => "?".to_owned(),
        },
        same,
        types: Types { key, text: "longtext", json: "json", integer: "bigint", bool: "boolean" },
        yes: "TRUE",
        no: "FALSE",
    }
}

const MYSQL_KEY: &str = "varchar(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin";
const MARIADB_KEY: &str = "varchar(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";

/// Texts are compared byte by byte, whatever their collation; a value in the form that its column gives it.
fn same(one: &str, other: &str, column: &Column) -> String {
    let name = column.type_name.split(['(', ' ']).next().unwrap_or_default();
    let size = column.type_name.find(')').map_or(column.type_name.as_str(), |end| &column.type_name[..=end]);
    match name {
        "float" => format!("({one} <=> {other} OR ABS({one} - {other}) <= ABS({other}) * 1e-6)"),
        "json" => format!("{one} <=> CAST({other} AS JSON)"),
        "decimal" => format!("{one} <=> CAST({other} AS {size})"),
        "date" => format!("{one} <=> CAST({other} AS DATE)"),
        "datetime" | "timestamp" => format!("{one} <=> CAST({other} AS DATETIME(6))"),
        "time" => format!("{one} <=> CAST({other} AS TIME(6))"),
        _ if matches!(column.kind, Kind::Integer | Kind::Real | Kind::Bool) => format!("{one} <=> {other}"),
        _ => format!("CAST(CONVERT({one} USING utf8mb4) AS BINARY) <=> CAST({other} AS BINARY)"),
    }
}

struct MysqlSink {
    target: Target,
    layout: Layout,
    deadline: Duration,
    state: Mutex<State>,
}

/// The connection, and what is known of the server and its table. Both are found out again after an error.
#[derive(Default)]
struct State {
    connection: Option<Conn>,
    known: Option<Arc<Known>>,
}

struct Known {
    dialect: Dialect,
    table: Table,
    /// Most bytes of the values of a request, by `max_allowed_packet`.
    request_bytes: usize,
}

struct MysqlSession<'c> {
    connection: &'c mut Conn,
    request_bytes: usize,
}

fn open(url: &Url<'_>, layout: Layout) -> Result<Arc<dyn Sink>> {
    let deadline = deadline(url)?;
    let target = Target::of(url, deadline)?;
    url.finish()?;
    Ok(Arc::new(MysqlSink { target, layout, deadline, state: Mutex::default() }))
}

impl MysqlSink {
    /// Runs something on the connection, which is closed if it fails or takes too long.
    async fn with<T>(&self, run: impl AsyncFnOnce(&mut Conn, Arc<Known>) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock().await;
        let mut connection = match state.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let known = state.known.take();
        let call = async {
            let known = match known {
                Some(known) => known,
                None => Arc::new(look::look(&mut connection, &self.layout).await?),
            };
            let result = run(&mut connection, Arc::clone(&known)).await?;
            Ok::<_, Error>((result, known))
        };
        match tokio::time::timeout(self.deadline, call).await {
            Ok(Ok((result, known))) => {
                *state = State { connection: Some(connection), known: Some(known) };
                Ok(result)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                connect::abandon(connection);
                let message = format!("the MySQL server did not reply within {:?}", self.deadline);
                Err(Error::unknown(Code::StoreUnavailable, message))
            }
        }
    }

    async fn connect(&self) -> Result<Conn> {
        let mut connecting = self.target.connect();
        match tokio::time::timeout(CONNECT_WITHIN.min(self.deadline), &mut connecting).await {
            Ok(connected) => connected.map_err(|error| connect::to_connect(&self.target, &error)),
            Err(_) => {
                connect::abandon(connecting);
                let message = format!("the server at {} did not greet as a MySQL server does", self.target);
                Err(Error::new(Code::StoreUnavailable, message))
            }
        }
    }

    async fn keys_after(
        &self,
        connection: &mut Conn,
        known: &Known,
        after: Option<&str>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<String>> {
        let Known { table, dialect, .. } = known;
        let Column { quoted: key, kind, .. } = &table.key;
        // Numbers are in the order of their text.
        let text = match kind {
            Kind::Integer => format!("CAST(CAST({key} AS CHAR) AS BINARY)"),
            _ => key.clone(),
        };
        let mut sql = format!("SELECT {text} FROM {} WHERE {BATCH_COLUMN} > 0", table.quoted);
        if let Some(before) = before {
            sql.push_str(&format!(" AND {BATCH_COLUMN} < {before}"));
        }
        if table.deletes == Deletes::Tombstone {
            sql.push_str(&format!(" AND NOT {DELETED_COLUMN}"));
        }
        let mut params = Vec::new();
        if let Some(after) = after {
            params.push(Param::Text(self.layout.key_text(after).to_owned()));
            let place = match kind {
                Kind::Integer => "CAST(? AS BINARY)".to_owned(),
                _ => (dialect.parameter)(1, &table.key),
            };
            sql.push_str(&format!(" AND {text} > {place}"));
        }
        sql.push_str(&format!(" ORDER BY {text} LIMIT {most}"));
        let rows = query(connection, &Statement { sql, params, otherwise: None }).await?;
        Ok(rows.into_iter().map(|row| self.layout.key_of(text_at(&row, 0))).collect())
    }
}

impl Session for MysqlSession<'_> {
    const BEGIN_TRIAL: &'static str = "BEGIN";

    async fn command(&mut self, sql: &str) -> Call<()> {
        self.connection.query_drop(sql).await.map_err(|error| failed(&error))
    }

    async fn execute(&mut self, statement: &Statement) -> Call<u64> {
        // Only a row that is alone in its statement can be as large.
        let bytes: usize = statement.params.iter().map(Param::size).sum();
        if bytes > self.request_bytes {
            return Err(Failed::Row(format!(
                "the row takes {bytes} bytes, and max_allowed_packet of the server leaves {}: raise it",
                self.request_bytes
            )));
        }
        self.connection
            .exec_drop(&statement.sql, values(&statement.params))
            .await
            .map_err(|error| failed(&error))?;
        Ok(self.connection.affected_rows())
    }
}

fn values(params: &[Param]) -> Params {
    if params.is_empty() {
        return Params::Empty;
    }
    let value = |param: &Param| match param {
        Param::Null => Value::NULL,
        Param::Bool(value) => Value::Int(i64::from(*value)),
        Param::Integer(value) => Value::Int(*value),
        Param::Real(value) => Value::Double(*value),
        Param::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
    };
    Params::Positional(params.iter().map(value).collect())
}

async fn query(connection: &mut Conn, statement: &Statement) -> Call<Vec<mysql_async::Row>> {
    connection.exec(&statement.sql, values(&statement.params)).await.map_err(|error| failed(&error))
}

/// A column as text; NULL is empty.
fn text_at(row: &mysql_async::Row, column: usize) -> String {
    match row.as_ref(column) {
        Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::UInt(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// A column as a number, if it is one.
fn integer_at(row: &mysql_async::Row, column: usize) -> Option<i64> {
    match row.as_ref(column) {
        Some(Value::NULL) | None => None,
        _ => text_at(row, column).parse().ok(),
    }
}

impl Sink for MysqlSink {
    fn scheme(&self) -> &'static str {
        "mysql"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_position: true, readable: true }
    }

    fn probe(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            self.state.lock().await.known = None;
            self.with(async |_, _| Ok(())).await
        })
    }

    fn position(&self) -> SinkFuture<'_, Option<Position>> {
        Box::pin(self.with(async |connection, known| {
            let read = positions::read(&known.dialect, &self.layout.sink);
            let rows = query(connection, &read).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let batch = integer_at(row, 1).unwrap_or(-1);
            Position::of_parts(text_at(row, 0), batch, &text_at(row, 2), integer_at(row, 3)).map(Some)
        }))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written> {
        Box::pin(self.with(async |connection, known| {
            let Known { dialect, table, request_bytes } = &*known;
            let session = &mut MysqlSession { connection, request_bytes: *request_bytes };
            Writer { session, dialect, layout: &self.layout, table, batch }.write().await
        }))
    }

    fn keys<'a>(
        &'a self,
        after: Option<&'a str>,
        before: Option<u64>,
        most: usize,
    ) -> SinkFuture<'a, Vec<String>> {
        Box::pin(self.with(async move |connection, known| {
            self.keys_after(connection, &known, after, before, most).await
        }))
    }

    fn differing<'a>(&'a self, rows: &'a [Row]) -> SinkFuture<'a, Vec<String>> {
        Box::pin(self.with(async |connection, known| {
            let Known { dialect, table, .. } = &*known;
            let sorted = prepare(&self.layout, table, rows.iter().enumerate());
            let mut keys: Vec<String> =
                sorted.rejected.iter().map(|rejection| rows[rejection.row].key.clone()).collect();
            for statement in differing(table, dialect, &sorted) {
                let found = query(connection, &statement).await?;
                keys.extend(found.iter().map(|row| self.layout.key_of(text_at(row, 0))));
            }
            Ok(keys)
        }))
    }

    fn look<'a>(&'a self, keys: &'a [String]) -> SinkFuture<'a, Vec<Shown>> {
        Box::pin(self.with(async move |connection, known| {
            let Known { dialect, table, .. } = &*known;
            let mut shown = Vec::new();
            for statement in look(&self.layout, table, dialect, keys) {
                let rows = query(connection, &statement).await?;
                shown.extend(rows.iter().map(|row| Shown::of_cells(&self.layout, cells(row))));
            }
            Ok(shown)
        }))
    }

    fn close(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            let State { connection, .. } = std::mem::take(&mut *self.state.lock().await);
            if let Some(connection) = connection {
                // It fails only if it is closed already.
                let _ = tokio::time::timeout(self.deadline, connection.disconnect()).await;
            }
            Ok(())
        })
    }

    fn log(&self) -> Option<&dyn LogTarget> {
        (self.layout.values == Values::Events).then_some(self)
    }
}

impl LogTarget for MysqlSink {
    fn read<'a>(&'a self, what: &'a Query) -> SinkFuture<'a, Vec<Cells>> {
        Box::pin(self.with(async move |connection, known| {
            let Known { table, dialect, .. } = &*known;
            let statement = log::sql::read(what, &self.layout, table, dialect).ok_or_else(log::no_log)?;
            let rows = query(connection, &statement).await?;
            Ok(rows.iter().map(cells).collect())
        }))
    }

    fn change<'a>(&'a self, change: &'a Compaction) -> SinkFuture<'a, u64> {
        Box::pin(self.with(async move |connection, known| {
            let Known { dialect, table, request_bytes } = &*known;
            let statements =
                log::sql::change(change, &self.layout, table, dialect).ok_or_else(log::no_log)?;
            transaction(&mut MysqlSession { connection, request_bytes: *request_bytes }, &statements).await
        }))
    }
}

fn cells(row: &mysql_async::Row) -> Cells {
    let is_null = |at| matches!(row.as_ref(at), Some(Value::NULL) | None);
    (0..row.len()).map(|at| (!is_null(at)).then(|| text_at(row, at))).collect()
}

//! PostgreSQL, also through PgBouncer in transaction mode. Accesses that server, and creates the table of positions there.
//!
//! A batch is one transaction on one connection: first the position, whose row is then locked, then the rows. Parameters are sent as text
//! and cast to the types of their columns.

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use keystead_rows::bounds::STATEMENT_BYTES;
use keystead_stores::connect::{PostgresLogin, PostgresTarget, Url, postgres_error};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as PostgresRow};

use crate::batch::{Batch, Position, Row, Shown, Written};
use crate::bounds::{CONNECT_WITHIN, POSTGRES_PARAMS_MAX, STATEMENT_ROWS_MAX};
use crate::layout::{BATCH_COLUMN, DELETED_COLUMN, Deletes, Layout, Values};
use crate::log::{Cells, Compaction, LogTarget, Query};
use crate::param::{Kind, Param};
use crate::session::{Call, Failed, Session, Writer, transaction};
use crate::statement::{Dialect, Grammar, Statement, Types, differing, look, prepare};
use crate::table::{self, Column, Found, FoundColumn, Table};
use crate::{Capabilities, Scheme, Sink, SinkFuture, deadline, log, positions};

pub(super) const POSTGRES: Scheme = Scheme {
    name: "postgres",
    form: "postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=disable&deadline=30s",
    about: "PostgreSQL",
    open,
};

pub(super) const POSTGRESQL: Scheme = Scheme {
    name: "postgresql",
    form: "postgresql://USER:PASSWORD@HOST:5432/DATABASE?sslmode=disable&deadline=30s",
    about: "the same",
    open,
};

const DIALECT: Dialect = Dialect {
    quote: '"',
    grammar: Grammar::Conflict,
    bytes: STATEMENT_BYTES,
    params_max: POSTGRES_PARAMS_MAX,
    rows_max: STATEMENT_ROWS_MAX,
    parameter: |number, column| format!("${number}::{}", column.type_name),
    same: |one, other, column| match column.type_name.as_str() {
        // It has no equality.
        "json" => format!("{one}::jsonb IS NOT DISTINCT FROM {other}::jsonb"),
        _ => format!("{one} IS NOT DISTINCT FROM {other}"),
    },
    types: Types { key: "text", text: "text", json: "jsonb", integer: "bigint", bool: "boolean" },
    yes: "TRUE",
    no: "FALSE",
};

const COLUMNS: &str = "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), \
    a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '', \
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL \
            AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
    FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

struct PostgresSink {
    target: PostgresTarget,
    layout: Layout,
    deadline: Duration,
    state: Mutex<State>,
}

/// The connection, and what is known of the table. Both are found out again after an error.
#[derive(Default)]
struct State {
    connection: Option<PostgresLogin>,
    table: Option<Arc<Table>>,
}

fn open(url: &Url<'_>, layout: Layout) -> Result<Arc<dyn Sink>> {
    let target = PostgresTarget::of(url)?;
    let deadline = deadline(url)?;
    url.finish()?;
    Ok(Arc::new(PostgresSink { target, layout, deadline, state: Mutex::default() }))
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        match error.as_db_error() {
            Some(db) if is_about_a_row(db.code()) => {
                Failed::Row(format!("{} (SQLSTATE {})", db.message(), db.code().code()))
            }
            _ => Failed::Call(postgres_error(&error)),
        }
    }
}

/// Data exceptions, violated constraints, exceeded limits, and what triggers raise.
fn is_about_a_row(code: &SqlState) -> bool {
    ["22", "23", "54", "P0"].contains(&&code.code()[..2])
}

impl PostgresSink {
    /// Runs something on the connection, which is closed if it fails or takes too long.
    async fn with<T>(&self, run: impl AsyncFnOnce(&Client, Arc<Table>) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock().await;
        let connection = match state.connection.take().filter(|connection| !connection.client.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let late = || {
            let message = format!("the PostgreSQL server did not reply within {:?}", self.deadline);
            Error::unknown(Code::StoreUnavailable, message)
        };
        let known = state.table.take();
        let call = async {
            let table = match known {
                Some(table) => table,
                None => Arc::new(self.look(&connection.client).await?),
            };
            let result = run(&connection.client, Arc::clone(&table)).await?;
            Ok::<_, Error>((result, table))
        };
        let (result, table) = tokio::time::timeout(self.deadline, call).await.map_err(|_| late())??;
        *state = State { connection: Some(connection), table: Some(table) };
        Ok(result)
    }

    async fn connect(&self) -> Result<PostgresLogin> {
        let slow = |_| Error::new(Code::StoreUnavailable, "the PostgreSQL server accepts no login in time");
        let connection = tokio::time::timeout(CONNECT_WITHIN.min(self.deadline), self.target.connect())
            .await
            .map_err(slow)??;
        Ok(connection)
    }

    /// Creates the table of positions, and finds out whether the layout fits.
    async fn look(&self, client: &Client) -> Result<Table> {
        let failed = |error: tokio_postgres::Error| postgres_error(&error);
        let exists = "SELECT to_regclass('keystead_sinks') IS NOT NULL, pg_is_in_recovery()";
        let row = client.query_typed_one(exists, &[]).await.map_err(failed)?;
        if row.get(1) {
            let message = "the PostgreSQL server is a standby: use the address of the primary";
            return Err(Error::new(Code::StoreUnavailable, message));
        }
        if !row.get::<_, bool>(0) {
            create(client, &positions::create(&DIALECT)).await?;
        }
        let Some(name) = table::quoted_name(&self.layout.table, &DIALECT) else {
            return table::check(&self.layout, None, &DIALECT);
        };
        let columns = [(&name as &(dyn ToSql + Sync), Type::TEXT)];
        let mut rows = client.query_typed(COLUMNS, &columns).await.map_err(failed)?;
        if self.layout.values == Values::Events {
            if rows.is_empty() {
                // Keys are in the order of their bytes.
                create(client, &log::sql::create(&self.layout, &name, &DIALECT, "text COLLATE \"C\""))
                    .await?;
                rows = client.query_typed(COLUMNS, &columns).await.map_err(failed)?;
            }
            if client
                .query_typed_one("SELECT to_regclass('keystead_logs') IS NULL", &[])
                .await
                .map_err(failed)?
                .get(0)
            {
                create(client, &log::sql::create_logs(&DIALECT)).await?;
            }
        }
        let mut found = Found::default();
        for row in &rows {
            let (name, type_name): (String, String) = (row.get(0), row.get(1));
            if row.get(4) {
                found.unique.push(name.clone());
            }
            let kind = kind_of(&type_name);
            found.columns.push(FoundColumn {
                name,
                type_name,
                kind,
                is_required: row.get(2),
                is_generated: row.get(3),
            });
        }
        let table = table::check(&self.layout, (!rows.is_empty()).then_some(found), &DIALECT)?;
        if self.layout.values == Values::Events {
            query(client, &log::sql::register(&self.layout, &table.quoted, &DIALECT)).await?;
        }
        Ok(table)
    }
}

/// Runs a statement that creates a table.
async fn create(client: &Client, sql: &str) -> Result<()> {
    client.batch_execute(sql).await.map_err(|error| match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Error::new(
            Code::ConfigInvalid,
            format!("this user may not create tables: run {sql} as the owner"),
        ),
        _ => postgres_error(&error),
    })
}

impl Session for &Client {
    const BEGIN_TRIAL: &'static str = "BEGIN; SET CONSTRAINTS ALL IMMEDIATE";

    async fn command(&mut self, sql: &str) -> Call<()> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn execute(&mut self, statement: &Statement) -> Call<u64> {
        let texts: Vec<Option<String>> = statement.params.iter().map(text_of).collect();
        Ok(self.execute_typed(&statement.sql, &typed(&texts)).await?)
    }
}

fn kind_of(type_name: &str) -> Kind {
    match type_name {
        "smallint" | "integer" | "bigint" => Kind::Integer,
        "real" | "double precision" => Kind::Real,
        "boolean" => Kind::Bool,
        "json" | "jsonb" => Kind::Json,
        "text" => Kind::Text,
        name if name.starts_with("character varying") => Kind::Text,
        _ => Kind::Other,
    }
}

/// A parameter as text.
fn text_of(param: &Param) -> Option<String> {
    match param {
        Param::Null => None,
        Param::Bool(value) => Some(value.to_string()),
        Param::Integer(value) => Some(value.to_string()),
        // The shortest text that is this double.
        Param::Real(value) => Some(format!("{value:?}")),
        Param::Text(text) => Some(text.clone()),
    }
}

async fn query(client: &Client, statement: &Statement) -> Call<Vec<PostgresRow>> {
    let texts: Vec<Option<String>> = statement.params.iter().map(text_of).collect();
    Ok(client.query_typed(&statement.sql, &typed(&texts)).await?)
}

fn typed(texts: &[Option<String>]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    texts.iter().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT)).collect()
}

impl Sink for PostgresSink {
    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_position: true, readable: true }
    }

    fn probe(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            self.state.lock().await.table = None;
            self.with(async |_, _| Ok(())).await
        })
    }

    fn position(&self) -> SinkFuture<'_, Option<Position>> {
        Box::pin(self.with(async |client, _| {
            let read = positions::read(&DIALECT, &self.layout.sink);
            let rows = query(client, &read).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let (database, revisions): (String, String) = (row.get(0), row.get(2));
            Position::of_parts(database, row.get(1), &revisions, row.get(3)).map(Some)
        }))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written> {
        Box::pin(self.with(async |mut client, table| {
            let (session, layout) = (&mut client, &self.layout);
            Writer { session, dialect: &DIALECT, layout, table: &table, batch }.write().await
        }))
    }

    fn keys<'a>(
        &'a self,
        after: Option<&'a str>,
        before: Option<u64>,
        most: usize,
    ) -> SinkFuture<'a, Vec<String>> {
        Box::pin(self.with(async move |client, table| {
            let Column { quoted: key, .. } = &table.key;
            let mut sql = format!("SELECT {key}::text FROM {} WHERE {BATCH_COLUMN} > 0", table.quoted);
            if let Some(before) = before {
                sql.push_str(&format!(" AND {BATCH_COLUMN} < {before}"));
            }
            if table.deletes == Deletes::Tombstone {
                sql.push_str(&format!(" AND NOT {DELETED_COLUMN}"));
            }
            let mut params = Vec::new();
            if let Some(after) = after {
                params.push(Param::Text(self.layout.key_text(after).to_owned()));
                sql.push_str(&format!(" AND {key}::text COLLATE \"C\" > $1"));
            }
            sql.push_str(&format!(" ORDER BY {key}::text COLLATE \"C\" LIMIT {most}"));
            let rows = query(client, &Statement { sql, params, otherwise: None }).await?;
            Ok(rows.iter().map(|row| self.layout.key_of(row.get(0))).collect())
        }))
    }

    fn differing<'a>(&'a self, rows: &'a [Row]) -> SinkFuture<'a, Vec<String>> {
        Box::pin(self.with(async |client, table| {
            let sorted = prepare(&self.layout, &table, rows.iter().enumerate());
            let mut keys: Vec<String> =
                sorted.rejected.iter().map(|rejection| rows[rejection.row].key.clone()).collect();
            for statement in differing(&table, &DIALECT, &sorted) {
                let sql = format!("SELECT k::text FROM ({}) AS found (k)", statement.sql);
                let found = query(client, &Statement { sql, ..statement }).await?;
                keys.extend(found.iter().map(|row| self.layout.key_of(row.get(0))));
            }
            Ok(keys)
        }))
    }

    fn look<'a>(&'a self, keys: &'a [String]) -> SinkFuture<'a, Vec<Shown>> {
        Box::pin(self.with(async move |client, table| {
            let mut shown = Vec::new();
            for statement in look(&self.layout, &table, &DIALECT, keys) {
                let rows = query(client, &statement).await?;
                shown.extend(rows.iter().map(|row| Shown::of_cells(&self.layout, cells(row))));
            }
            Ok(shown)
        }))
    }

    fn close(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            *self.state.lock().await = State::default();
            Ok(())
        })
    }

    fn log(&self) -> Option<&dyn LogTarget> {
        (self.layout.values == Values::Events).then_some(self)
    }
}

/// Columns of text.
fn cells(row: &PostgresRow) -> Cells {
    (0..row.len()).map(|at| row.get(at)).collect()
}

impl LogTarget for PostgresSink {
    fn read<'a>(&'a self, what: &'a Query) -> SinkFuture<'a, Vec<Cells>> {
        Box::pin(self.with(async move |client, table| {
            let statement = log::sql::read(what, &self.layout, &table, &DIALECT).ok_or_else(log::no_log)?;
            let rows = query(client, &statement).await?;
            Ok(rows.iter().map(cells).collect())
        }))
    }

    fn change<'a>(&'a self, change: &'a Compaction) -> SinkFuture<'a, u64> {
        Box::pin(self.with(async move |mut client, table| {
            let statements =
                log::sql::change(change, &self.layout, &table, &DIALECT).ok_or_else(log::no_log)?;
            transaction(&mut client, &statements).await
        }))
    }
}

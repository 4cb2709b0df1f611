//! The targets of the tests: a database of its own on each kind of server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_sinks::{Layout, Sink};
use keystead_testkit::servers::SharedServer;
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql, sql_in};
use keystead_testkit::skip::found;
use tempfile::TempDir;

/// A database, and the names of its types.
pub(crate) struct Target {
    url: String,
    kind: Kind,
    pub(crate) json: &'static str,
}

enum Kind {
    Postgres(SharedServer, String),
    Sqlite(TempDir),
}

static DATABASES: AtomicU64 = AtomicU64::new(0);

pub(crate) async fn postgres() -> Option<Target> {
    let server = found("postgres", SharedServer::get(&POSTGRES).await)?;
    let name = format!("sinks_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
    sql(server.site(), &format!("CREATE DATABASE {name}")).unwrap();
    let url = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/{name}", server.site().port());
    Some(Target { url, kind: Kind::Postgres(server, name), json: "jsonb" })
}

pub(crate) async fn sqlite() -> Option<Target> {
    let dir = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(dir.path().join("t.db")).unwrap().execute_batch("VACUUM").unwrap();
    let url = format!("sqlite:{}", dir.path().join("t.db").display());
    Some(Target { url, kind: Kind::Sqlite(dir), json: "text" })
}

impl Target {
    pub(crate) fn sink(&self, layout: Layout) -> Arc<dyn Sink> {
        keystead_sinks::open(&self.url, layout).unwrap()
    }

    /// Runs SQL, and returns rows with `|` between columns.
    pub(crate) fn sql(&self, statement: &str) -> String {
        match &self.kind {
            Kind::Postgres(server, name) => sql_in(server.site(), name, statement).unwrap(),
            Kind::Sqlite(dir) => sqlite_sql(dir, statement),
        }
    }
}

fn sqlite_sql(dir: &TempDir, statement: &str) -> String {
    let connection = rusqlite::Connection::open(dir.path().join("t.db")).unwrap();
    if !statement.trim_start().to_uppercase().starts_with("SELECT") {
        connection.execute_batch(statement).unwrap();
        return String::new();
    }
    let mut prepared = connection.prepare(statement).unwrap();
    let columns = prepared.column_count();
    let rows = prepared.query_map([], |row| {
        let cells = (0..columns).map(|at| {
            Ok(match row.get(at)? {
                rusqlite::types::Value::Null => String::new(),
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Real(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Blob(_) => "(blob)".to_owned(),
            })
        });
        Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    rows.unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
}

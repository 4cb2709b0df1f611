//! The targets of the tests: a database of its own on each kind of server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_sinks::{Layout, Sink};
use keystead_testkit::servers::SharedServer;
use keystead_testkit::servers::mariadb::{self, MARIADB};
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql, sql_in};
use keystead_testkit::skip::found;
use tempfile::TempDir;

/// A database, and the names of its types.
pub(crate) struct Target {
    pub(crate) url: String,
    kind: Kind,
    pub(crate) json: &'static str,
}

enum Kind {
    Postgres(SharedServer, String),
    Sqlite(TempDir),
    Mysql(SharedServer, String),
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

pub(crate) async fn mysql() -> Option<Target> {
    let server = found("mariadb", SharedServer::get(&MARIADB).await)?;
    let name = format!("sinks_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
    mariadb::sql(server.site(), "", &format!("CREATE DATABASE {name}")).unwrap();
    let [user, password] = mariadb::LOGIN;
    let url = format!("mysql://{user}:{password}@127.0.0.1:{}/{name}", server.site().port());
    Some(Target { url, kind: Kind::Mysql(server, name), json: "json" })
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
            Kind::Mysql(server, name) => mariadb::sql(server.site(), name, &mysql_words(statement)).unwrap(),
        }
    }
}

/// `key` is a reserved word of MySQL, and a text is no key there.
fn mysql_words(statement: &str) -> String {
    const KEY: &str = "`key` varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";
    let words = statement.replace("(key text", &format!("({KEY}"));
    let mut out = String::new();
    for (at, part) in words.split("key").enumerate() {
        let before = out.chars().last();
        let is_word = |side: Option<char>| !side.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '`');
        if at > 0 {
            let whole = is_word(before) && is_word(part.chars().next());
            out.push_str(if whole { "`key`" } else { "key" });
        }
        out.push_str(part);
    }
    out
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

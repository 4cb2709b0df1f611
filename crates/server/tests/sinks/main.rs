//! Sinks through the real binary, with real PostgreSQL servers and SQLite files as targets.
//!
//! | To find                                                        | open       |
//! |----------------------------------------------------------------|------------|
//! | coalescing, types, receipts, quarantine, stopping              | [`batches`] |
//! | targets that are away, slow, restored, or of another database  | [`behind`] |
//! | kills of both sides at random moments                          | [`kills`]  |
//! | the same with MySQL, NATS and a webhook                        | [`followers`] |
//! | clients that know what must be there; a webhook's receiver     | [`writers`]; [`receiver`] |
//! | event logs; kills while one is written                         | [`events`]; [`event_kills`] |
//! | triggers of batches; health and the ready block                | [`triggers`] |
//! | settings that do not fit, routes, `keystead sink`              | [`start`]  |

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "in a test a surprise is a failure")]

mod batches;
mod behind;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod event_kills;
mod events;
mod followers;
mod kills;
mod receiver;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod start;
mod triggers;
mod writers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Http, Response};
use keystead_testkit::server::Server;
use keystead_testkit::servers::OwnServer;
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql};
use keystead_testkit::skip::found;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The columns that every table of a sink has.
const OWN: &str = "keystead_version bigint NOT NULL DEFAULT 0, keystead_batch bigint NOT NULL DEFAULT 0";

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Key, value and version of documents or rows, in the order of their keys.
type Rows = Vec<(String, Value, u64)>;

/// A target in which SQL can be run.
trait Target {
    fn url(&self) -> String;

    /// Rows with `|` between columns.
    fn sql(&self, statement: &str) -> String;
}

struct Postgres(OwnServer);

impl Postgres {
    /// None, if it is not installed.
    async fn start() -> Option<Postgres> {
        Some(Postgres(found("postgres", OwnServer::start(&POSTGRES).await)?))
    }

    /// Runs something while nobody can write to the table `t`, which is for two seconds or longer.
    fn locked(&self, run: impl FnOnce()) {
        std::thread::scope(|scope| {
            let lock = scope.spawn(|| self.sql("BEGIN; LOCK TABLE t; SELECT pg_sleep(2); COMMIT"));
            let held = "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' AND relation = 't'::regclass";
            until("the table is locked", || self.sql(held) == "1");
            run();
            lock.join().unwrap();
        });
    }
}

impl Target for Postgres {
    fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres?deadline=5s", self.0.site().port())
    }

    fn sql(&self, statement: &str) -> String {
        sql(self.0.site(), statement).unwrap()
    }
}

/// A SQLite file with the table `t`.
struct File(PathBuf);

impl File {
    fn new(home: &Path) -> File {
        let file = File(home.join("target.db"));
        file.sql("CREATE TABLE t (key text PRIMARY KEY, value text, keystead_version integer NOT NULL DEFAULT 0, keystead_batch integer NOT NULL DEFAULT 0)");
        file
    }
}

impl Target for File {
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }

    fn sql(&self, statement: &str) -> String {
        let connection = rusqlite::Connection::open(&self.0).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        if !statement.starts_with("SELECT") {
            connection.execute_batch(statement).unwrap();
            return String::new();
        }
        let mut prepared = connection.prepare(statement).unwrap();
        let columns = prepared.column_count();
        let rows = prepared.query_map([], |row| {
            let cells = (0..columns).map(|at| {
                Ok(match row.get(at)? {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => format!("{other:?}"),
                })
            });
            Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        });
        rows.unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
    }
}

/// A server with one sink `s` for the prefix `d:` to the table `t`.
struct Fixture {
    server: Server,
    home: TempDir,
}

impl Fixture {
    fn start(target: &dyn Target, more: &str, arguments: &[&str]) -> Fixture {
        Fixture::start_in(common::dir(), target, more, arguments)
    }

    fn start_in(home: TempDir, target: &dyn Target, more: &str, arguments: &[&str]) -> Fixture {
        configure(home.path(), target, more);
        let config = home.path().join("keystead.toml");
        let data = home.path().join("data");
        let launch = common::launch(arguments).arg("--config").arg(config).arg("--data").arg(data);
        Fixture { server: launch.start().unwrap(), home }
    }

    fn http(&self) -> Http {
        Http::connect(&self.server)
    }
}

fn configure(home: &Path, target: &dyn Target, more: &str) {
    let url = target.url();
    let text = format!("[sink.s]\nprefix = \"d:\"\ntable = \"t\"\ntarget = \"{url}\"\n{more}\n");
    std::fs::write(home.join("keystead.toml"), text).unwrap();
}

impl Http {
    #[track_caller]
    fn put(&mut self, key: &str, value: &Value, query: &str) -> Response {
        let response = self.ask("PUT", &format!("/kv/{key}{query}"), &[], value.to_string().as_bytes());
        assert!((200..300).contains(&response.status), "{}", response.text());
        response
    }

    /// Runs a pipeline of commands, none of which may fail.
    #[track_caller]
    fn run(&mut self, commands: &Value) -> Value {
        let response = self.post("/pipeline", &commands.to_string());
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(!response.text().contains("\"error\""), "{}", response.text());
        response.json()
    }

    fn sink(&mut self) -> Value {
        self.get("/sinks/s").json()
    }

    #[track_caller]
    fn flush(&mut self) {
        let response = self.post("/sinks/s/flush?timeout=60s", "");
        assert_eq!(response.status, 200, "{}", response.text());
    }

    /// Waits until the first resynchronisation is over. An empty database has nothing that a flush could wait for.
    #[track_caller]
    fn settle(&mut self) {
        self.put("before", &json!(1), "");
        self.flush();
    }

    /// Everything in the source is in the target and nothing else, as the server compares it.
    #[track_caller]
    fn verify(&mut self) -> u64 {
        let response = self.post("/sinks/s/verify", "");
        assert_eq!(response.status, 200, "{}", response.text());
        let found = response.json();
        assert_eq!(found["differences"], json!(0), "{found}");
        found["keys"].as_u64().unwrap()
    }

    /// The same, compared here: `key|value|version` of all documents, in the order of their keys.
    fn documents(&mut self) -> Rows {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/kv?prefix=d:&values=true&limit=1000{cursor}"));
            for document in page.json().as_array().unwrap() {
                let key = document["key"].as_str().unwrap().to_owned();
                all.push((key, document["value"].clone(), document["version"].as_u64().unwrap()));
            }
            match page.header("keystead-cursor") {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

/// The rows of the table `t`, as [`Http::documents`] returns documents.
fn rows(target: &dyn Target) -> Rows {
    parse(&target.sql("SELECT key, keystead_version, value FROM t ORDER BY key"))
}

/// The same of lines with key, version and value.
fn parse(text: &str) -> Rows {
    let mut rows: Vec<_> = text
        .lines()
        .map(|line| {
            let mut cells = line.splitn(3, '|');
            let (key, version) = (cells.next().unwrap().to_owned(), cells.next().unwrap().parse().unwrap());
            (key, serde_json::from_str(cells.next().unwrap()).unwrap(), version)
        })
        .collect();
    rows.sort_by(|one: &(String, Value, u64), other| one.0.cmp(&other.0));
    rows
}

/// Waits for a condition.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(LOOK);
    }
    panic!("{what}: never");
}

//! The table: its name, its creation, and the texts of its statements.
//!
//! A row may be deleted after `reclaim_at`, in seconds since 1970 on the server's clock. It is rounded up to some minutes, so that most updates do
//! not change it: then they change no index, and PostgreSQL puts the new row beside the old one (HOT).

use keystead_core::{Code, Error, Key, Result};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::failure;
use crate::bounds::{POSTGRES_NAME_BYTES_MAX, POSTGRES_SWEEP_ROWS_MAX};

/// `reclaim_at` of a row that is written now, if so many milliseconds are left; null is never.
fn reclaim_at(left_ms: &str) -> String {
    format!("ceil((extract(epoch FROM clock_timestamp())::float8 + {left_ms} / 1000) / 300)::bigint * 300")
}

/// A statement of calls. On a connection to the server itself each is prepared one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    Read,
    ReadMany,
    Insert,
    Update,
    InsertMany,
    SwapMany,
    HoldMany,
    Lock,
}

/// How many there are.
pub(super) const QUERIES: usize = Query::Lock as usize + 1;

/// All of them, with the types of their parameters.
pub(super) static PARAMETERS: [(Query, &[Type]); QUERIES] = [
    (Query::Read, &[Type::BYTEA]),
    (Query::ReadMany, &[Type::BYTEA_ARRAY]),
    (Query::Insert, &[Type::BYTEA, Type::INT8, Type::TEXT, Type::FLOAT8]),
    (Query::Update, &[Type::BYTEA, Type::INT8, Type::TEXT, Type::FLOAT8, Type::INT8]),
    (Query::InsertMany, &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::FLOAT8_ARRAY]),
    (
        Query::SwapMany,
        &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::FLOAT8_ARRAY, Type::INT8_ARRAY],
    ),
    (Query::HoldMany, &[Type::BYTEA_ARRAY]),
    (Query::Lock, &[Type::INT8]),
];

/// A parameter.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// A table, and its statements.
pub(super) struct Table {
    /// Quoted.
    name: String,
    create: String,
    look: String,
    queries: [String; QUERIES],
    sweep: String,
}

impl Table {
    /// The table of this name, `NAME` or `SCHEMA.NAME`. `None` if it is none.
    pub(super) fn named(text: &str) -> Option<Table> {
        let parts: Vec<&str> = text.split('.').collect();
        let valid = |part: &&str| (1..=POSTGRES_NAME_BYTES_MAX).contains(&part.len()) && !part.contains('\0');
        if parts.len() > 2 || !parts.iter().all(valid) {
            return None;
        }
        let name = parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".");
        let index = quoted(&format!("{}_reclaim", parts.last()?));
        // Several processes may begin at once: IF NOT EXISTS alone does not prevent that both create it. The key of the lock is arbitrary.
        let create = format!(
            "SELECT pg_advisory_xact_lock(5210772398540187);
             CREATE TABLE IF NOT EXISTS {name} (
                 key bytea PRIMARY KEY, version bigint NOT NULL, record text NOT NULL, reclaim_at bigint
             ) WITH (fillfactor = 70);
             CREATE INDEX IF NOT EXISTS {index} ON {name} (reclaim_at) WHERE reclaim_at IS NOT NULL;"
        );
        Some(Table {
            create,
            look: format!("SELECT key, version, record, reclaim_at FROM {name} LIMIT 0"),
            queries: queries(&name),
            sweep: format!(
                "DELETE FROM {name} WHERE key IN (
                     SELECT key FROM {name} WHERE reclaim_at < extract(epoch FROM clock_timestamp())
                     ORDER BY reclaim_at LIMIT {POSTGRES_SWEEP_ROWS_MAX} FOR UPDATE SKIP LOCKED)"
            ),
            name,
        })
    }

    /// The text of a statement.
    pub(super) fn text(&self, query: Query) -> &str {
        &self.queries[query as usize]
    }
}

/// The texts, in the order of [`Query`].
fn queries(name: &str) -> [String; QUERIES] {
    let (of_one, of_many) = (reclaim_at("$4"), reclaim_at("given.left_ms"));
    let given = "unnest($1::bytea[], $2::bigint[], $3::text[], $4::float8[]";
    [
        format!("SELECT version, record FROM {name} WHERE key = $1"),
        format!("SELECT key, version, record FROM {name} WHERE key = ANY ($1)"),
        format!(
            "INSERT INTO {name} (key, version, record, reclaim_at) VALUES ($1, $2, $3, {of_one})
             ON CONFLICT (key) DO NOTHING"
        ),
        format!(
            "UPDATE {name} SET version = $2, record = $3, reclaim_at = {of_one} WHERE key = $1 AND version = $5"
        ),
        // In the order of the keys, as below: two statements that wait for each other would be a deadlock.
        format!(
            "INSERT INTO {name} (key, version, record, reclaim_at)
             SELECT given.key, given.version, given.record, {of_many}
             FROM {given}) AS given(key, version, record, left_ms) ORDER BY given.key
             ON CONFLICT (key) DO NOTHING RETURNING key, NULL::bigint, NULL::text"
        ),
        // A row is locked first: the lock waits for other writers and then sees the row as they left it, which a plain read in the same
        // statement would not.
        format!(
            "WITH held AS MATERIALIZED (
                 SELECT stored.key, stored.version AS current, stored.record AS found,
                        given.expected, given.version, given.record, {of_many} AS reclaim_at
                 FROM {given}, $5::bigint[]) AS given(key, version, record, left_ms, expected)
                 JOIN {name} AS stored ON stored.key = given.key ORDER BY stored.key FOR NO KEY UPDATE OF stored),
             done AS (
                 UPDATE {name} AS stored
                 SET version = held.version, record = held.record, reclaim_at = held.reclaim_at
                 FROM held WHERE stored.key = held.key AND held.current = held.expected RETURNING stored.key)
             SELECT key, NULL::bigint, NULL::text FROM done
             UNION ALL SELECT key, current, found FROM held WHERE current <> expected"
        ),
        format!("SELECT key, version, record FROM {name} WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE"),
        super::lock::LOCK.to_owned(),
    ]
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    /// Creates the table if there is none.
    pub(super) async fn check(&self, client: &Client) -> Result<()> {
        let standby = client.query_typed_one("SELECT pg_is_in_recovery()", &[]).await;
        if standby.map_err(|error| failure::of_call(&error))?.get(0) {
            let message =
                "the PostgreSQL server is a standby, whose reads lag: use the address of the primary";
            return Err(Error::new(Code::StoreUnavailable, message));
        }
        let Err(error) = client.query_typed(&self.look, &[]).await else { return Ok(()) };
        let name = &self.name;
        match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => {
                client.batch_execute(&self.create).await.map_err(|error| match error.code() {
                    Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::INVALID_SCHEMA_NAME) => {
                        let why = error.as_db_error().map_or("", |db| db.message());
                        let message = format!(
                            "the table {name} does not exist and cannot be created ({why}): create it as its owner with {}",
                            self.create.split_whitespace().collect::<Vec<_>>().join(" ")
                        );
                        Error::new(Code::ConfigInvalid, message)
                    }
                    _ => failure::of_call(&error),
                })
            }
            Some(&SqlState::UNDEFINED_COLUMN) => {
                let message = format!("the table {name} is another one: choose a name with table=");
                Err(Error::new(Code::ConfigInvalid, message))
            }
            _ => Err(failure::of_call(&error)),
        }
    }

    /// The number of a key's advisory lock. Keys that share one only wait for each other.
    pub(super) fn lock_id(&self, key: &Key) -> i64 {
        // FNV-1a: every process must compute the same.
        let bytes = self.name.bytes().chain([0]).chain(key.as_bytes().iter().copied());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }) as i64
    }

    /// Deletes rows that may be reclaimed, a bounded number of them.
    pub(super) async fn sweep(&self, client: &Client) -> Result<u64, tokio_postgres::Error> {
        client.execute_typed(&self.sweep, &[]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_listed_in_the_order_of_the_queries() {
        let table = Table::named("keystead").unwrap();
        for (n, (query, types)) in PARAMETERS.iter().enumerate() {
            assert_eq!(*query as usize, n);
            let text = table.text(*query);
            assert!(text.contains(&format!("${}", types.len())), "{text}");
            assert!(!text.contains(&format!("${}", types.len() + 1)), "{text}");
        }
    }

    #[test]
    fn names_are_quoted() {
        for (text, name) in [
            ("keystead", "\"keystead\""),
            ("App.Limits", "\"App\".\"Limits\""),
            ("a\"; DROP", "\"a\"\"; DROP\""),
        ] {
            assert_eq!(Table::named(text).unwrap().name, name);
        }
        for text in ["", ".", "a.", "a.b.c", &"x".repeat(POSTGRES_NAME_BYTES_MAX + 1)] {
            assert!(Table::named(text).is_none(), "{text}");
        }
    }
}

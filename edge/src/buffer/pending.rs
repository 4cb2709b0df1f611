//! What waits for D1, as rows beside the keys: which keys have changed, how far each sink is, and which keys D1 rejects. Touches the
//! object's storage.
//!
//! Triggers of the table of keys note a change, so it is noted in the transaction that makes it or not at all. A key waits once, however
//! often it changes. Invariant: a change is noted until a batch with it, or with a later one, is in D1 and its position says so.

use keystead_core::{Code, Error, Millis, Result};
use keystead_model::Bytes;
use keystead_model::sql::{Cell, Param, Sql};

use super::settings::Definition;
use crate::bounds::{PENDING_MAX, QUARANTINE_LISTED_MAX};

/// The row of `meta` with the sinks that the triggers are for.
const READ_MARK: &str = "SELECT value FROM meta WHERE name = 'sinks'";
const WRITE_MARK: &str = "INSERT INTO meta (name, value) VALUES ('sinks', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const CREATE: [&str; 3] = [
    // `first` and `after` are the range of its keys. `attempt` numbers what is sent; while one is under way, `upto` is its last change.
    // `target` and `target_batch` are the position that D1 should have. `at_most` makes batches smaller to find a row that D1 rejects.
    // `resync` is the key of D1 after which the rows of D1 are still to be noted.
    "CREATE TABLE IF NOT EXISTS sink_states (
        sink TEXT PRIMARY KEY,
        first BLOB,
        after BLOB,
        batch INTEGER NOT NULL DEFAULT 0,
        target TEXT,
        target_batch INTEGER,
        attempt INTEGER NOT NULL DEFAULT 0,
        upto INTEGER,
        at_most INTEGER,
        failures INTEGER NOT NULL DEFAULT 0,
        retry_at INTEGER NOT NULL DEFAULT 0,
        flushed_at INTEGER,
        rows INTEGER NOT NULL DEFAULT 0,
        problem TEXT,
        resync TEXT
    ) STRICT, WITHOUT ROWID",
    // In the order of the first change. `again`: it has changed since it was read for the attempt that is under way.
    "CREATE TABLE IF NOT EXISTS sink_pending (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        sink TEXT NOT NULL,
        key BLOB NOT NULL,
        since INTEGER NOT NULL,
        again INTEGER NOT NULL DEFAULT 0,
        UNIQUE (sink, key)
    ) STRICT",
    "CREATE TABLE IF NOT EXISTS sink_quarantine (
        sink TEXT NOT NULL,
        key BLOB NOT NULL,
        reason TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (sink, key)
    ) STRICT, WITHOUT ROWID",
];

const TRIGGERS: [&str; 3] = [
    "CREATE TRIGGER IF NOT EXISTS sink_key_new AFTER INSERT ON keys BEGIN
        INSERT INTO sink_pending (sink, key, since)
            SELECT sink, new.name, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM sink_states
            WHERE new.name >= first AND (after IS NULL OR new.name < after)
            ON CONFLICT (sink, key) DO UPDATE SET again = 1
            WHERE again = 0 AND id <= (SELECT upto FROM sink_states AS s WHERE s.sink = excluded.sink);
    END",
    "CREATE TRIGGER IF NOT EXISTS sink_key_changed AFTER UPDATE ON keys BEGIN
        INSERT INTO sink_pending (sink, key, since)
            SELECT sink, new.name, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM sink_states
            WHERE new.name >= first AND (after IS NULL OR new.name < after)
            ON CONFLICT (sink, key) DO UPDATE SET again = 1
            WHERE again = 0 AND id <= (SELECT upto FROM sink_states AS s WHERE s.sink = excluded.sink);
    END",
    "CREATE TRIGGER IF NOT EXISTS sink_key_gone AFTER DELETE ON keys BEGIN
        INSERT INTO sink_pending (sink, key, since)
            SELECT sink, old.name, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM sink_states
            WHERE old.name >= first AND (after IS NULL OR old.name < after)
            ON CONFLICT (sink, key) DO UPDATE SET again = 1
            WHERE again = 0 AND id <= (SELECT upto FROM sink_states AS s WHERE s.sink = excluded.sink);
    END",
];

const DROP_TRIGGERS: [&str; 3] = [
    "DROP TRIGGER IF EXISTS sink_key_new",
    "DROP TRIGGER IF EXISTS sink_key_changed",
    "DROP TRIGGER IF EXISTS sink_key_gone",
];

/// Notes all keys of a sink.
const NOTE_ALL: &str = "INSERT INTO sink_pending (sink, key, since)
    SELECT sink, name, ?2 FROM sink_states CROSS JOIN keys
    WHERE sink = ?1 AND name >= first AND (after IS NULL OR name < after)
    ON CONFLICT (sink, key) DO UPDATE SET again = 1";
const NOTE: &str = "INSERT INTO sink_pending (sink, key, since) VALUES (?1, ?2, ?3)
    ON CONFLICT (sink, key) DO UPDATE SET again = 1";
const READ_STATE: &str = "SELECT batch, target, target_batch, attempt, upto, at_most, failures, retry_at, flushed_at, rows, problem, resync
    FROM sink_states WHERE sink = ?1";
const WRITE_STATE: &str = "UPDATE sink_states SET batch = ?2, target = ?3, target_batch = ?4, attempt = ?5, upto = ?6, at_most = ?7,
    failures = ?8, retry_at = ?9, flushed_at = ?10, rows = ?11, problem = ?12, resync = ?13 WHERE sink = ?1";
const TAKE: &str = "SELECT id, key FROM sink_pending WHERE sink = ?1 ORDER BY id LIMIT ?2";
const OLDEST: &str = "SELECT since FROM sink_pending WHERE sink = ?1 ORDER BY id LIMIT 1";
const NEWEST: &str = "SELECT max(id) FROM sink_pending";
const COUNT: &str = "SELECT count(*) FROM sink_pending";
const COUNT_OF: &str = "SELECT count(*) FROM sink_pending WHERE sink = ?1";

/// How far a sink is.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The highest number that a batch has had.
    pub(crate) batch: u64,
    /// The position that D1 should have: the database that has written it, and its batch.
    pub(crate) target: Option<(String, u64)>,
    pub(crate) attempt: u64,
    /// While an attempt is under way: its last change.
    pub(crate) upto: Option<u64>,
    pub(crate) at_most: Option<u64>,
    pub(crate) failures: u64,
    pub(crate) retry_at: Millis,
    pub(crate) flushed_at: Option<Millis>,
    /// Rows that were written.
    pub(crate) rows: u64,
    pub(crate) problem: Option<String>,
    pub(crate) resync: Option<String>,
}

fn corrupt() -> Error {
    Error::new(Code::Corrupt, "a row of a sink is not one that Keystead has written")
}

fn number(cell: &Cell<'_>) -> Result<Option<u64>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Int(number) => Ok(u64::try_from(*number).ok()),
        Cell::Real(number) if *number >= 0.0 && number.fract() == 0.0 => Ok(Some(*number as u64)),
        Cell::Text(text) => text.parse().map(Some).map_err(|_| corrupt()),
        _ => Err(corrupt()),
    }
}

fn text(cell: &Cell<'_>) -> Option<String> {
    match cell {
        Cell::Text(text) => Some((*text).to_owned()),
        _ => None,
    }
}

fn blob(cell: &Cell<'_>) -> Result<Bytes> {
    match cell {
        Cell::Blob(bytes) => Ok(Bytes::from(*bytes)),
        _ => Err(corrupt()),
    }
}

fn one_number(sql: &mut dyn Sql, query: &'static str, params: &[Param<'_>]) -> Result<Option<u64>> {
    let mut found = None;
    sql.query(query, params, &mut |cells| {
        found = cells.first().map(number).transpose()?.flatten();
        Ok(())
    })?;
    Ok(found)
}

fn int(number: u64) -> Param<'static> {
    Param::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn int_or_null(number: Option<u64>) -> Param<'static> {
    number.map_or(Param::Null, int)
}

fn text_or_null(text: &Option<String>) -> Param<'_> {
    text.as_deref().map_or(Param::Null, Param::Text)
}

/// The first name after all that begin with a prefix. None: there is no such name.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=end].to_vec();
    after[end] += 1;
    Some(after)
}

/// Creates what sinks need, in the caller's transaction. Where nothing has changed since the last time, that costs a row.
pub(crate) fn prepare(sql: &mut dyn Sql, sinks: &[Definition], now: Millis) -> Result<()> {
    let mark: Vec<(&str, &str)> = sinks.iter().map(|one| (&*one.name, &*one.layout.prefix)).collect();
    let mark = if mark.is_empty() { String::new() } else { serde_json::json!(mark).to_string() };
    let mut known = String::new();
    sql.query(READ_MARK, &[], &mut |cells| {
        known = cells.first().and_then(text).unwrap_or_default();
        Ok(())
    })?;
    if known == mark {
        return Ok(());
    }
    for statement in DROP_TRIGGERS.iter().chain(&CREATE) {
        sql.run(statement, &[])?;
    }
    let mut former: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    sql.query("SELECT sink, first FROM sink_states", &[], &mut |cells| {
        let first = cells.get(1).and_then(|cell| blob(cell).ok()).map(|bytes| bytes.to_vec());
        former.push((cells.first().and_then(text).unwrap_or_default(), first));
        Ok(())
    })?;
    for (name, _) in former.iter().filter(|(name, _)| sinks.iter().all(|one| one.name != *name)) {
        // Its batches go on where they were, if it comes back.
        sql.run("DELETE FROM sink_pending WHERE sink = ?1", &[Param::Text(name)])?;
        sql.run("DELETE FROM sink_quarantine WHERE sink = ?1", &[Param::Text(name)])?;
        sql.run("UPDATE sink_states SET first = NULL, upto = NULL WHERE sink = ?1", &[Param::Text(name)])?;
    }
    for one in sinks {
        let first = one.layout.prefix.as_bytes();
        if former.iter().any(|(name, known)| *name == one.name && known.as_deref() == Some(first)) {
            continue;
        }
        let last = after(first);
        let last = last.as_deref().map_or(Param::Null, Param::Blob);
        sql.run(
            "INSERT INTO sink_states (sink, first, after, resync) VALUES (?1, ?2, ?3, '')
                ON CONFLICT (sink) DO UPDATE SET first = excluded.first, after = excluded.after, resync = ''",
            &[Param::Text(&one.name), Param::Blob(first), last],
        )?;
        sql.run(NOTE_ALL, &[Param::Text(&one.name), int(now.0)])?;
    }
    if !sinks.is_empty() {
        for statement in TRIGGERS {
            sql.run(statement, &[])?;
        }
    }
    sql.run(WRITE_MARK, &[Param::Text(&mark)]).map(|_| ())
}

/// Keys that wait, of all sinks.
pub(crate) fn count(sql: &mut dyn Sql) -> Result<u64> {
    one_number(sql, COUNT, &[]).map(Option::unwrap_or_default)
}

/// The number of the last change that waits; 0 if none does.
pub(crate) fn newest(sql: &mut dyn Sql) -> Result<u64> {
    one_number(sql, NEWEST, &[]).map(Option::unwrap_or_default)
}

/// The error for a write that would make more keys wait than may.
pub(crate) fn full() -> Error {
    let words = format!(
        "{PENDING_MAX} keys wait for D1, which is the bound: GET /sinks says why they are not written, and then repeat this"
    );
    Error::new(Code::OutOfMemory, words)
}

/// The rows of one sink.
pub(crate) struct Pending<'a> {
    pub(crate) sql: &'a mut dyn Sql,
    pub(crate) sink: &'a str,
}

impl Pending<'_> {
    pub(crate) fn count(&mut self) -> Result<u64> {
        one_number(self.sql, COUNT_OF, &[Param::Text(self.sink)]).map(Option::unwrap_or_default)
    }

    /// When the change that has waited longest was made.
    pub(crate) fn oldest(&mut self) -> Result<Option<Millis>> {
        Ok(one_number(self.sql, OLDEST, &[Param::Text(self.sink)])?.map(Millis))
    }

    pub(crate) fn state(&mut self) -> Result<State> {
        let mut state = State::default();
        self.sql.query(READ_STATE, &[Param::Text(self.sink)], &mut |cells| {
            let [
                batch,
                target,
                target_batch,
                attempt,
                upto,
                at_most,
                failures,
                retry_at,
                flushed_at,
                rows,
                problem,
                resync,
            ] = cells
            else {
                return Err(corrupt());
            };
            state = State {
                batch: number(batch)?.unwrap_or_default(),
                target: text(target).zip(number(target_batch)?),
                attempt: number(attempt)?.unwrap_or_default(),
                upto: number(upto)?,
                at_most: number(at_most)?,
                failures: number(failures)?.unwrap_or_default(),
                retry_at: Millis(number(retry_at)?.unwrap_or_default()),
                flushed_at: number(flushed_at)?.map(Millis),
                rows: number(rows)?.unwrap_or_default(),
                problem: text(problem),
                resync: text(resync),
            };
            Ok(())
        })?;
        Ok(state)
    }

    pub(crate) fn write_state(&mut self, state: &State) -> Result<()> {
        let target = state.target.as_ref();
        let params = [
            Param::Text(self.sink),
            int(state.batch),
            target.map_or(Param::Null, |(database, _)| Param::Text(database)),
            int_or_null(target.map(|(_, batch)| *batch)),
            int(state.attempt),
            int_or_null(state.upto),
            int_or_null(state.at_most),
            int(state.failures),
            int(state.retry_at.0),
            int_or_null(state.flushed_at.map(|at| at.0)),
            int(state.rows),
            text_or_null(&state.problem),
            text_or_null(&state.resync),
        ];
        self.sql.run(WRITE_STATE, &params).map(|_| ())
    }

    /// The keys that have waited longest, with the numbers of their changes.
    pub(crate) fn take(&mut self, most: usize) -> Result<Vec<(u64, Bytes)>> {
        let mut taken = Vec::new();
        self.sql.query(TAKE, &[Param::Text(self.sink), int(most as u64)], &mut |cells| {
            let [id, key] = cells else { return Err(corrupt()) };
            taken.push((number(id)?.unwrap_or_default(), blob(key)?));
            Ok(())
        })?;
        Ok(taken)
    }

    /// From now on, a change of these is one after they were read.
    pub(crate) fn begin(&mut self, upto: u64) -> Result<()> {
        let sql = "UPDATE sink_pending SET again = 0 WHERE sink = ?1 AND id <= ?2 AND again = 1";
        self.sql.run(sql, &[Param::Text(self.sink), int(upto)]).map(|_| ())
    }

    /// Keys up to a change.
    pub(crate) fn count_to(&mut self, upto: u64) -> Result<u64> {
        let sql = "SELECT count(*) FROM sink_pending WHERE id <= ?2 AND sink = ?1";
        one_number(self.sql, sql, &[Param::Text(self.sink), int(upto)]).map(Option::unwrap_or_default)
    }

    /// These are in D1, except for what has changed meanwhile.
    pub(crate) fn settle(&mut self, upto: u64, now: Millis) -> Result<()> {
        let params = [Param::Text(self.sink), int(upto)];
        let tried = "DELETE FROM sink_quarantine WHERE sink = ?1 AND key IN
            (SELECT key FROM sink_pending WHERE sink = ?1 AND id <= ?2)";
        self.sql.run(tried, &params)?;
        self.sql.run("DELETE FROM sink_pending WHERE sink = ?1 AND id <= ?2 AND again = 0", &params)?;
        let changed = "UPDATE sink_pending SET again = 0, since = ?3 WHERE sink = ?1 AND id <= ?2";
        self.sql.run(changed, &[Param::Text(self.sink), int(upto), int(now.0)]).map(|_| ())
    }

    /// A key needs no row.
    pub(crate) fn forget(&mut self, key: &[u8]) -> Result<()> {
        let sql = "DELETE FROM sink_pending WHERE sink = ?1 AND key = ?2";
        self.sql.run(sql, &[Param::Text(self.sink), Param::Blob(key)]).map(|_| ())
    }

    pub(crate) fn note(&mut self, key: &[u8], now: Millis) -> Result<()> {
        self.sql.run(NOTE, &[Param::Text(self.sink), Param::Blob(key), int(now.0)]).map(|_| ())
    }

    pub(crate) fn note_all(&mut self, now: Millis) -> Result<()> {
        self.sql.run(NOTE_ALL, &[Param::Text(self.sink), int(now.0)]).map(|_| ())
    }

    /// D1 rejects this key: it waits no longer, unless it has changed since it was read.
    pub(crate) fn quarantine(&mut self, key: &[u8], reason: &str, now: Millis) -> Result<()> {
        let add =
            "INSERT INTO sink_quarantine (sink, key, reason, attempts, since) VALUES (?1, ?2, ?3, 1, ?4)
            ON CONFLICT (sink, key) DO UPDATE SET reason = excluded.reason, attempts = attempts + 1";
        let params = [Param::Text(self.sink), Param::Blob(key), Param::Text(reason), int(now.0)];
        self.sql.run(add, &params)?;
        let sql = "DELETE FROM sink_pending WHERE sink = ?1 AND key = ?2 AND again = 0";
        self.sql.run(sql, &params[..2]).map(|_| ())
    }

    pub(crate) fn quarantined(&mut self) -> Result<u64> {
        let sql = "SELECT count(*) FROM sink_quarantine WHERE sink = ?1";
        one_number(self.sql, sql, &[Param::Text(self.sink)]).map(Option::unwrap_or_default)
    }

    /// Keys in quarantine, with the reason, the attempts and the time of the first.
    pub(crate) fn cases(&mut self) -> Result<Vec<(Bytes, String, u64, u64)>> {
        let sql =
            "SELECT key, reason, attempts, since FROM sink_quarantine WHERE sink = ?1 ORDER BY key LIMIT ?2";
        let mut cases = Vec::new();
        self.sql.query(sql, &[Param::Text(self.sink), int(QUARANTINE_LISTED_MAX as u64)], &mut |cells| {
            let [key, reason, attempts, since] = cells else { return Err(corrupt()) };
            let [attempts, since] =
                [attempts, since].map(|cell| number(cell).ok().flatten().unwrap_or_default());
            cases.push((blob(key)?, text(reason).unwrap_or_default(), attempts, since));
            Ok(())
        })?;
        Ok(cases)
    }

    /// Notes the keys in quarantine again. They leave it when D1 takes them.
    pub(crate) fn retry(&mut self, now: Millis) -> Result<u64> {
        let count = self.quarantined()?;
        let sql = "INSERT INTO sink_pending (sink, key, since) SELECT sink, key, ?2 FROM sink_quarantine WHERE sink = ?1
            ON CONFLICT (sink, key) DO NOTHING";
        self.sql.run(sql, &[Param::Text(self.sink), int(now.0)])?;
        Ok(count)
    }
}

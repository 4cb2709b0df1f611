//! `sqlite-file:PATH` is a SQLite file that all processes of one machine share. Accesses that file.
//!
//! A swap is a transaction that compares the version of a row, and is synced before it is acknowledged. Swaps of other keys that come
//! meanwhile share it. SQLite's own locks keep processes apart, so a call blocks, on a thread of the runtime for such calls.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Capabilities, Clock, Code, Error, Key, Result, Store};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::Scheme;
use super::url::Url;
use crate::bounds::{DEADLINE_PARTS, SQLITE_FILE_SWEEP_ROWS_MAX};
use crate::cas::{Backend, CasStore, Reading, Stored, Swap, Swapped, VersionToken};
use crate::copied::copy;
use crate::gather::{Carrier, Gather};
use crate::url::deadline_ms;

pub(super) const SCHEME: Scheme = Scheme {
    name: "sqlite-file",
    form: "sqlite-file:PATH?deadline=5s",
    about: "a SQLite file that all processes of one machine share, durable",
    open,
};

/// A row may be deleted after `reclaim_at`, in seconds since 1970.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS keystead_records (
        key BLOB PRIMARY KEY, version INTEGER NOT NULL, record TEXT NOT NULL, reclaim_at INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS keystead_records_reclaim ON keystead_records (reclaim_at) WHERE reclaim_at IS NOT NULL;";
const READ: &str = "SELECT version, record FROM keystead_records WHERE key = ?1";
const WRITE: &str = "INSERT OR REPLACE INTO keystead_records (key, version, record, reclaim_at)
    VALUES (?1, ?2, ?3, unixepoch() + ?4)";

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    // `sqlite-file://records.db` and `sqlite-file:///var/records.db` are also common.
    let path = url.path.strip_prefix("//").unwrap_or(url.path);
    if path.is_empty() {
        return Err(url.bad("the path of the file is missing"));
    }
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    // How long another process may hold the file: a little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let file = Arc::new(File(Mutex::new(connect(Path::new(path), patience)?)));
    let backend =
        FileBackend { reads: Gather::new(Reads(Arc::clone(&file))), swaps: Gather::new(Swaps(file)) };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

fn connect(path: &Path, patience: Duration) -> Result<Connection> {
    // Else SQLite creates a file that every user can read.
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(|error| {
        let message = format!("cannot open {}: its directory must exist and be writable", path.display());
        Error::new(Code::ConfigInvalid, message).with_source(error)
    })?;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(patience)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(CREATE)?;
        Ok(connection)
    };
    open().map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            Error::new(Code::ConfigInvalid, format!("{} is no SQLite file", path.display()))
        }
        _ => not_applied(error).context(path.display()),
    })
}

struct FileBackend {
    reads: Gather<Reads>,
    swaps: Gather<Swaps>,
}

impl Backend for FileBackend {
    fn scheme(&self) -> &'static str {
        "sqlite-file"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        self.reads.call(key.clone()).await
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let row = RowSwap {
            key: key.clone(),
            // Every version is that of a record, which has at most 53 bits.
            expected: swap.expected.map(|token| token.0 as i64),
            text: swap.text.to_owned(),
            version: swap.version as i64,
            reclaim_s: swap.reclaim_ms.map(|ms| i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX / 2)),
        };
        self.swaps.call(row).await
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The connection. One call uses it at a time; the others of this process wait, and then share a transaction.
struct File(Mutex<Connection>);

impl File {
    /// Runs `call` on a thread that may block. Its error is that of each of the `len` calls.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        len: usize,
        call: impl FnOnce(&mut Connection) -> Result<Vec<T>> + Send + 'static,
    ) -> Vec<Result<T>> {
        let file = Arc::clone(self);
        let called = tokio::task::spawn_blocking(move || {
            // A call that panicked was a transaction that was rolled back.
            call(&mut file.0.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let outcome = called.await.unwrap_or_else(|error| {
            Err(Error::unknown(Code::StoreUnavailable, "a call of SQLite did not end").with_source(error))
        });
        match outcome {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) => (0..len).map(|_| Err(copy(&error))).collect(),
        }
    }
}

struct Reads(Arc<File>);

impl Carrier for Reads {
    type Call = Key;
    type Reply = Reading;

    async fn send(&self, keys: Vec<Key>) -> Vec<Result<Reading>> {
        let len = keys.len();
        let read_all = move |connection: &mut Connection| {
            keys.iter().map(|key| read(connection, key).map_err(not_applied)).collect()
        };
        self.0.run(len, read_all).await
    }
}

struct Swaps(Arc<File>);

struct RowSwap {
    key: Key,
    expected: Option<i64>,
    text: String,
    version: i64,
    reclaim_s: Option<i64>,
}

impl Carrier for Swaps {
    type Call = RowSwap;
    type Reply = Swapped;

    async fn send(&self, swaps: Vec<RowSwap>) -> Vec<Result<Swapped>> {
        self.0.run(swaps.len(), move |connection| swap(connection, &swaps)).await
    }
}

/// All of them in one transaction, and so one sync.
fn swap(connection: &mut Connection, swaps: &[RowSwap]) -> Result<Vec<Swapped>> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(not_applied)?;
    let swapped: rusqlite::Result<Vec<Swapped>> =
        swaps.iter().map(|swap| swap_row(&transaction, swap)).collect();
    // Dropped, the transaction is rolled back.
    let swapped = swapped.and_then(|swapped| sweep(&transaction).map(|()| swapped)).map_err(not_applied)?;
    transaction.commit().map_err(|error| match error.sqlite_error_code() {
        // Another process reads what a checkpoint wants to write: SQLite has not begun.
        Some(ErrorCode::DatabaseBusy) => not_applied(error),
        _ => Error::unknown(Code::StoreUnavailable, "the commit failed").with_source(error),
    })?;
    Ok(swapped)
}

fn swap_row(transaction: &Transaction<'_>, swap: &RowSwap) -> rusqlite::Result<Swapped> {
    let current = read(transaction, &swap.key)?;
    let version = current.stored.as_ref().map(|stored| stored.token.0 as i64);
    if version != swap.expected {
        return Ok(Swapped::Conflict(Some(current)));
    }
    let RowSwap { key, text, version, reclaim_s, .. } = swap;
    transaction.prepare_cached(WRITE)?.execute(params![key.as_bytes(), version, text, reclaim_s])?;
    Ok(Swapped::Done(token(*version)))
}

fn read(connection: &Connection, key: &Key) -> rusqlite::Result<Reading> {
    let mut statement = connection.prepare_cached(READ)?;
    let stored = statement
        .query_row([key.as_bytes()], |row| Ok(Stored { token: token(row.get(0)?), text: row.get(1)? }));
    Ok(Reading { stored: stored.optional()?, now: None })
}

fn token(version: i64) -> VersionToken {
    VersionToken(version.unsigned_abs().into())
}

/// Deletes a few rows that may be reclaimed, so that every write reclaims more than it adds.
fn sweep(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = format!(
        "DELETE FROM keystead_records WHERE key IN (
            SELECT key FROM keystead_records WHERE reclaim_at < unixepoch() LIMIT {SQLITE_FILE_SWEEP_ROWS_MAX})"
    );
    transaction.prepare_cached(&sql)?.execute([]).map(drop)
}

/// The error of a call that has written nothing.
fn not_applied(error: rusqlite::Error) -> Error {
    let (code, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => {
            (Code::StoreUnavailable, "another process holds the file: try again later")
        }
        Some(ErrorCode::DiskFull) => (Code::StoreUnavailable, "the disk of the file is full"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (Code::Corrupt, "the file is damaged: restore it from a backup")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (Code::StoreUnavailable, "the file cannot be written: check its rights")
        }
        _ => (Code::StoreUnavailable, "SQLite failed"),
    };
    Error::new(code, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use keystead_core::{Change, StoreExt, SystemClock, Ttl, step_fn};

    use super::*;

    fn store(path: &Path) -> Result<Arc<dyn Store>> {
        crate::open(&format!("sqlite-file:{}", path.display()))
    }

    async fn put(store: &Arc<dyn Store>, key: &Key, value: u64) -> Result<()> {
        store.apply(key, &step_fn(move |_: Option<&u64>, _| Change::Put(value, Ttl::Never, ()))).await
    }

    #[tokio::test]
    async fn two_handles_share_a_file_that_only_its_owner_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.db");
        let (one, other) = (store(&path).unwrap(), store(&path).unwrap());
        let key = Key::new("k").unwrap();
        put(&one, &key, 5).await.unwrap();
        assert_eq!(other.get::<u64>(&key).await.unwrap(), Some(5));
        for name in ["records.db", "records.db-wal", "records.db-shm"] {
            let mode = dir.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn what_is_no_such_file_is_an_error_that_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        std::fs::write(
            &text,
            "not a database, and longer than the header of one, which has a hundred bytes, ".repeat(2),
        )
        .unwrap();
        let error = store(&text).err().unwrap();
        assert!(error.message().ends_with("is no SQLite file"), "{error}");
        let error = store(&dir.path().join("missing/records.db")).err().unwrap();
        assert!(error.message().contains("its directory must exist"), "{error}");
        assert!(crate::open("sqlite-file:").is_err());
    }

    /// A lock of another process is an error of known outcome, and its end is noticed.
    #[tokio::test]
    async fn a_file_that_is_held_is_unavailable_and_nothing_is_applied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.db");
        let url = format!("sqlite-file:{}?deadline=200ms", path.display());
        let store = crate::open_on(&url, Arc::new(SystemClock)).unwrap();
        let key = Key::new("k").unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = put(&store, &key, 1).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert_eq!(store.get::<u64>(&key).await.unwrap(), None, "reads go on");
        other.execute_batch("ROLLBACK").unwrap();
        put(&store, &key, 2).await.unwrap();
        assert_eq!(store.get::<u64>(&key).await.unwrap(), Some(2));
    }

    #[test]
    fn rows_that_may_be_reclaimed_go_with_later_writes() {
        let dir = tempfile::tempdir().unwrap();
        let mut connection = connect(&dir.path().join("records.db"), Duration::from_secs(1)).unwrap();
        let old = "INSERT INTO keystead_records VALUES (?1, 1, 'x', unixepoch() - 1)";
        for n in 0..100 {
            connection.execute(old, [format!("old{n}").as_bytes()]).unwrap();
        }
        let row = |n: i64| RowSwap {
            key: Key::new(format!("new{n}")).unwrap(),
            expected: None,
            text: "x".to_owned(),
            version: n,
            reclaim_s: Some(300),
        };
        for n in 0..10 {
            swap(&mut connection, &[row(n)]).unwrap();
        }
        let rows: i64 =
            connection.query_row("SELECT count(*) FROM keystead_records", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 10);
    }
}

//! SQLite: one upsert in its own transaction, synced as ours is, on one connection.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, params};

use super::super::Call;
use super::{INTERVAL_MS, failed, now_ms};

const CHECK: &str = "\
INSERT INTO by_hand (key, tat) VALUES (?1, ?2 + ?3) \
ON CONFLICT (key) DO UPDATE SET tat = max(tat, ?2) + ?3 RETURNING tat";

pub(crate) async fn prepare(dir: PathBuf) -> Call {
    let connection = Connection::open(dir.join("by-hand.sqlite")).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", "full").unwrap();
    connection.execute_batch("CREATE TABLE by_hand (key TEXT PRIMARY KEY, tat REAL) WITHOUT ROWID").unwrap();
    let connection = Arc::new(Mutex::new(connection));
    Arc::new(move |key| {
        let connection = Arc::clone(&connection);
        Box::pin(async move {
            let check = || {
                let connection = connection.lock().unwrap();
                let mut check = connection.prepare_cached(CHECK)?;
                let row = params![format!("by-hand:{key:05}"), now_ms() as f64, INTERVAL_MS];
                check.query_row(row, |row| row.get::<_, f64>(0))
            };
            tokio::task::block_in_place(check).map(|_| ()).map_err(failed)
        })
    })
}

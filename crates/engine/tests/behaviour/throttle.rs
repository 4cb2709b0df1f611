//! An archive that cannot keep up delays acknowledgements, and rejects nothing. Free space is returned to the system.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use keystead_core::{ShardId, Stopwatch};
use keystead_engine::{Engine, check};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use rusqlite::Connection;

use crate::common::{DURABLE, get, options, set};

const SEGMENT_BYTES: u64 = 16 * 1024;
const JOURNAL_BYTES_MAX: u64 = 512 * 1024;
const WRITERS: usize = 8;
const WRITES: usize = 400;

/// Waits until `is_so`; it has to be so before long.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !is_so() {
        assert!(watch.elapsed() < Duration::from_secs(60), "never {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_archive_that_is_held_up_delays_writes_and_rejects_none() {
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path()).segment_bytes(SEGMENT_BYTES).durability(level);
        let engine = Engine::open(&options.journal_bytes_max(JOURNAL_BYTES_MAX)).unwrap();
        set(&engine, "settled", "here").await.unwrap();
        // Another program writes to the file: the archive waits for it, and that is no failure yet.
        let other = Connection::open(dir.path().join("shard-0/archive.sqlite")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (engine, acknowledged) = (engine.clone(), Arc::clone(&acknowledged));
                tokio::spawn(async move {
                    for n in 0..WRITES {
                        set(&engine, &format!("k{writer}-{n}"), &"x".repeat(1000)).await.unwrap();
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        until("throttled", || engine.health().shards[0].throttled).await;
        let health = engine.health();
        assert!(health.is_ok() && !health.shards[0].journal_full, "{health:?}");
        // A write that has run is not acknowledged, but reads go on.
        assert_eq!(get(&engine, "settled").await.unwrap().as_deref(), Some("here"));
        assert!(acknowledged.load(Ordering::Relaxed) < WRITERS * WRITES);
        other.execute_batch("ROLLBACK").unwrap();
        until("all acknowledged", || {
            let bytes = engine.health().shards[0].journal_bytes;
            assert!(bytes <= JOURNAL_BYTES_MAX + JOURNAL_BYTES_MAX / 4, "the journal has {bytes} bytes");
            acknowledged.load(Ordering::Relaxed) == WRITERS * WRITES
        })
        .await;
        for writer in writers {
            writer.await.unwrap();
        }
        set(&engine, "last", "1").await.unwrap();
        until("at full speed again", || !engine.health().shards[0].throttled).await;
        engine.close().await.unwrap();
        let report = check(dir.path()).unwrap();
        assert_eq!((report.keys, report.problems), (WRITERS * WRITES + 2, vec![]));
    }
}

#[tokio::test]
async fn a_close_does_not_wait_for_what_is_delayed() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path()).segment_bytes(SEGMENT_BYTES).journal_bytes_max(JOURNAL_BYTES_MAX);
    let engine = Engine::open(&options).unwrap();
    let other = Connection::open(dir.path().join("shard-0/archive.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while set(&engine, &format!("k{writer}-{count}"), &"x".repeat(1000)).await.is_ok() {
                    count += 1;
                }
                count
            })
        })
        .collect();
    until("throttled", || engine.health().shards[0].throttled).await;
    drop(other);
    let _ = engine.close().await;
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += writer.await.unwrap();
    }
    drop(engine);
    let engine = Engine::open(&options).unwrap();
    let keys = engine.read(b"", |keyspace, _| Ok(keyspace.len())).await.unwrap();
    assert!(keys >= acknowledged, "{keys} keys of {acknowledged} that were acknowledged");
    engine.close().await.unwrap();
}

const KEYS: usize = 4000;

async fn fill(engine: &Engine) {
    let put = |keyspace: &mut Keyspace, now| {
        for n in 0..KEYS {
            let value = Bytes::from(vec![b'x'; 5000]);
            keyspace.set_str(format!("k{n}").as_bytes(), value, Expire::Keep, now)?;
        }
        Ok(())
    };
    engine.write(b"", put).await.unwrap();
    until("archived", || engine.health().shards[0].archived == engine.revision(ShardId(0))).await;
}

fn file_bytes(dir: &Path) -> u64 {
    dir.join("shard-0/archive.sqlite").metadata().unwrap().len()
}

#[tokio::test]
async fn the_file_becomes_shorter_when_most_keys_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).segment_bytes(1 << 20)).unwrap();
    for flushes in [true, false] {
        fill(&engine).await;
        until("written to the file", || file_bytes(dir.path()) > 16 << 20).await;
        let delete = move |keyspace: &mut Keyspace, now| {
            if flushes {
                keyspace.flush();
                return Ok(());
            }
            for n in (0..KEYS).filter(|n| n % 10 != 0) {
                keyspace.delete(format!("k{n}").as_bytes(), now)?;
            }
            Ok(())
        };
        engine.write(b"", delete).await.unwrap();
        until("shorter", || file_bytes(dir.path()) < 8 << 20).await;
    }
    assert_eq!(get(&engine, "k10").await.unwrap(), Some("x".repeat(5000)));
    engine.close().await.unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.keys, report.problems), (KEYS / 10, vec![]));
}

#[tokio::test]
async fn a_file_without_incremental_vacuum_gets_it_when_it_is_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path()).segment_bytes(1 << 20);
    let engine = Engine::open(&options).unwrap();
    fill(&engine).await;
    engine.close().await.unwrap();
    drop(engine);
    let file = Connection::open(dir.path().join("shard-0/archive.sqlite")).unwrap();
    file.execute_batch("PRAGMA journal_mode = delete; PRAGMA auto_vacuum = none; VACUUM").unwrap();
    drop(file);
    let engine = Engine::open(&options).unwrap();
    let delete = |keyspace: &mut Keyspace, now| {
        (0..100).try_for_each(|n| keyspace.delete(format!("k{n}").as_bytes(), now).map(drop))
    };
    engine.write(b"", delete).await.unwrap();
    let before = file_bytes(dir.path());
    engine.compact();
    until("compacted", || file_bytes(dir.path()) + (400 << 10) < before).await;
    engine.close().await.unwrap();
    let file = Connection::open(dir.path().join("shard-0/archive.sqlite")).unwrap();
    let mode: i64 = file.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap();
    assert_eq!(mode, 2);
}

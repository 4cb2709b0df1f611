//! Opening, writing, closing and opening again, at every durability level.

#![allow(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use keystead_core::{Code, ManualClock, Millis, ShardId, Version};
use keystead_engine::{Durability, Engine, Options, check};
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

const DURABLE: [Durability; 2] = [Durability::Fsync, Durability::Commit];

fn options(dir: &Path, level: Durability) -> Options {
    Options::new(dir).durability(level).segment_bytes(64 * 1024)
}

async fn set(engine: &Engine, key: &str, value: &str) -> Version {
    let (name, value) = (key.to_string(), Bytes::from(value.as_bytes()));
    let set = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        keyspace.set_str(name.as_bytes(), value, Expire::At(Millis::NEVER), now)
    };
    engine.write(key.as_bytes(), set).await.unwrap()
}

async fn get(engine: &Engine, key: &str) -> Option<String> {
    let name = key.to_string();
    let get = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        let value = keyspace.str(name.as_bytes(), now).unwrap();
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    };
    engine.read(key.as_bytes(), get).await.unwrap()
}

#[tokio::test]
async fn a_close_without_time_to_archive_loses_nothing() {
    let mut unarchived = 0;
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), level).close_archive_max(Duration::ZERO);
        for round in 0..3u64 {
            let engine = Engine::open(&options).unwrap();
            for n in 0..500 {
                let before = (round > 0).then(|| format!("v{}", round - 1));
                assert_eq!(get(&engine, &format!("k{n}")).await, before);
                set(&engine, &format!("k{n}"), &format!("v{round}")).await;
            }
            engine.close().await.unwrap();
            let report = check(dir.path()).unwrap();
            assert_eq!((report.problems, report.keys), (vec![], 500));
            unarchived += report.unarchived;
        }
    }
    assert!(unarchived > 0, "every close has archived everything");
}

#[tokio::test]
async fn acknowledged_writes_survive_a_close_and_a_drop() {
    for level in DURABLE {
        for shards in [1, 4] {
            let dir = tempfile::tempdir().unwrap();
            for round in 0..4u64 {
                let engine = Engine::open(&options(dir.path(), level).shards(shards)).unwrap();
                for n in 0..200 {
                    if round > 0 {
                        assert_eq!(get(&engine, &format!("k{n}")).await, Some(format!("v{}", round - 1)));
                    }
                    let version = set(&engine, &format!("k{n}"), &format!("v{round}")).await;
                    assert_eq!(version, Version(round + 1));
                }
                if round % 2 == 0 {
                    engine.close().await.unwrap();
                } else {
                    drop(engine);
                    wait_until_free(dir.path());
                }
            }
            let report = check(dir.path()).unwrap();
            assert_eq!((report.problems, report.keys), (vec![], 200));
        }
    }
}

/// A dropped engine closes in the background.
fn wait_until_free(dir: &Path) {
    let watch = keystead_core::Stopwatch::start();
    while let Err(error) = check(dir) {
        assert!(error.message().contains("open in this process"), "{error}");
        assert!(watch.elapsed().as_secs() < 30, "{error}");
        std::thread::yield_now();
    }
}

/// Every path in a directory, itself included, that other users than its owner may access.
fn open_to_others(dir: &Path) -> Vec<String> {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut open = Vec::new();
    if mode(dir) != 0o700 {
        open.push(format!("{:o} {}", mode(dir), dir.display()));
    }
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            open.extend(open_to_others(&path));
        } else if mode(&path) != 0o600 {
            open.push(format!("{:o} {}", mode(&path), path.display()));
        }
    }
    open
}

#[tokio::test]
async fn every_file_is_accessible_to_its_owner_only() {
    let outer = tempfile::tempdir().unwrap();
    let (data, copy) = (outer.path().join("a/data"), outer.path().join("b/copy"));
    let engine = Engine::open(&options(&data, Durability::Commit).shards(2)).unwrap();
    for n in 0..500 {
        set(&engine, &format!("k{n}"), &"x".repeat(1000)).await;
    }
    engine.backup(&copy).await.unwrap();
    let open = || [open_to_others(&outer.path().join("a")), open_to_others(&outer.path().join("b"))].concat();
    assert_eq!(open(), [""; 0], "while it is open");
    engine.close().await.unwrap();
    assert_eq!(open(), [""; 0], "when it is closed");
}

#[tokio::test]
async fn a_database_in_memory_has_no_files() {
    let engine = Engine::open(&Options::in_memory().shards(2)).unwrap();
    assert_eq!(set(&engine, "a", "1").await, Version(1));
    assert_eq!(get(&engine, "a").await.as_deref(), Some("1"));
    engine.close().await.unwrap();
    let error = engine.read(b"a", |_, _| Ok(())).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
}

#[tokio::test]
async fn expired_keys_are_absent_for_readers_and_then_from_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Millis(1_000_000));
    let engine = Engine::open(&options(dir.path(), Durability::Commit).clock(clock.clone())).unwrap();
    let put = |keyspace: &mut keystead_model::keyspace::Keyspace, now: Millis| {
        keyspace.set_str(b"k", Bytes::from(&b"v"[..]), Expire::At(now.plus_ms(50)), now)
    };
    engine.write(b"k", put).await.unwrap();
    clock.advance_ms(49);
    assert!(get(&engine, "k").await.is_some());
    clock.advance_ms(1);
    assert!(get(&engine, "k").await.is_none());
    // Reclaimed in a turn of the idle loop, and deleted from the archive.
    clock.advance_ms(1000);
    let watch = keystead_core::Stopwatch::start();
    while engine.read(b"k", |keyspace, _| Ok(keyspace.len())).await.unwrap() > 0 {
        assert!(watch.elapsed().as_secs() < 30, "never reclaimed");
    }
    engine.close().await.unwrap();
    assert_eq!(check(dir.path()).unwrap().keys, 0);
}

#[tokio::test]
async fn the_journal_recycles_archived_segments() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path(), Durability::Commit)).unwrap();
    let value = "x".repeat(1000);
    for n in 0..3000 {
        set(&engine, &format!("k{}", n % 10), &value).await;
    }
    engine.close().await.unwrap();
    let segments = std::fs::read_dir(dir.path().join("shard-0/journal")).unwrap().count();
    assert!(segments <= 6, "{segments} files are left of 3 MB of journal");
    let engine = Engine::open(&options(dir.path(), Durability::Fsync)).unwrap();
    assert_eq!(get(&engine, "k9").await, Some(value));
    assert_eq!(engine.revision(ShardId(0)).0, 3000);
}

#[tokio::test]
async fn a_job_that_records_too_much_is_rejected_and_rolled_back() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let chunk = Bytes::from(vec![b'x'; 64 << 20]);
    let put = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        for n in 0..9u8 {
            keyspace.set_str(&[n], chunk.clone(), Expire::Keep, now)?;
        }
        Ok(())
    };
    assert_eq!(engine.write(b"k", put).await.unwrap_err().code(), Code::TooLarge);
    assert_eq!(engine.read(b"k", |keyspace, _| Ok(keyspace.len())).await.unwrap(), 0);
    let long = vec![b'k'; keystead_core::bounds::KEY_BYTES_MAX + 1];
    let put = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        keyspace.set_str(&long, Bytes::new(), Expire::Keep, now)
    };
    assert_eq!(engine.write(b"k", put).await.unwrap_err().code(), Code::TooLarge);
    assert_eq!(set(&engine, "k", "v").await, Version(1), "the shard still works");
}

#[tokio::test]
async fn a_missing_archive_is_damage_and_not_a_new_database() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path(), Durability::Fsync)).unwrap();
    set(&engine, "a", "1").await;
    engine.close().await.unwrap();
    drop(engine);
    std::fs::remove_file(dir.path().join("shard-0/archive.sqlite")).unwrap();
    let Err(error) = Engine::open(&options(dir.path(), Durability::Fsync)) else { panic!("it opened") };
    assert_eq!(error.code(), Code::Corrupt);
    assert!(error.message().contains("is missing"), "{error}");
}

//! Archives that are truncated, damaged, foreign or newer.

use std::fs;
use std::path::Path;

use keystead_core::{Code, Error};
use keystead_engine::{Engine, check};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{copy_dir, get, options, set, value_of};

const KEYS: usize = 400;

/// A closed database whose first journal segments were recycled, so that only the archive has their changes.
async fn closed() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).journal_bytes_max(32 * 1024)).unwrap();
    for n in 0..KEYS {
        set(&engine, &format!("k{n}"), &value_of(n)).await.unwrap();
        if n % 50 == 0 {
            // Keeps the writer below the journal's maximum size.
            engine.backup(&dir.path().join(format!("copy-{n}"))).await.unwrap();
            fs::remove_dir_all(dir.path().join(format!("copy-{n}"))).unwrap();
        }
    }
    engine.close().await.unwrap();
    dir
}

fn archive(dir: &Path) -> std::path::PathBuf {
    dir.join("shard-0/archive.sqlite")
}

fn copy_of(original: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_dir(original, copy.path());
    copy
}

fn open_error(dir: &Path, what: &str) -> Error {
    let error = Engine::open(&options(dir)).err().unwrap_or_else(|| panic!("{what}: it opened"));
    let report = check(dir);
    assert!(report.is_err() || !report.unwrap().problems.is_empty(), "{what}: a check finds nothing");
    error
}

#[tokio::test]
async fn a_truncated_emptied_or_missing_archive_is_rejected() {
    let original = closed().await;
    let bytes = fs::read(archive(original.path())).unwrap();
    assert!(bytes.len() > 5 * 4096, "{} bytes", bytes.len());
    // A part of a page at the end is no proof of damage: a crash may leave it, and then the WAL has the page.
    for len in [0, 1, 50, 100, 1000, 4096, bytes.len() / 2, bytes.len() - 4096] {
        let copy = copy_of(original.path());
        fs::write(archive(copy.path()), &bytes[..len]).unwrap();
        let what = format!("cut to {len} of {} bytes", bytes.len());
        let error = open_error(copy.path(), &what);
        assert_eq!(error.code(), Code::Corrupt, "{what}: {error}");
    }
    let copy = copy_of(original.path());
    fs::remove_file(archive(copy.path())).unwrap();
    let error = Engine::open(&options(copy.path())).err().unwrap();
    assert_eq!(error.code(), Code::Corrupt, "{error}");
}

#[tokio::test]
async fn a_file_that_is_not_an_archive_is_rejected() {
    let original = closed().await;
    for (bytes, what) in
        [(vec![0x5A; 8192], "noise"), (b"hello".repeat(2000), "a text"), (vec![0; 8192], "zeros")]
    {
        let copy = copy_of(original.path());
        fs::write(archive(copy.path()), bytes).unwrap();
        let error = open_error(copy.path(), what);
        assert_eq!(error.code(), Code::Corrupt, "{what}: {error}");
        assert!(error.message().contains("archive.sqlite"), "{what}: {error}");
    }
    let copy = copy_of(original.path());
    fs::remove_file(archive(copy.path())).unwrap();
    let foreign = Connection::open(archive(copy.path())).unwrap();
    foreign.execute_batch("CREATE TABLE users (id); INSERT INTO users VALUES (1)").unwrap();
    drop(foreign);
    let error = open_error(copy.path(), "another program's");
    assert!(error.message().contains("not a Keystead archive"), "{error}");
    // It is unchanged.
    let foreign = Connection::open(archive(copy.path())).unwrap();
    let tables: i64 = foreign.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_newer_archive_or_database_asks_for_a_newer_keystead() {
    let original = closed().await;
    let copy = copy_of(original.path());
    let newer = Connection::open(archive(copy.path())).unwrap();
    newer.execute_batch("UPDATE meta SET value = 1000 WHERE name = 'schema'").unwrap();
    drop(newer);
    let error = open_error(copy.path(), "a newer schema");
    assert!(error.message().contains("use a newer Keystead"), "{error}");

    let copy = copy_of(original.path());
    let file = copy.path().join("database.json");
    let text = fs::read_to_string(&file).unwrap().replace("\"format\":1", "\"format\":2");
    fs::write(&file, text).unwrap();
    let error = Engine::open(&options(copy.path())).err().unwrap();
    assert!(error.message().contains("use a newer Keystead"), "{error}");
    assert_eq!(check(copy.path()).unwrap_err().code(), error.code());
}

#[tokio::test]
async fn an_archive_of_another_shard_or_database_is_detected() {
    let (original, other) = (closed().await, tempfile::tempdir().unwrap());
    let engine = Engine::open(&options(other.path())).unwrap();
    set(&engine, "k", "v").await.unwrap();
    engine.close().await.unwrap();
    fs::copy(archive(other.path()), archive(original.path())).unwrap();
    let error = open_error(original.path(), "another database's");
    assert_eq!(error.code(), Code::Corrupt, "{error}");
}

/// SQLite has no checksums of its pages, so a flip inside a value cannot be detected; but everything detected is an error,
/// nothing panics or hangs, and a key that was not hit is right.
#[tokio::test]
async fn flipped_bytes_in_an_archive_never_panic() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let mut rng = Rng::new(seed);
    let original = closed().await;
    let bytes = fs::read(archive(original.path())).unwrap();
    let (mut rejected, mut opened) = (0, 0);
    for round in 0..60 {
        let what = format!("KEYSTEAD_SEED={seed} round {round}");
        let copy = copy_of(original.path());
        let mut damaged = bytes.clone();
        for _ in 0..=rng.below(8) {
            // Half of them in the page headers, where they do most harm.
            let page = rng.below(bytes.len() as u64 / 4096) * 4096;
            let within = if rng.below(2) == 0 { rng.below(120) } else { rng.below(4096) };
            damaged[(page + within) as usize] ^= 1 << rng.below(8);
        }
        fs::write(archive(copy.path()), damaged).unwrap();
        match Engine::open(&options(copy.path())) {
            Err(error) => {
                assert!(!error.message().contains("panicked"), "{what}: {error}");
                assert!(
                    matches!(
                        error.code(),
                        Code::Corrupt | Code::StoreUnavailable | Code::ConfigInvalid | Code::Unsupported
                    ),
                    "{what}: {error}"
                );
                rejected += 1;
            }
            Ok(engine) => {
                for n in 0..KEYS {
                    if let Err(error) = get(&engine, &format!("k{n}")).await {
                        assert!(
                            matches!(error.code(), Code::Corrupt | Code::StoreUnavailable | Code::WrongType),
                            "{what}: {error}"
                        );
                    }
                }
                assert!(engine.health().shards[0].poisoned.is_none(), "{what}: {:?}", engine.health());
                // It may be unable to archive what it has read.
                let _ = engine.close().await;
                opened += 1;
            }
        }
        let _ = check(copy.path());
    }
    assert!(rejected > 0 && opened > 0, "KEYSTEAD_SEED={seed}: {rejected} were rejected and {opened} opened");
}

/// A reader waits until what it returns is durable. With a revision that will never be written, the reader, and closing
/// the database, would wait for ever; a revision that is assigned again would make the journal inconsistent.
#[tokio::test]
async fn an_invalid_version_or_revision_is_rejected() {
    let original = closed().await;
    let last = KEYS as i64;
    let key = |column: &str, n: i64| format!("UPDATE keys SET {column} = {n} WHERE id = 7");
    let archived = |n: i64| format!("UPDATE meta SET value = {n} WHERE name IN ('revision', 'newest')");
    for damage in [
        key("revision", last + 1),
        key("revision", last + 4096),
        key("revision", i64::MAX),
        key("revision", -1),
        key("version", 0),
        key("version", -1),
        archived(last - 1),
        archived(-1),
        "DELETE FROM meta WHERE name IN ('revision', 'newest')".into(),
    ] {
        let copy = copy_of(original.path());
        let connection = Connection::open(archive(copy.path())).unwrap();
        assert!(connection.execute(&damage, []).unwrap() > 0, "{damage}");
        drop(connection);
        let error = open_error(copy.path(), &damage);
        assert_eq!(error.code(), Code::Corrupt, "{damage}: {error}");
        assert!(error.message().contains("archive"), "{damage}: {error}");
    }
    // The largest revision is valid.
    let copy = copy_of(original.path());
    let connection = Connection::open(archive(copy.path())).unwrap();
    connection.execute(&key("revision", last), []).unwrap();
    drop(connection);
    let engine = Engine::open(&options(copy.path())).unwrap();
    assert_eq!(get(&engine, "k7").await.unwrap(), Some(value_of(7)));
    engine.close().await.unwrap();
}

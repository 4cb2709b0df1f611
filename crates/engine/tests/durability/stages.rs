//! Killed with SIGKILL in a certain stage: while acknowledgements are delayed, while free space is returned, while an older schema
//! is migrated. Every acknowledged write is there afterwards, and the files are consistent.
//!
//! A child reports that it has reached the stage, and is killed a random time later.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keystead_core::{Millis, Result, ShardId};
use keystead_engine::{Durability, Engine, Options, check};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_model::sql::schema;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use libtest_mimic::Failed;
use rusqlite::Connection;

use crate::child::{command, when_free};
use crate::load::writer::say;

/// Kills of each test.
const KILLS: u64 = 6;

/// The words of a child that has reached its stage, and of one that has passed it.
const REACHED: &str = "reached";
const PASSED: &str = "passed";

/// A child in its stage.
struct Stage {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Stage {
    /// Starts a child and waits until it has reached its stage.
    fn reach(stage: &str, home: &Path) -> Stage {
        let args = [stage.to_owned(), home.display().to_string()];
        let mut child = command("stage", &args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stage = Stage { child, lines };
        assert!(stage.lines().iter().any(|line| line == REACHED), "it ended before");
        stage
    }

    /// The next lines, up to one that is of a stage.
    fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(Ok(line)) = self.lines.next() {
            let is_stage = line == REACHED || line == PASSED;
            lines.push(line);
            if is_stage {
                break;
            }
        }
        lines
    }

    /// Kills it after a while, and returns the rest of its lines.
    fn kill_after(mut self, span: Duration) -> Vec<String> {
        let (done, timer) = std::sync::mpsc::channel::<()>();
        // Nothing is sent: this is how to wait.
        let _ = timer.recv_timeout(span);
        drop(done);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = Vec::new();
        while let Some(Ok(line)) = self.lines.next() {
            rest.push(line);
        }
        rest
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs in the child.
pub(crate) fn run_child(stage: &str, home: &str) {
    let dir = PathBuf::from(home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let outcome = match stage {
        "throttled" => runtime.block_on(write_while_throttled(&dir)),
        "vacuum" => runtime.block_on(vacuum(&dir)),
        "migration" => migrate(&dir),
        _ => panic!("there is no stage {stage}"),
    };
    outcome.unwrap();
}

fn rng() -> Rng {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    crate::say(&format!("KEYSTEAD_SEED={seed}"));
    Rng::new(seed)
}

fn is_sound(dir: &Path) {
    let report = when_free(|| check(dir));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

// Throttled.

const WRITERS: u64 = 4;

fn small_journal(dir: &Path) -> Options {
    Options::new(dir.join("data"))
        .durability(Durability::Commit)
        .segment_bytes(16 * 1024)
        .journal_bytes_max(256 * 1024)
}

/// Writers count in keys of their own, while another connection holds the archive's lock. Each line is a count that was
/// acknowledged.
async fn write_while_throttled(home: &Path) -> Result<()> {
    let engine = Engine::open(&small_journal(home))?;
    let other = Connection::open(home.join("data/shard-0/archive.sqlite")).unwrap();
    other.execute_batch("PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE").unwrap();
    let last = Arc::new(AtomicU64::new(0));
    for writer in 0..WRITERS {
        let (engine, last) = (engine.clone(), Arc::clone(&last));
        tokio::spawn(async move {
            loop {
                let n = last.fetch_add(1, Ordering::Relaxed) + 1;
                let put = move |keyspace: &mut Keyspace, now: Millis| {
                    let value = format!("{n} {}", "x".repeat(1000));
                    let key = format!("w{writer}");
                    keyspace.set_str(key.as_bytes(), Bytes::from(value.as_bytes()), Expire::Keep, now)?;
                    Ok(())
                };
                // An archive that is held for too long is failing, and then writes are rejected.
                if engine.write(b"", put).await.is_ok() {
                    say(&format!("{writer} {n}\n"));
                }
            }
        });
    }
    while !engine.health().shards[0].throttled {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    say(&format!("{REACHED}\n"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(other);
    Ok(())
}

/// The highest acknowledged number of each writer is in its key after a kill, or a higher one that was in flight.
pub(crate) fn kills_while_acknowledgements_are_delayed() -> std::result::Result<(), Failed> {
    let (mut rng, home) = (rng(), tempfile::tempdir()?);
    for _ in 0..KILLS {
        let args = ["throttled".to_owned(), home.path().display().to_string()];
        let mut child = command("stage", &args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stage = Stage { child, lines };
        let mut lines = stage.lines();
        assert_eq!(lines.last().map(String::as_str), Some(REACHED));
        lines.extend(stage.kill_after(Duration::from_millis(rng.below(200))));
        let mut acknowledged = [0; WRITERS as usize];
        for line in &lines {
            // The last line may be cut.
            if let Some((writer, n)) = line.split_once(' ')
                && let (Ok(writer), Ok(n)) = (writer.parse::<usize>(), n.parse::<u64>())
            {
                acknowledged[writer] = n.max(acknowledged[writer]);
            }
        }
        let engine = when_free(|| Engine::open(&small_journal(home.path())));
        for (writer, n) in acknowledged.into_iter().enumerate().filter(|(_, n)| *n > 0) {
            let key = format!("w{writer}");
            let read = engine.read(b"", move |keyspace, now| {
                Ok(keyspace.str(key.as_bytes(), now)?.map(|value| value.to_vec()))
            });
            let value = runtime().block_on(read).unwrap().expect("an acknowledged key is missing");
            let text = String::from_utf8(value).unwrap();
            let found: u64 = text.split(' ').next().unwrap().parse().unwrap();
            assert!(found >= n, "{n} of writer {writer} was acknowledged, and {found} is there");
            assert_eq!(text.len(), found.to_string().len() + 1001, "half of a value");
        }
        runtime().block_on(engine.close()).unwrap();
        drop(engine);
        is_sound(&home.path().join("data"));
    }
    Ok(())
}

// Vacuum.

const VACUUM_KEYS: usize = 12_000;

fn value_of(n: usize) -> Bytes {
    Bytes::from(vec![b'a' + (n % 26) as u8; 4000])
}

fn vacuum_options(dir: &Path) -> Options {
    Options::new(dir.join("data")).durability(Durability::Commit).segment_bytes(1 << 20)
}

async fn until_archived(engine: &Engine) {
    while engine.health().shards[0].archived < engine.revision(ShardId(0)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Fills the file, deletes all but every tenth key, and returns the free space.
async fn vacuum(home: &Path) -> Result<()> {
    let engine = Engine::open(&vacuum_options(home))?;
    let put = |keyspace: &mut Keyspace, now| {
        (0..VACUUM_KEYS).try_for_each(|n| {
            keyspace.set_str(format!("k{n}").as_bytes(), value_of(n), Expire::Keep, now).map(drop)
        })
    };
    engine.write(b"", put).await?;
    until_archived(&engine).await;
    let delete = |keyspace: &mut Keyspace, now| {
        let mut deleted = (0..VACUUM_KEYS).filter(|n| n % 10 != 0);
        deleted.try_for_each(|n| keyspace.delete(format!("k{n}").as_bytes(), now).map(drop))
    };
    engine.write(b"", delete).await?;
    until_archived(&engine).await;
    engine.compact();
    say(&format!("{REACHED}\n"));
    let file = home.join("data/shard-0/archive.sqlite");
    while file.metadata().map_or(0, |metadata| metadata.len()) > 8 << 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    say(&format!("{PASSED}\n"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(())
}

/// What is left is as it was, however far the vacuum was.
pub(crate) fn kills_while_free_space_is_returned() -> std::result::Result<(), Failed> {
    let (mut rng, home, mut inside) = (rng(), tempfile::tempdir()?, 0);
    for kill in 0..KILLS {
        let stage = Stage::reach("vacuum", home.path());
        // The first at once, the others anywhere.
        let rest = stage.kill_after(Duration::from_millis(if kill == 0 { 0 } else { rng.below(150) }));
        inside += u64::from(!rest.iter().any(|line| line == PASSED));
        is_sound(&home.path().join("data"));
        let engine = when_free(|| Engine::open(&vacuum_options(home.path())));
        let read = engine.read(b"", |keyspace, now| {
            let count = keyspace.count();
            let mut is_right = |n: usize| -> Result<bool> {
                Ok(keyspace.str(format!("k{n}").as_bytes(), now)? == Some(&value_of(n).into()))
            };
            Ok((count, (0..VACUUM_KEYS).step_by(10).map(&mut is_right).collect::<Result<Vec<_>>>()?))
        });
        let (count, right) = runtime().block_on(read).unwrap();
        assert_eq!((count, right.iter().all(|right| *right)), (VACUUM_KEYS / 10, true));
        runtime().block_on(engine.close()).unwrap();
    }
    assert!(inside > 0, "no kill met the vacuum");
    Ok(())
}

// Migration.

const MIGRATED_KEYS: usize = 60_000;

fn migrate(home: &Path) -> Result<()> {
    say(&format!("{REACHED}\n"));
    let engine = Engine::open(&vacuum_options(home))?;
    say(&format!("{PASSED}\n"));
    std::mem::forget(engine);
    Ok(())
}

/// Makes the archive one of an earlier schema, with the same rows.
fn downgrade(home: &Path, earlier: usize) {
    let shard = home.join("data/shard-0");
    let old = Connection::open(shard.join("old.sqlite")).unwrap();
    for statement in schema::statements_up_to(earlier) {
        old.execute_batch(statement).unwrap();
    }
    old.execute("ATTACH ?1 AS new", [shard.join("archive.sqlite").to_str().unwrap()]).unwrap();
    old.execute_batch(&format!(
        "INSERT INTO main.meta SELECT * FROM new.meta WHERE name IN ('format', 'revision');
        INSERT INTO main.meta VALUES ('schema', {earlier});
        INSERT INTO main.keys SELECT id, name, type, version, revision, expires_at FROM new.keys;
        INSERT INTO main.strings SELECT id, value FROM new.keys WHERE type = 'string';
        INSERT INTO main.hash_fields SELECT * FROM new.hash_fields;
        DETACH new;"
    ))
    .unwrap();
    drop(old);
    for name in ["archive.sqlite", "archive.sqlite-wal", "archive.sqlite-shm"] {
        let _ = std::fs::remove_file(shard.join(name));
    }
    std::fs::rename(shard.join("old.sqlite"), shard.join("archive.sqlite")).unwrap();
}

fn stored_schema(home: &Path) -> i64 {
    let file = Connection::open(home.join("data/shard-0/archive.sqlite")).unwrap();
    file.query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| row.get(0)).unwrap()
}

/// Whatever moment it is killed, it has the old schema or the new one, and all keys.
pub(crate) fn kills_while_a_schema_is_migrated() -> std::result::Result<(), Failed> {
    let mut rng = rng();
    for earlier in [1, 2] {
        let home = tempfile::tempdir()?;
        let engine = Engine::open(&vacuum_options(home.path())).unwrap();
        let put = |keyspace: &mut Keyspace, now| {
            for n in 0..MIGRATED_KEYS {
                let value = Bytes::from(format!("value {n}").as_bytes());
                keyspace.set_str(format!("k{n}").as_bytes(), value, Expire::Keep, now)?;
            }
            keyspace.hash_mut(b"h", now)?.set(&Bytes::from(b"field"), &Bytes::from(b"value"));
            Ok(())
        };
        runtime().block_on(engine.write(b"", put)).unwrap();
        runtime().block_on(until_archived(&engine));
        runtime().block_on(engine.close()).unwrap();
        drop(engine);
        downgrade(home.path(), earlier);
        let (mut before, mut span_ms) = (0, 0);
        // Each lives longer than the one before, until one has opened it.
        loop {
            let stage = Stage::reach("migration", home.path());
            let rest = stage.kill_after(Duration::from_millis(span_ms + rng.below(10)));
            let schema = stored_schema(home.path());
            if rest.iter().any(|line| line == PASSED) {
                assert_eq!(schema, schema::SCHEMA);
                break;
            }
            assert!(schema == earlier as i64 || schema == schema::SCHEMA, "{schema}");
            before += u64::from(schema == earlier as i64);
            span_ms += 15 + span_ms / 4;
        }
        assert!(before > 0, "no kill came before the end of the migration");
        is_sound(&home.path().join("data"));
        let engine = when_free(|| Engine::open(&vacuum_options(home.path())));
        let read = engine.read(b"", |keyspace, now| {
            for n in 0..MIGRATED_KEYS {
                let value = Bytes::from(format!("value {n}").as_bytes());
                assert_eq!(keyspace.str(format!("k{n}").as_bytes(), now)?, Some(&value.into()));
            }
            Ok(keyspace.count())
        });
        assert_eq!(runtime().block_on(read).unwrap(), MIGRATED_KEYS + 1);
        runtime().block_on(engine.close()).unwrap();
    }
    Ok(())
}

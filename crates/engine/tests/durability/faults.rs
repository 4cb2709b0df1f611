//! Disks that fill up or fail: a clear error, nothing acknowledged is lost, health tells, and what can recover by itself does.

use keystead_core::{Code, Outcome};
use keystead_engine::{Durability, Engine};

use crate::scene::Scene;
use crate::shim::Errno;

const LEVELS: [Durability; 2] = [Durability::Fsync, Durability::Commit];

/// Writes numbered keys until one is refused, and answers how many were acknowledged.
fn fill(scene: &Scene, engine: &Engine, from: usize) -> (usize, keystead_core::Error) {
    let value = "x".repeat(1000);
    for n in from..from + 100_000 {
        if let Err(error) = scene.set(engine, &format!("k{n}"), &value) {
            return (n, error);
        }
    }
    panic!("nothing was ever refused");
}

fn all_are_there(scene: &Scene, engine: &Engine, count: usize) {
    for n in 0..count {
        let value = scene.get(engine, &format!("k{n}")).unwrap();
        assert_eq!(value.map_or(0, |value| value.len()), 1000, "k{n} of {count}");
    }
}

/// A journal that fails `operation` poisons its shard; everything is refused, and a restart has all that was acknowledged.
fn a_journal_that_fails(scene: &Scene, operation: &str, error: Errno, words: &str) {
    let mut acked = 0;
    for level in LEVELS {
        let engine = scene.open(level);
        for n in acked..acked + 20 {
            scene.set(&engine, &format!("k{n}"), &"x".repeat(1000)).unwrap();
        }
        acked += 20;
        scene.disk.fail(operation, ".journal", error);
        let (count, error) = fill(scene, &engine, acked);
        acked = count;
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains(words), "{error}");
        // It says until when, and a reader is refused like a writer: memory may be ahead of the disk.
        let refusal = scene.get(&engine, "k0").unwrap_err();
        assert_eq!((refusal.code(), refusal.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        assert!(refusal.message().contains("until a restart"), "{refusal}");
        let health = engine.health();
        assert!(!health.is_ok());
        assert!(health.shards[0].poisoned.as_ref().is_some_and(|why| why.contains(words)), "{health:?}");
        assert_eq!(scene.run(engine.close()).unwrap_err().code(), Code::StoreUnavailable);
        scene.disk.heal();
        scene.is_sound();
        let engine = scene.open(level);
        all_are_there(scene, &engine, acked);
        assert!(engine.health().is_ok());
        scene.run(engine.close()).unwrap();
    }
}

pub(crate) fn a_full_disk_under_the_journal_poisons_until_a_restart(scene: &Scene) {
    a_journal_that_fails(scene, "write", Errno::NoSpace, "No space left");
}

pub(crate) fn a_failed_write_of_the_journal_poisons_until_a_restart(scene: &Scene) {
    a_journal_that_fails(scene, "write", Errno::Io, "Input/output error");
}

pub(crate) fn a_failed_sync_of_the_journal_poisons_until_a_restart(scene: &Scene) {
    a_journal_that_fails(scene, "sync", Errno::Io, "Input/output error");
}

pub(crate) fn a_full_disk_for_a_new_segment_poisons_until_a_restart(scene: &Scene) {
    a_journal_that_fails(scene, "create", Errno::NoSpace, "No space left");
}

/// An archive that cannot be written lets the journal grow to its limit; then writes are refused and reads go on; when the
/// disk is well again, so is the database.
fn an_archive_that_fails(scene: &Scene, operation: &str, error: Errno) {
    for level in LEVELS {
        let engine = scene.open(level);
        scene.disk.fail(operation, "archive.sqlite", error);
        let (count, refusal) = fill(scene, &engine, 0);
        assert!(count > 100, "only {count} writes until the journal was full");
        assert_eq!((refusal.code(), refusal.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        assert!(refusal.message().contains("the archive cannot follow"), "{refusal}");
        all_are_there(scene, &engine, count);
        scene.until("told by health", || {
            let shard = &engine.health().shards[0];
            shard.archive_failing.is_some() && shard.journal_full && shard.poisoned.is_none()
        });
        // Health goes on to tell it for as long as it is so, though nothing new comes.
        scene.pause_ms(2500);
        assert!(engine.health().shards[0].archive_failing.is_some(), "{:?}", engine.health());
        scene.disk.heal();
        scene.until("well again", || engine.health().is_ok());
        scene.set(&engine, "after", "1").unwrap();
        all_are_there(scene, &engine, count);
        scene.run(engine.close()).unwrap();
        scene.is_sound();
    }
}

pub(crate) fn a_full_disk_under_the_archive_refuses_writes_until_there_is_space(scene: &Scene) {
    an_archive_that_fails(scene, "write", Errno::NoSpace);
}

pub(crate) fn a_checkpoint_that_fails_refuses_writes_until_it_succeeds(scene: &Scene) {
    an_archive_that_fails(scene, "sync", Errno::Io);
}

/// A close while the archive cannot be written says so, and the journal keeps the rest for the next start.
pub(crate) fn a_close_with_a_full_archive_loses_nothing(scene: &Scene) {
    let engine = scene.open(Durability::Fsync);
    scene.disk.fail("write", "archive.sqlite", Errno::NoSpace);
    for n in 0..50 {
        scene.set(&engine, &format!("k{n}"), &"x".repeat(1000)).unwrap();
    }
    let error = scene.run(engine.close()).unwrap_err();
    assert!(error.message().contains("disk is full"), "{error}");
    // It cannot be opened either without space, and says why.
    let error = Engine::open(&scene.options(Durability::Fsync)).err().unwrap();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.message().contains("archive.sqlite") && error.message().contains("space"), "{error}");
    scene.disk.heal();
    let engine = scene.open(Durability::Fsync);
    all_are_there(scene, &engine, 50);
    scene.run(engine.close()).unwrap();
}

/// Each part of a new database may meet a full disk; what is left is no obstacle when there is space again.
pub(crate) fn a_full_disk_at_creation_is_told_and_leaves_no_obstacle(scene: &Scene) {
    for part in ["lock", "database.json", "archive.sqlite", ".journal"] {
        for operation in ["create", "write"] {
            scene.disk.fail(operation, part, Errno::NoSpace);
            let error = Engine::open(&scene.options(Durability::Fsync)).err();
            let error = error.unwrap_or_else(|| panic!("{operation} {part}: it opened"));
            assert_eq!(error.code(), Code::StoreUnavailable, "{operation} {part}: {error}");
            assert!(error.message().contains("space"), "{operation} {part}: {error}");
            scene.disk.heal();
        }
    }
    let engine = scene.open(Durability::Fsync);
    scene.set(&engine, "k", "v").unwrap();
    scene.run(engine.close()).unwrap();
    scene.is_sound();
}

/// A second process finds the directory taken.
pub(crate) fn a_directory_that_another_process_has_open_is_refused(scene: &Scene) {
    let held = scene.open(Durability::Fsync);
    let home = scene.dir.parent().unwrap().display().to_string();
    let output = crate::child::command("opener", &[home]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let process = std::process::id().to_string();
    assert!(said.starts_with("store_unavailable"), "{said}");
    assert!(said.contains("open in another process") && said.contains(&process), "{said}");
    scene.set(&held, "k", "v").unwrap();
    scene.run(held.close()).unwrap();
}

/// Runs in the child of the test above.
pub(crate) fn open_and_tell(home: &str) {
    let scene = Scene::new(home.as_ref());
    match Engine::open(&scene.options(Durability::Fsync)) {
        Ok(_) => crate::say("opened"),
        Err(error) => crate::say(&format!("{} {error}", error.code())),
    }
}

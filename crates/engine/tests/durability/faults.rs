//! Disks that are full or fail: a clear error, nothing acknowledged is lost, health reports it, and what can recover does.

use keystead_core::{Code, Outcome};
use keystead_engine::{Durability, Engine};

use crate::scene::Scene;
use crate::shim::Errno;

const LEVELS: [Durability; 2] = [Durability::Fsync, Durability::Commit];

/// Writes numbered keys until one is rejected, and returns how many were acknowledged.
fn fill(scene: &Scene, engine: &Engine, from: usize) -> (usize, keystead_core::Error) {
    let value = "x".repeat(1000);
    for n in from..from + 100_000 {
        if let Err(error) = scene.set(engine, &format!("k{n}"), &value) {
            return (n, error);
        }
    }
    panic!("no write was ever rejected");
}

fn all_are_there(scene: &Scene, engine: &Engine, count: usize) {
    for n in 0..count {
        let value = scene.get(engine, &format!("k{n}")).unwrap();
        assert_eq!(value.map_or(0, |value| value.len()), 1000, "k{n} of {count}");
    }
}

/// A journal that fails `operation` poisons its shard; all requests are rejected, and a restart has all that was acknowledged.
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
        // The error says until when, and reads are rejected like writes: memory may be ahead of the disk.
        let rejected = scene.get(&engine, "k0").unwrap_err();
        assert_eq!((rejected.code(), rejected.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        assert!(rejected.message().contains("until a restart"), "{rejected}");
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

/// While the archive cannot be written the journal grows to its maximum size; then writes are rejected and reads continue; when
/// the disk works again, so does the database.
fn an_archive_that_fails(scene: &Scene, operation: &str, error: Errno) {
    for level in LEVELS {
        let engine = scene.open(level);
        scene.disk.fail(operation, "archive.sqlite", error);
        let (count, rejected) = fill(scene, &engine, 0);
        assert!(count > 100, "only {count} writes until the journal was full");
        assert_eq!((rejected.code(), rejected.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        assert!(rejected.message().contains("the archive cannot follow"), "{rejected}");
        all_are_there(scene, &engine, count);
        scene.until("reported by health", || {
            let shard = &engine.health().shards[0];
            shard.archive_failing.is_some() && shard.journal_full && shard.poisoned.is_none()
        });
        // Health keeps reporting it while it lasts, though nothing new is written.
        scene.pause_ms(2500);
        assert!(engine.health().shards[0].archive_failing.is_some(), "{:?}", engine.health());
        scene.disk.heal();
        scene.until("healthy again", || engine.health().is_ok());
        scene.set(&engine, "after", "1").unwrap();
        all_are_there(scene, &engine, count);
        scene.run(engine.close()).unwrap();
        scene.is_sound();
    }
}

pub(crate) fn a_full_disk_under_the_archive_rejects_writes_until_there_is_space(scene: &Scene) {
    an_archive_that_fails(scene, "write", Errno::NoSpace);
}

pub(crate) fn a_checkpoint_that_fails_rejects_writes_until_it_succeeds(scene: &Scene) {
    an_archive_that_fails(scene, "sync", Errno::Io);
}

/// A close while the archive cannot be written reports that, and the journal has the remaining changes for the next start.
pub(crate) fn a_close_with_a_full_archive_loses_nothing(scene: &Scene) {
    let engine = scene.open(Durability::Fsync);
    scene.disk.fail("write", "archive.sqlite", Errno::NoSpace);
    for n in 0..50 {
        scene.set(&engine, &format!("k{n}"), &"x".repeat(1000)).unwrap();
    }
    let error = scene.run(engine.close()).unwrap_err();
    assert!(error.message().contains("disk is full"), "{error}");
    // It cannot be opened without space either, and the error says why.
    let error = Engine::open(&scene.options(Durability::Fsync)).err().unwrap();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.message().contains("archive.sqlite") && error.message().contains("space"), "{error}");
    scene.disk.heal();
    let engine = scene.open(Durability::Fsync);
    all_are_there(scene, &engine, 50);
    scene.run(engine.close()).unwrap();
}

/// Each part of a new database may meet a full disk; what is left does not prevent opening when there is space again.
pub(crate) fn a_full_disk_at_creation_is_reported_and_leaves_no_obstacle(scene: &Scene) {
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

/// A second process finds the directory locked.
pub(crate) fn a_directory_that_another_process_has_open_is_rejected(scene: &Scene) {
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
pub(crate) fn open_and_report(home: &str) {
    let scene = Scene::new(home.as_ref());
    match Engine::open(&scene.options(Durability::Fsync)) {
        Ok(_) => crate::say("opened"),
        Err(error) => crate::say(&format!("{} {error}", error.code())),
    }
}

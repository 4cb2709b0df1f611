//! Helpers for these tests.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use keystead_core::{Millis, Result, Revision, Stopwatch, Version};
use keystead_engine::{Durability, Engine, Options};
use keystead_model::Bytes;
use keystead_model::keyspace::check::KeyDump;
use keystead_model::keyspace::{Expire, Keyspace};

pub(crate) const DURABLE: [Durability; 2] = [Durability::Fsync, Durability::Commit];

/// Small segments, so that a few writes fill some.
pub(crate) fn options(dir: &Path) -> Options {
    Options::new(dir).segment_bytes(4096)
}

pub(crate) async fn set(engine: &Engine, key: &str, value: &str) -> Result<Version> {
    let (name, value) = (key.to_string(), Bytes::from(value.as_bytes()));
    let set = move |keyspace: &mut Keyspace, now| {
        keyspace.set_str(name.as_bytes(), value, Expire::At(Millis::NEVER), now)
    };
    engine.write(key.as_bytes(), set).await
}

pub(crate) async fn get(engine: &Engine, key: &str) -> Result<Option<String>> {
    let name = key.to_string();
    let get = move |keyspace: &mut Keyspace, now| {
        let value = keyspace.str(name.as_bytes(), now)?;
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    };
    engine.read(key.as_bytes(), get).await
}

/// Everything that the shard of `key` holds.
pub(crate) async fn dump(engine: &Engine, key: &str) -> Vec<KeyDump> {
    engine.read(key.as_bytes(), |keyspace, _| keyspace.dump()).await.unwrap()
}

/// Keeps a shard busy until it is dropped, so that what is submitted meanwhile becomes one batch.
pub(crate) struct Busy {
    _until: Sender<()>,
}

/// Makes the shard of `key` busy, and returns when it is.
pub(crate) fn occupy(engine: &Engine, key: &'static [u8]) -> Busy {
    let (until, ended): (Sender<()>, Receiver<()>) = channel();
    let (begun, is_busy) = channel();
    let (engine, job) = (engine.clone(), move |_: &mut Keyspace, _| {
        let _ = begun.send(());
        let _ = ended.recv();
        Ok(())
    });
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = runtime.block_on(engine.read(key, job));
    });
    is_busy.recv().unwrap();
    Busy { _until: until }
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes `k0`, `k1`, ... one after the other into a new database, and copies it to `to` as a crash would leave it: everything
/// in the journal, nothing in the archive.
pub(crate) async fn crashed(to: &Path, shards: usize, count: usize) {
    let watch = Stopwatch::start();
    loop {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).shards(shards)).unwrap();
        for n in 0..count {
            set(&engine, &format!("k{n}"), &value_of(n)).await.unwrap();
        }
        copy_dir(dir.path(), to);
        let archived = engine.health().shards.iter().any(|shard| shard.archived > Revision::ZERO);
        engine.close().await.unwrap();
        if !archived {
            return;
        }
        // The archiver was faster than this test.
        assert!(watch.elapsed().as_secs() < 60, "the archiver is always faster");
        fs::remove_dir_all(to).unwrap();
    }
}

pub(crate) fn value_of(n: usize) -> String {
    format!("value {n} ").repeat(10)
}

/// How many of `k0`, `k1`, ... exist; checks that they are the first ones and have the right values.
pub(crate) async fn count_right(engine: &Engine, up_to: usize) -> usize {
    let mut count = 0;
    for n in 0..up_to {
        if let Some(value) = get(engine, &format!("k{n}")).await.unwrap() {
            assert_eq!((value, count), (value_of(n), n));
            count += 1;
        }
    }
    count
}

//! Copies of a database that is being written.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use keystead_core::{Code, ShardId};
use keystead_engine::{Engine, Options, check};

use crate::common::{DURABLE, get, options, set};

#[tokio::test]
async fn a_copy_taken_under_load_has_everything_acknowledged_before() {
    // With 1, rows are read from the shard while it changes, and a copy needs a part of the journal.
    for (level, batch_bytes) in DURABLE.into_iter().flat_map(|level| [(level, 1 << 20), (level, 1)]) {
        let dir = tempfile::tempdir().unwrap();
        let options = |dir: &Path| options(dir).archive_batch_bytes(batch_bytes);
        let engine = Engine::open(&options(&dir.path().join("data")).durability(level).shards(2)).unwrap();
        let acked: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (engine, acked) = (engine.clone(), Arc::clone(&acked));
                tokio::spawn(async move {
                    for n in 1.. {
                        let key = format!("k{writer}-{}", n % 10);
                        match set(&engine, &key, &n.to_string()).await {
                            Ok(_) => acked.lock().unwrap().insert(key, n),
                            Err(error) => {
                                assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
                                return;
                            }
                        };
                    }
                })
            })
            .collect();
        for round in 0..4 {
            while acked.lock().unwrap().len() < 80 {
                tokio::task::yield_now().await;
            }
            let before = acked.lock().unwrap().clone();
            let copy = dir.path().join(format!("deep/copy-{round}"));
            let revisions = engine.backup(&copy).await.unwrap();
            assert_eq!(revisions.len(), 2);
            let report = check(&copy).unwrap();
            assert_eq!((report.problems, report.shards), (vec![], 2));

            let copied = Engine::open(&options(&copy).durability(level)).unwrap();
            assert_eq!([copied.revision(ShardId(0)), copied.revision(ShardId(1))], revisions[..]);
            for (key, n) in before {
                let found: u64 = get(&copied, &key).await.unwrap().unwrap().parse().unwrap();
                assert!(found >= n, "{key} was at {n} and is at {found} in the copy");
            }
            // The copy is a database of its own.
            set(&copied, "only here", "1").await.unwrap();
            copied.close().await.unwrap();
            assert_eq!(check(&copy).unwrap().problems, Vec::<String>::new());
            assert_eq!(get(&engine, "only here").await.unwrap(), None);
        }
        engine.close().await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_copy_needs_an_empty_directory_and_a_database_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(&dir.path().join("data"))).unwrap();
    set(&engine, "k", "v").await.unwrap();
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letter"), "dear").unwrap();
    let error = engine.backup(&full).await.unwrap_err();
    assert_eq!(error.code(), Code::BadRequest, "{error}");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1, "nothing was added");
    let error = engine.backup(&dir.path().join("data")).await.unwrap_err();
    assert_eq!(error.code(), Code::BadRequest, "onto itself: {error}");
    let error = engine.backup(&full.join("letter")).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    // An empty directory is accepted.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    engine.backup(&empty).await.unwrap();
    engine.close().await.unwrap();
    let error = engine.backup(&dir.path().join("late")).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");

    let engine = Engine::open(&Options::in_memory()).unwrap();
    let error = engine.backup(&dir.path().join("memory")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unsupported, "{error}");
}

//! Queues that are full, and things over a limit.

use keystead_core::limits::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Code, Key, Outcome, StoreExt, Ttl};
use keystead_engine::limits::SHARDS_MAX;
use keystead_engine::{Engine, Options};
use keystead_testkit::steps::{look, put};

use crate::common::{get, occupy, options, set};

#[tokio::test]
async fn a_full_queue_is_told_at_once_and_what_is_in_it_is_answered() {
    let engine = Engine::open(&Options::in_memory().queue_jobs(8)).unwrap();
    let busy = occupy(&engine, b"k");
    let mut waiting = Vec::new();
    let refused = loop {
        let job = tokio::spawn({
            let (engine, key) = (engine.clone(), format!("k{}", waiting.len()));
            async move { set(&engine, &key, "1").await }
        });
        tokio::task::yield_now().await;
        if job.is_finished() {
            break job.await.unwrap().unwrap_err();
        }
        waiting.push(job);
        assert!(waiting.len() <= 8, "the queue takes more than it should");
    };
    assert_eq!((refused.code(), refused.outcome()), (Code::QueueFull, Outcome::NotApplied));
    assert_eq!(waiting.len(), 8);
    drop(busy);
    for job in waiting {
        assert_eq!(job.await.unwrap().unwrap(), 1);
    }
    assert_eq!(get(&engine, "k8").await.unwrap(), None);
}

#[tokio::test]
async fn keys_and_states_over_their_limits_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(Key::new(vec![b'k'; KEY_BYTES_MAX + 1]).unwrap_err().code(), Code::TooLarge);
    let key = Key::new(vec![b'k'; KEY_BYTES_MAX]).unwrap();
    engine.apply(&key, &put("small".to_string(), Ttl::Never)).await.unwrap();
    let error = engine.apply(&key, &put("x".repeat(STATE_BYTES_MAX), Ttl::Never)).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::TooLarge, Outcome::NotApplied));
    assert_eq!(engine.revision(0), 1);
    // The longest key and a state larger than a segment come back.
    let large = "x".repeat(STATE_BYTES_MAX - 2);
    engine.apply(&key, &put(large.clone(), Ttl::Never)).await.unwrap();
    engine.close().await.unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(engine.apply(&key, &look::<String>()).await.unwrap(), Some(large));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    for shards in [0, 3, SHARDS_MAX * 2] {
        let error = Engine::open(&Options::in_memory().shards(shards)).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    Engine::open(&options(dir.path()).shards(2)).unwrap().close().await.unwrap();
    let error = Engine::open(&options(dir.path()).shards(4)).err().unwrap();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(error.message().contains("has 2 shards"), "{error}");
    // Whoever names no number gets the stored one.
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(engine.shards(), 2);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_journal_that_is_too_small_to_let_go_of_anything_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = Engine::open(&options(dir.path()).journal_bytes_max(3 * 4096)).err().unwrap();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(error.message().contains("segment"), "{error}");
}

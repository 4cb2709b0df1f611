//! Full queues, and sizes over their bounds.

use std::sync::mpsc::channel;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Code, Key, Millis, Outcome, Result, Revision, ShardId, StoreExt, Ttl, Version};
use keystead_engine::bounds::{JOB_BYTES_MAX, SHARDS_MAX};
use keystead_engine::{Durability, Engine, Options};
use keystead_model::Bytes;
use keystead_model::effect::Effect;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_testkit::steps::{look, put};

use crate::common::{dump, get, occupy, options, set};

#[tokio::test]
async fn a_full_queue_rejects_at_once_and_completes_what_is_in_it() {
    let engine = Engine::open(&Options::in_memory().queue_jobs(8)).unwrap();
    let busy = occupy(&engine, b"k");
    let mut waiting = Vec::new();
    let rejected = loop {
        let job = tokio::spawn({
            let (engine, key) = (engine.clone(), format!("k{}", waiting.len()));
            async move { set(&engine, &key, "1").await }
        });
        tokio::task::yield_now().await;
        if job.is_finished() {
            break job.await.unwrap().unwrap_err();
        }
        waiting.push(job);
        assert!(waiting.len() <= 8, "the queue accepts more than it should");
    };
    assert_eq!((rejected.code(), rejected.outcome()), (Code::QueueFull, Outcome::NotApplied));
    assert_eq!(waiting.len(), 8);
    drop(busy);
    for job in waiting {
        assert_eq!(job.await.unwrap().unwrap(), Version(1));
    }
    assert_eq!(get(&engine, "k8").await.unwrap(), None);
}

#[tokio::test]
async fn keys_and_states_over_their_bounds_are_rejected_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(Key::new(vec![b'k'; KEY_BYTES_MAX + 1]).unwrap_err().code(), Code::TooLarge);
    let key = Key::new(vec![b'k'; KEY_BYTES_MAX]).unwrap();
    engine.apply(&key, &put("small".to_string(), Ttl::Never)).await.unwrap();
    let error = engine.apply(&key, &put("x".repeat(STATE_BYTES_MAX), Ttl::Never)).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::TooLarge, Outcome::NotApplied));
    assert_eq!(engine.revision(ShardId(0)), Revision(1));
    // The longest key and a state larger than a segment are recovered.
    let large = "x".repeat(STATE_BYTES_MAX - 2);
    engine.apply(&key, &put(large.clone(), Ttl::Never)).await.unwrap();
    engine.close().await.unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(engine.apply(&key, &look::<String>()).await.unwrap(), Some(large));
    engine.close().await.unwrap();
}

/// Puts the same large string under many keys, far more than a job may record, and reports how many of them were accepted.
fn flood(keyspace: &mut Keyspace, now: Millis) -> Result<usize> {
    // All of them share their bytes.
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    keyspace.set_str(b"k", value.clone(), Expire::Keep, now)?;
    let put = |n: usize| keyspace.set_str(format!("flood{n}").as_bytes(), value.clone(), Expire::Keep, now);
    Ok((0..4 * JOB_BYTES_MAX / value.len()).map(put).filter(Result::is_ok).count())
}

#[tokio::test]
async fn a_job_that_records_too_much_is_rolled_back_though_it_continues() {
    for level in [Durability::Fsync, Durability::Commit, Durability::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        set(&engine, "k", "1").await.unwrap();
        let (before, revision) = (dump(&engine, "k").await, engine.revision(ShardId(0)));
        let (sender, taken) = channel();
        let ignores = move |keyspace: &mut Keyspace, now| {
            let taken = flood(keyspace, now)?;
            let recorded: usize = keyspace.effects().iter().map(Effect::size_hint).sum();
            sender.send((taken, recorded <= JOB_BYTES_MAX)).unwrap();
            Ok(())
        };
        let error = engine.write(b"k", ignores).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::TooLarge, Outcome::NotApplied));
        assert!(error.message().contains("Limit: 537919488 bytes, Actual: 537972723 bytes"), "{error}");
        assert_eq!(taken.recv().unwrap(), (512, true), "the one that exceeded the bound was the last");
        let gives_up = |keyspace: &mut Keyspace, now| {
            flood(keyspace, now)?;
            keyspace.delete(b"k", now)
        };
        assert_eq!(engine.write(b"k", gives_up).await.unwrap_err().code(), Code::TooLarge);
        assert_eq!((dump(&engine, "k").await, engine.revision(ShardId(0))), (before, revision));
        assert_eq!(set(&engine, "k", "2").await.unwrap(), Version(2));
        engine.close().await.unwrap();
        if level != Durability::Memory {
            let engine = Engine::open(&options(dir.path())).unwrap();
            assert_eq!(get(&engine, "k").await.unwrap().as_deref(), Some("2"));
            engine.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn invalid_options_are_rejected() {
    for shards in [0, 3, SHARDS_MAX * 2] {
        let error = Engine::open(&Options::in_memory().shards(shards)).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    Engine::open(&options(dir.path()).shards(2)).unwrap().close().await.unwrap();
    let error = Engine::open(&options(dir.path()).shards(4)).err().unwrap();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(error.message().contains("has 2 shards"), "{error}");
    // Without a number of shards, the stored one is used.
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(engine.shards(), 2);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_journal_too_small_to_recycle_segments_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let error = Engine::open(&options(dir.path()).journal_bytes_max(3 * 4096)).err().unwrap();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(error.message().contains("segment"), "{error}");
}

//! Jobs that fail or panic in the middle of a batch.

use keystead_core::{Code, Error, Millis, Outcome, Result, ShardId, Version};
use keystead_engine::{Durability, Engine, Options, check};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};

use crate::common::{DURABLE, dump, get, occupy, options, set};

/// Changes values of every kind, then fails.
fn spoil(keyspace: &mut Keyspace, now: Millis) -> Result<()> {
    let text = |text: &'static str| Bytes::from(text.as_bytes());
    keyspace.set_str(b"str", text("spoiled"), Expire::At(now.plus_ms(1)), now)?;
    keyspace.set_str(b"new", text("spoiled"), Expire::Keep, now)?;
    keyspace.hash_mut(b"hash", now)?.set(&text("field"), &text("spoiled"));
    keyspace.hash_mut(b"hash", now)?.remove(&text("other"));
    keyspace.list_mut(b"list", now)?.push_front(&text("spoiled"));
    keyspace.list_mut(b"list", now)?.pop_back();
    keyspace.delete(b"gone", now)?;
    keyspace.set_expiry(b"list", now.plus_ms(5), now)?;
    keyspace.rename(b"hash", b"renamed", true, now)?;
    keyspace.set_json(b"str", text("{}"), Expire::Keep, now)?;
    keyspace.flush();
    keyspace.set_str(b"str", text("after the flood"), Expire::Keep, now)?;
    Err(Error::new(Code::Conflict, "on purpose"))
}

fn prepare(keyspace: &mut Keyspace, now: Millis) -> Result<()> {
    let text = |text: &'static str| Bytes::from(text.as_bytes());
    keyspace.set_str(b"str", text("a value that is too long to be stored inline"), Expire::Keep, now)?;
    keyspace.set_str(b"gone", text("not yet"), Expire::At(now.plus_ms(1_000_000)), now)?;
    let mut hash = keyspace.hash_mut(b"hash", now)?;
    hash.set(&text("field"), &text("1"));
    hash.set_until(&text("other"), &text("2"), now.plus_ms(1_000_000));
    drop(hash);
    let mut list = keyspace.list_mut(b"list", now)?;
    ["a", "b", "c"].into_iter().for_each(|item| list.push_back(&text(item)));
    Ok(())
}

#[tokio::test]
async fn a_failing_job_leaves_nothing_behind_and_its_neighbours_stay() {
    for level in [Durability::Fsync, Durability::Commit, Durability::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        engine.write(b"str", prepare).await.unwrap();
        let before = dump(&engine, "str").await;
        let revision = engine.revision(ShardId(0));

        let busy = occupy(&engine, b"str");
        let jobs = async {
            tokio::join!(
                set(&engine, "left", "1"),
                engine.write(b"str", spoil),
                set(&engine, "right", "1"),
                engine.write(b"str", spoil),
                // Reads between two failures.
                engine.read(b"str", |keyspace, now| keyspace.version(b"str", now)),
            )
        };
        let (left, first, right, second, between) = tokio::join!(jobs, async { drop(busy) }).0;
        assert_eq!(
            (left.unwrap(), right.unwrap(), between.unwrap()),
            (Version(1), Version(1), Some(Version(1)))
        );
        assert_eq!(first.unwrap_err().code(), Code::Conflict);
        assert_eq!(second.unwrap_err().code(), Code::Conflict);

        // Two neighbours wrote, so there are two more revisions, and none was used up by a failure.
        assert_eq!(engine.revision(ShardId(0)).0, revision.0 + 2);
        let after = dump(&engine, "str").await;
        let mut expected = before.clone();
        expected.extend(
            after
                .iter()
                .filter(|key| ["left", "right"].iter().any(|name| key.key == name.as_bytes()))
                .cloned(),
        );
        expected.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!((after.len(), &after), (before.len() + 2, &expected));
        engine.read(b"str", |keyspace, _| Ok(keyspace.check())).await.unwrap().unwrap();
        engine.close().await.unwrap();

        if level != Durability::Memory {
            let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
            assert_eq!(dump(&engine, "str").await, after);
            engine.close().await.unwrap();
            assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_panicking_job_poisons_its_shard_and_a_restart_recovers() {
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path()).durability(level).shards(2);
        let engine = Engine::open(&options).unwrap();
        let (here, there) = (
            "k0",
            (1..)
                .map(|n| format!("k{n}"))
                .find(|key| engine.shard_of(key.as_bytes()) != engine.shard_of(b"k0"))
                .unwrap(),
        );
        set(&engine, here, "acknowledged").await.unwrap();

        let busy = occupy(&engine, b"k0");
        let panics = |keyspace: &mut Keyspace, now| -> Result<()> {
            keyspace.delete(b"k0", now)?;
            panic!("on purpose")
        };
        let jobs = async {
            tokio::join!(
                set(&engine, "{k0}before", "1"),
                engine.write(b"k0", panics),
                set(&engine, "{k0}after", "1"),
                get(&engine, here),
            )
        };
        let (before, panicked, after, read) = tokio::join!(jobs, async { drop(busy) }).0;
        // It ran in the same batch: whether it was kept is unknown.
        assert!(before.is_ok() || before.unwrap_err().outcome() == Outcome::Unknown);
        let error = panicked.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::Unknown));
        for error in [after.unwrap_err(), read.unwrap_err(), set(&engine, here, "no").await.unwrap_err()] {
            assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
            assert!(error.message().contains("panicked"), "{error}");
        }
        let health = engine.health();
        let ill = &health.shards[engine.shard_of(here.as_bytes()).0];
        assert!(!health.is_ok() && ill.poisoned.as_ref().is_some_and(|why| why.contains("panicked")));
        // The other shard is not affected.
        set(&engine, &there, "1").await.unwrap();
        let error = engine.close().await.unwrap_err();
        assert!(error.message().contains("panicked"), "{error}");

        let engine = Engine::open(&options).unwrap();
        assert_eq!(get(&engine, here).await.unwrap().as_deref(), Some("acknowledged"));
        assert_eq!(get(&engine, &there).await.unwrap().as_deref(), Some("1"));
        assert_eq!(get(&engine, "{k0}after").await.unwrap(), None);
        assert!(engine.health().is_ok());
        engine.close().await.unwrap();
        assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_panicking_reader_poisons_too_and_memory_ends_with_it() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    set(&engine, "k", "1").await.unwrap();
    let error = engine.read(b"k", |_, _| -> Result<()> { panic!("on purpose") }).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert_eq!(get(&engine, "k").await.unwrap_err().code(), Code::StoreUnavailable);
    assert!(engine.close().await.is_err());
}

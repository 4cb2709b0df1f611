//! The change feed: from the journal, then live, without gap or duplicate; reading recycled changes fails with `gone`.

use keystead_core::{Code, Result, Revision, ShardId};
use keystead_engine::bounds::FEED_LAG_MAX;
use keystead_engine::{Durability, Engine, Feed, Options};
use keystead_model::effect::{Effect, Fact};
use keystead_model::keyspace::Keyspace;

use crate::common::{DURABLE, dump, options, set};

async fn next(feed: &mut Feed) -> Result<Vec<Effect>> {
    let deadline = std::time::Duration::from_secs(30);
    tokio::time::timeout(deadline, feed.next()).await.expect("the feed returns nothing")
}

/// Everything up to `last`.
async fn read_until(feed: &mut Feed, after: u64, last: u64) -> Vec<Effect> {
    let mut all = Vec::new();
    while all.last().map_or(after, |effect: &Effect| effect.revision.0) < last {
        all.extend(next(feed).await.unwrap());
    }
    let revisions: Vec<u64> = all.iter().map(|effect| effect.revision.0).collect();
    let expected: Vec<u64> = (after + 1..after + 1 + all.len() as u64).collect();
    assert_eq!(revisions, expected, "a gap, a duplicate or a wrong order");
    all
}

#[tokio::test]
async fn feeds_from_anywhere_see_the_same_without_gap_or_duplicate() {
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        for n in 0..200 {
            set(&engine, &format!("k{}", n % 17), &n.to_string()).await.unwrap();
        }
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for n in 0..100 {
                        set(&engine, &format!("k{}", (writer + n) % 17), &format!("{writer} {n}"))
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        let readers: Vec<_> = [0, 1, 100, 200]
            .into_iter()
            .map(|after| {
                let mut feed = engine.subscribe(ShardId(0), Revision(after)).unwrap();
                tokio::spawn(async move { read_until(&mut feed, after, 1000).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let mut feeds = Vec::new();
        for reader in readers {
            feeds.push(reader.await.unwrap());
        }
        for feed in &feeds {
            assert_eq!(feed[..], feeds[0][feeds[0].len() - feed.len()..]);
        }
        let mut copy = Keyspace::in_memory();
        feeds[0].iter().for_each(|effect| copy.apply_effect(effect).unwrap());
        assert_eq!(copy.dump().unwrap(), dump(&engine, "k").await);
        engine.close().await.unwrap();

        // After a restart the journal still has it.
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        let oldest = (0..1000).find(|after| engine.subscribe(ShardId(0), Revision(*after)).is_ok()).unwrap();
        let mut feed = engine.subscribe(ShardId(0), Revision(oldest)).unwrap();
        assert_eq!(read_until(&mut feed, oldest, 1000).await[..], feeds[0][oldest as usize..]);
        set(&engine, "k", "later").await.unwrap();
        assert_eq!(next(&mut feed).await.unwrap()[0].revision, Revision(1001));
        drop(feed);
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn recycled_changes_are_gone_for_new_and_for_slow_readers() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).journal_bytes_max(32 * 1024)).unwrap();
    set(&engine, "k", "first").await.unwrap();
    let mut never_read = engine.subscribe(ShardId(0), Revision::ZERO).unwrap();
    let mut read_once = engine.subscribe(ShardId(0), Revision::ZERO).unwrap();
    assert_eq!(next(&mut read_once).await.unwrap()[0].revision, Revision(1));
    let value = "x".repeat(500);
    // Further than the segment that the second reader has open.
    let released =
        || engine.subscribe(ShardId(0), Revision(200)).is_err_and(|error| error.code() == Code::Gone);
    for n in 0.. {
        // A rejected write only means that the archive lags, and archiving is what recycles segments.
        let _ = set(&engine, &format!("k{}", n % 5), &value).await;
        if released() {
            break;
        }
        assert!(n < 1_000_000, "the journal never recycles a segment");
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.subscribe(ShardId(0), Revision::ZERO).err().unwrap().code(), Code::Gone);
    assert_eq!(next(&mut never_read).await.unwrap_err().code(), Code::Gone);
    let slow = loop {
        match next(&mut read_once).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(slow.code(), Code::Gone, "{slow}");
    assert!(slow.message().contains("no longer kept"), "{slow}");
    // A reader that starts again from now works.
    let now = engine.revision(ShardId(0));
    let mut feed = engine.subscribe(ShardId(0), now).unwrap();
    while set(&engine, "k", "again").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(next(&mut feed).await.unwrap()[0].revision > now);
}

/// Writes until the archive has recycled, or would have recycled, what is at the beginning.
async fn write_far(engine: &Engine, until: impl Fn(&Engine) -> bool) {
    let value = "x".repeat(500);
    for n in 0.. {
        let _ = set(engine, &format!("k{}", n % 5), &value).await;
        if until(engine) {
            break;
        }
        assert!(n < 1_000_000, "it is never reached");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_journal_is_held_for_readers_up_to_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let held = |bytes| options(dir.path()).journal_bytes_max(32 * 1024).held_journal_bytes(bytes);
    let engine = Engine::open(&held(100 * 1024)).unwrap();
    let held_bytes = |engine: &Engine| engine.health().shards[0].held_bytes;
    let first = |engine: &Engine| engine.subscribe(ShardId(0), Revision::ZERO).map(drop);
    write_far(&engine, |engine| held_bytes(engine) > 50 * 1024).await;
    assert!(first(&engine).is_ok(), "everything is kept, though more than the journal's bound");
    assert!(engine.health().shards[0].journal_bytes < 50 * 1024, "what is held does not delay writes");
    write_far(&engine, |engine| first(engine).is_err()).await;
    assert!(held_bytes(&engine) <= 100 * 1024);
    engine.close().await.unwrap();

    // A start keeps it, too, until it is released.
    let engine = Engine::open(&held(100 * 1024)).unwrap();
    let oldest =
        |engine: &Engine| (0..).find(|after| engine.subscribe(ShardId(0), Revision(*after)).is_ok()).unwrap();
    let before = oldest(&engine);
    set(&engine, "k", "v").await.unwrap();
    write_far(&engine, |engine| held_bytes(engine) > 0).await;
    engine.release_journal(ShardId(0), engine.revision(ShardId(0)));
    let mut looks = 0..3_000;
    while held_bytes(&engine) > 0 || oldest(&engine) == before {
        assert!(looks.next().is_some(), "it is never recycled");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_of_names_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    let mut feed = engine.subscribe(ShardId(0), Revision::ZERO).unwrap().without_values();
    assert!(feed.try_next().unwrap().is_none());
    set(&engine, "k", "value").await.unwrap();
    let changes = feed.try_next().unwrap().unwrap();
    assert_eq!((&changes[0].key[..], &changes[0].fact), (&b"k"[..], &Fact::Str(Default::default())));
    assert!(feed.try_next().unwrap().is_none());
}

#[tokio::test]
async fn an_invalid_shard_or_revision_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    for options in [options(dir.path()), Options::in_memory()] {
        let engine = Engine::open(&options).unwrap();
        set(&engine, "k", "v").await.unwrap();
        for (shard, after) in [(1, 0), (0, 2), (0, u64::MAX)] {
            let error = engine.subscribe(ShardId(shard), Revision(after)).err().unwrap();
            assert_eq!(error.code(), Code::BadRequest, "shard {shard} after {after}: {error}");
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn in_memory_a_feed_is_live_only_and_fails_when_it_lags() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    assert_eq!(engine.durability(), Durability::Memory);
    set(&engine, "k", "before").await.unwrap();
    assert_eq!(engine.subscribe(ShardId(0), Revision::ZERO).err().unwrap().code(), Code::Gone);
    let mut quick = engine.subscribe(ShardId(0), Revision(1)).unwrap();
    let mut slow = engine.subscribe(ShardId(0), Revision(1)).unwrap();
    for n in 0..FEED_LAG_MAX + 10 {
        set(&engine, "k", &n.to_string()).await.unwrap();
        assert_eq!(next(&mut quick).await.unwrap()[0].revision, Revision(n as u64 + 2));
    }
    let error = next(&mut slow).await.unwrap_err();
    assert_eq!(error.code(), Code::Gone);
    assert!(error.message().contains("too slow"), "{error}");
}

#[tokio::test]
async fn a_feed_ends_when_the_database_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for options in [options(dir.path()), Options::in_memory()] {
        let engine = Engine::open(&options).unwrap();
        set(&engine, "k", "v").await.unwrap();
        let mut feed = engine.subscribe(ShardId(0), Revision(1)).unwrap();
        let waiting = tokio::spawn(async move { next(&mut feed).await });
        tokio::task::yield_now().await;
        engine.close().await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    }
}

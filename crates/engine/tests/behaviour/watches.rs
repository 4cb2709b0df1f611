//! Watches: which changes touch them, and which do not.

use keystead_core::{Clock, Code, Error, ManualClock, Millis, Result, ShardId, SystemClock};
use keystead_engine::{Completion, Engine, Options, Watch};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};

use crate::common::{DURABLE, options, set};
use crate::local_tasks::{in_turn, on_loop, put};

/// A watch of these keys.
async fn watch(engine: &Engine, keys: &'static [&'static str]) -> Watch {
    let watch = Watch::default();
    let theirs = watch.clone();
    on_loop(engine, ShardId(0), move |local| async move {
        in_turn(&local, |turn| keys.iter().for_each(|key| turn.watch(key.as_bytes(), &theirs).unwrap()))
            .await;
    })
    .await;
    watch
}

/// Whether such a change touches a watch of `keys` when `there` is set before.
async fn touches(
    there: &'static [&'static str],
    keys: &'static [&'static str],
    change: fn(&mut Keyspace, Millis) -> Result<()>,
) -> bool {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    for key in there {
        set(&engine, key, "v").await.unwrap();
    }
    let watch = watch(&engine, keys).await;
    assert!(!watch.is_touched());
    let _ = engine.write(b"k", change).await;
    watch.is_touched()
}

#[tokio::test]
async fn changes_of_a_watched_key_touch_and_others_do_not() {
    fn set_k(keys: &mut Keyspace, now: Millis) -> Result<()> {
        keys.set_str(b"k", Bytes::from(&b"w"[..]), Expire::Keep, now).map(drop)
    }
    fn set_other(keys: &mut Keyspace, now: Millis) -> Result<()> {
        keys.set_str(b"l", Bytes::from(&b"w"[..]), Expire::Keep, now).map(drop)
    }
    assert!(touches(&["k"], &["k"], set_k).await && touches(&[], &["k"], set_k).await);
    assert!(!touches(&["k"], &["k"], set_other).await);
    assert!(touches(&["k"], &["a", "k", "b"], |keys, now| keys.delete(b"k", now).map(drop)).await);
    assert!(!touches(&[], &["k"], |keys, now| keys.delete(b"k", now).map(drop)).await);
    assert!(
        touches(&["k"], &["k"], |keys, now| keys.set_expiry(b"k", now.plus_ms(9999), now).map(drop)).await
    );
    assert!(!touches(&["k"], &["k"], |keys, now| keys.exists(b"k", now).map(drop)).await);
    // A rolled back change does not count.
    let failing = |keys: &mut Keyspace, now: Millis| -> Result<()> {
        keys.delete(b"k", now)?;
        Err(Error::new(Code::Conflict, "on purpose"))
    };
    assert!(!touches(&["k"], &["k"], failing).await);
}

#[tokio::test]
async fn a_flush_touches_only_keys_that_existed() {
    let flush = |keys: &mut Keyspace, _: Millis| -> Result<()> {
        keys.flush();
        Ok(())
    };
    assert!(touches(&["k"], &["k"], flush).await);
    assert!(!touches(&["other"], &["k"], flush).await);
    // A watch that was not touched by a flush is touched by later changes.
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let watch = watch(&engine, &["k"]).await;
    engine.write(b"k", flush).await.unwrap();
    assert!(!watch.is_touched());
    set(&engine, "k", "v").await.unwrap();
    assert!(watch.is_touched());
}

#[tokio::test]
async fn changes_before_the_watch_do_not_touch_it() {
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        on_loop(&engine, ShardId(0), |local| async move {
            let (first, second) = (Watch::default(), Watch::default());
            in_turn(&local, |turn| {
                turn.run(true, |keyspace, now| (put(keyspace, "k", "1", now), Completion::Commit)).unwrap();
                turn.watch(b"k", &first).unwrap();
                assert!(!first.is_touched());
                turn.run(true, |keyspace, now| (put(keyspace, "k", "2", now), Completion::Commit)).unwrap();
                assert!(first.is_touched(), "at once, also by the same task");
                turn.watch(b"k", &second).unwrap();
            })
            .await;
            assert!(!second.is_touched());
            // The end of the batch touches nothing.
            let seen =
                in_turn(&local, |turn| turn.run(false, |_, _| ((), Completion::Commit)).unwrap().1).await;
            local.until_durable(seen).await.unwrap();
            assert!(!second.is_touched());
            in_turn(&local, |turn| {
                turn.run(true, |keys, now| (keys.delete(b"k", now).unwrap(), Completion::Commit)).unwrap()
            })
            .await;
            assert!(second.is_touched());
        })
        .await;
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_expired_key_touches_when_it_is_read_or_reclaimed() {
    let clock = ManualClock::at(SystemClock.now());
    for reads in [true, false] {
        let engine = Engine::open(&Options::in_memory().clock(clock.clone())).unwrap();
        let at = clock.now().plus_ms(1000);
        let put = move |keys: &mut Keyspace, now| keys.set_str(b"k", Bytes::new(), Expire::At(at), now);
        engine.write(b"k", put).await.unwrap();
        let early = watch(&engine, &["k"]).await;
        clock.advance_ms(999);
        engine.read(b"k", |keys, now| keys.exists(b"k", now)).await.unwrap();
        assert!(!early.is_touched());
        clock.advance_ms(2);
        if reads {
            engine.read(b"k", |keys, now| keys.exists(b"k", now)).await.unwrap();
            assert!(early.is_touched());
            let late = watch(&engine, &["k"]).await;
            assert!(!late.is_touched(), "it had expired before");
        } else {
            // The shard reclaims expired keys over time, the later the longer their TTL was.
            clock.advance_ms(10_000);
            let touched = async {
                while !early.is_touched() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(10), touched).await.unwrap();
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn many_dropped_watches_do_no_harm() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let kept = watch(&engine, &["k"]).await;
    on_loop(&engine, ShardId(0), |local| async move {
        for round in 0..50 {
            in_turn(&local, |turn| {
                for n in 0..100 {
                    turn.watch(format!("{round}:{n}").as_bytes(), &Watch::default()).unwrap();
                }
            })
            .await;
        }
    })
    .await;
    assert!(!kept.is_touched());
    set(&engine, "k", "v").await.unwrap();
    set(&engine, "3:3", "v").await.unwrap();
    assert!(kept.is_touched());
}

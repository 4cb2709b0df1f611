//! Tasks on a shard's loop: their turns, what they change, and when that is durable.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use keystead_core::{Code, Millis, Outcome, Revision, ShardId};
use keystead_engine::bounds::{BATCH_BYTES, LOCAL_TASKS_WAITING_MAX};
use keystead_engine::{Completion, Durability, Engine, Local, LocalTask, Options, Turn};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use tokio::sync::oneshot;

use crate::common::{DURABLE, get, occupy, options, set};

/// Runs a task on a shard's loop and returns its result.
pub(crate) fn on_loop<T, F, G>(
    engine: &Engine,
    shard: ShardId,
    task: G,
) -> impl Future<Output = T> + use<T, F, G>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
    G: FnOnce(Local) -> F + Send + 'static,
{
    let (reply, result) = oneshot::channel();
    let task = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let _ = reply.send(task(local).await);
        })
    };
    engine.spawn(shard, Box::new(task)).unwrap();
    async { result.await.unwrap() }
}

/// Runs a function in a turn, as soon as the shard grants one.
pub(crate) async fn in_turn<T>(local: &Local, run: impl FnOnce(&mut Turn<'_>) -> T) -> T {
    let mut run = Some(run);
    poll_fn(|cx| match local.turn(cx.waker()) {
        Some(mut turn) => Poll::Ready(run.take().map(|run| run(&mut turn))),
        None => Poll::Pending,
    })
    .await
    .unwrap()
}

pub(crate) fn put(keyspace: &mut Keyspace, key: &str, value: &str, now: Millis) {
    let value = Bytes::from(value.as_bytes());
    keyspace.set_str(key.as_bytes(), value, Expire::At(Millis::NEVER), now).unwrap();
}

/// A turn that sets a key; returns the revision that must be durable before the result may be sent.
pub(crate) async fn put_on(local: &Local, key: &str, value: &str) -> Revision {
    in_turn(local, |turn| {
        turn.run(true, |keyspace, now| (put(keyspace, key, value, now), Completion::Commit)).unwrap().1
    })
    .await
}

fn levels() -> impl Iterator<Item = (tempfile::TempDir, Options)> {
    [Durability::Memory].into_iter().chain(DURABLE).map(|level| {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path()).durability(level);
        (dir, options)
    })
}

#[tokio::test]
async fn what_a_task_changes_becomes_durable_and_visible() {
    for (_dir, options) in levels() {
        let engine = Engine::open(&options.shards(2)).unwrap();
        let shard = engine.shard_of(b"k");
        set(&engine, "k", "by a job").await.unwrap();
        let seen = on_loop(&engine, shard, move |local| async move {
            assert_eq!(local.shard(), shard);
            let before = in_turn(&local, |turn| {
                turn.run(false, |keyspace, now| {
                    let value = keyspace.str(b"k", now).unwrap();
                    (value.is_some_and(|value| &**value == b"by a job"), Completion::Commit)
                })
            });
            assert!(before.await.unwrap().0);
            let seen = put_on(&local, "k", "by a task").await;
            local.until_durable(seen).await.unwrap();
            seen
        })
        .await;
        assert!(engine.health().shards[shard.0].durable >= seen && seen >= Revision(2));
        assert_eq!(get(&engine, "k").await.unwrap().as_deref(), Some("by a task"));
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn at_fsync_nothing_is_durable_within_its_own_turn() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    on_loop(&engine, ShardId(0), |local| async move {
        for n in 0..50 {
            let (seen, durable) = in_turn(&local, |turn| {
                let ran = turn
                    .run(true, |keyspace, now| (put(keyspace, "k", &n.to_string(), now), Completion::Commit));
                (ran.unwrap().1, turn.durable())
            })
            .await;
            assert!(durable < seen);
            // A read of what is not durable depends on it too, and a read of another key does not.
            let read = |key: &'static [u8]| {
                in_turn(&local, move |turn| {
                    turn.run(false, |keyspace, now| (keyspace.exists(key, now).unwrap(), Completion::Commit))
                        .unwrap()
                        .1
                })
            };
            let (of_k, of_none) = (read(b"k").await, read(b"none").await);
            assert!(of_k == Revision::ZERO || of_k == seen, "{of_k} of {seen}");
            assert!(of_none <= durable, "{of_none} of {durable}");
            local.until_durable(seen).await.unwrap();
            assert_eq!(read(b"k").await.max(seen), seen);
        }
    })
    .await;
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_change_that_is_not_kept_is_undone() {
    for (_dir, options) in levels() {
        let engine = Engine::open(&options).unwrap();
        on_loop(&engine, ShardId(0), |local| async move {
            put_on(&local, "k", "kept").await;
            let ran = in_turn(&local, |turn| {
                turn.run(true, |keyspace, now| {
                    put(keyspace, "k", "undone", now);
                    put(keyspace, "other", "undone", now);
                    ("returned all the same", Completion::Rollback)
                })
            });
            assert_eq!(ran.await.unwrap().0, "returned all the same");
        })
        .await;
        assert_eq!(get(&engine, "k").await.unwrap().as_deref(), Some("kept"));
        assert_eq!(get(&engine, "other").await.unwrap(), None);
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn many_tasks_take_turns_and_every_one_is_woken() {
    for (_dir, options) in levels() {
        let engine = Engine::open(&options).unwrap();
        let tasks: Vec<_> = (0..50)
            .map(|task| {
                on_loop(&engine, ShardId(0), move |local| async move {
                    for n in 0..20 {
                        let seen = put_on(&local, &format!("k{task}"), &n.to_string()).await;
                        until_woken(&local, seen).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(get(&engine, "k49").await.unwrap().as_deref(), Some("19"));
        engine.close().await.unwrap();
    }
}

/// Waits for the disk as a connection does: it registers once, and then only checks.
async fn until_woken(local: &Local, revision: Revision) {
    let mut registered = false;
    poll_fn(|cx| {
        let durable = local.durable(if registered { Revision::ZERO } else { revision }, cx.waker());
        registered = true;
        if durable >= revision { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A round of all tasks writes twice the budget before any of them waits for the disk, and so before the archive can know of it: the
/// shard must pause in every round, however fast the archive is.
#[tokio::test]
async fn a_shard_over_its_memory_budget_stalls_and_then_continues() {
    const BUDGET: usize = 1 << 20;
    const VALUE_BYTES: usize = 16 * 1024;
    const TASKS: usize = 16;
    const WRITES: usize = 2 * BUDGET / VALUE_BYTES / TASKS;
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path()).segment_bytes(1 << 20).durability(level).memory_bytes(BUDGET);
        let engine = Engine::open(&options).unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                on_loop(&engine, ShardId(0), move |local| async move {
                    let value = "v".repeat(VALUE_BYTES);
                    let mut most = 0;
                    for round in 0..8 {
                        let mut last = Revision::ZERO;
                        for n in 0..WRITES {
                            let (used, seen) = in_turn(&local, |turn| {
                                turn.run(true, |keyspace, now| {
                                    put(keyspace, &format!("k{task}:{round}:{n}"), &value, now);
                                    (keyspace.used_bytes(), Completion::Commit)
                                })
                                .unwrap()
                            })
                            .await;
                            most = most.max(used);
                            last = seen;
                        }
                        until_woken(&local, last).await;
                    }
                    most
                })
            })
            .collect();
        let mut most = 0;
        for task in tasks {
            let ended = tokio::time::timeout(std::time::Duration::from_secs(60), task).await;
            most = most.max(ended.expect("a task was never woken"));
        }
        assert!(engine.health().shards[0].stalls > 0, "16 MB through 1 MB never stalled the shard");
        // Every task may have had one round since the shard checked, and the values are not all there is.
        let limit = BUDGET + BUDGET / 4 + 2 * TASKS * WRITES * VALUE_BYTES;
        assert!(most <= limit, "{most} bytes were used, at most {limit} may be");
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_that_only_reads_stays_within_the_memory_budget() {
    const BUDGET: usize = 1 << 20;
    const VALUE_BYTES: usize = 128 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path()).segment_bytes(1 << 20).memory_bytes(BUDGET);
    let engine = Engine::open(&options).unwrap();
    for n in 0..100 {
        set(&engine, &format!("k{n}"), &"v".repeat(VALUE_BYTES)).await.unwrap();
    }
    engine.close().await.unwrap();
    drop(engine);
    let engine = Engine::open(&options).unwrap();
    let most = on_loop(&engine, ShardId(0), |local| async move {
        let mut most = 0;
        for n in 0..100 {
            let read = in_turn(&local, |turn| {
                turn.run(false, |keyspace, now| {
                    let len =
                        keyspace.str(format!("k{n}").as_bytes(), now).unwrap().map_or(0, |value| value.len());
                    ((len, keyspace.used_bytes()), Completion::Commit)
                })
                .unwrap()
            });
            let ((len, used), _) = read.await;
            assert_eq!(len, VALUE_BYTES);
            most = most.max(used);
            tokio::task::yield_now().await;
        }
        most
    })
    .await;
    let limit = BUDGET + BUDGET / 4 + 2 * VALUE_BYTES;
    assert!(most <= limit, "{most} bytes were used, at most {limit} may be");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_turn_that_changes_much_is_sent_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let engine =
        Engine::open(&options(dir.path()).segment_bytes(1 << 20).durability(Durability::Commit)).unwrap();
    on_loop(&engine, ShardId(0), |local| async move {
        let value = "v".repeat(BATCH_BYTES + 1);
        let (seen, durable) = in_turn(&local, |turn| {
            let first = turn
                .run(true, |keyspace, now| (put(keyspace, "k", &value, now), Completion::Commit))
                .unwrap()
                .1;
            (first, turn.durable())
        })
        .await;
        assert!(durable >= seen, "a batch without bounds may become too large for the journal");
    })
    .await;
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_panic_in_a_turn_poisons_the_shard_and_fails_waiters() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path())).unwrap();
    set(&engine, "k", "kept").await.unwrap();
    on_loop(&engine, ShardId(0), |local| async move {
        let seen = in_turn(&local, |turn| {
            let seen = turn
                .run(true, |keyspace, now| (put(keyspace, "lost", "v", now), Completion::Commit))
                .unwrap()
                .1;
            let failed = turn.run(true, |_, _| -> ((), Completion) { panic!("on purpose") }).unwrap_err();
            assert_eq!((failed.code(), failed.outcome()), (Code::StoreUnavailable, Outcome::Unknown));
            seen
        })
        .await;
        assert!(local.poisoned().is_some());
        assert_eq!(local.until_durable(seen).await.unwrap_err().outcome(), Outcome::Unknown);
        let rejected =
            in_turn(&local, |turn| turn.run(false, |_, _| ((), Completion::Commit))).await.unwrap_err();
        assert_eq!(rejected.outcome(), Outcome::NotApplied);
    })
    .await;
    engine.close().await.unwrap_err();
    drop(engine);
    let engine = Engine::open(&options(dir.path())).unwrap();
    assert_eq!(get(&engine, "k").await.unwrap().as_deref(), Some("kept"));
    assert_eq!(get(&engine, "lost").await.unwrap(), None, "it was never acknowledged");
}

/// Sets the flag when it is dropped.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn tasks_end_with_the_shard() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Ends(Arc::clone(&ended));
    let task = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let _kept = (ends, local);
            std::future::pending::<()>().await;
        })
    };
    engine.spawn(ShardId(0), Box::new(task)).unwrap();
    set(&engine, "k", "v").await.unwrap();
    assert!(!ended.load(Ordering::SeqCst));
    engine.close().await.unwrap();
    assert!(ended.load(Ordering::SeqCst));
    for rejected in [engine.spawn(ShardId(0), nothing()), engine.spawn_when_free(ShardId(0), nothing()).await]
    {
        let rejected = rejected.unwrap_err();
        assert_eq!((rejected.code(), rejected.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
    }
}

fn nothing() -> LocalTask {
    Box::new(|_| Box::pin(async {}))
}

#[tokio::test]
async fn too_many_waiting_tasks_are_rejected() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    assert_eq!(engine.spawn(ShardId(1), nothing()).unwrap_err().code(), Code::BadRequest);
    let busy = occupy(&engine, b"k");
    for _ in 0..LOCAL_TASKS_WAITING_MAX {
        engine.spawn(ShardId(0), nothing()).unwrap();
    }
    assert_eq!(engine.spawn(ShardId(0), nothing()).unwrap_err().code(), Code::QueueFull);
    // A caller that can wait is accepted later.
    let patient = tokio::spawn({
        let engine = engine.clone();
        async move { engine.spawn_when_free(ShardId(0), nothing()).await }
    });
    tokio::task::yield_now().await;
    assert!(!patient.is_finished());
    drop(busy);
    patient.await.unwrap().unwrap();
    // Tasks start before jobs, so when this one has run they all run.
    set(&engine, "k", "v").await.unwrap();
    on_loop(&engine, ShardId(0), |local| async move { put_on(&local, "k", "w").await }).await;
    assert_eq!(get(&engine, "k").await.unwrap().as_deref(), Some("w"));
}

//! Jobs that wait for keys: the order in which they are served, and how a wait ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keystead_core::{Clock, ManualClock, Millis, Result, Revision, ShardId, Stopwatch, SystemClock};
use keystead_engine::{Completion, Durability, Engine, Job, Options, Ran, Wait};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use tokio::sync::oneshot;

use crate::common::{DURABLE, options, set};
use crate::local_tasks::{in_turn, on_loop, put_on};

/// The result of a pop: an element, or nothing before the timeout.
type Popped = Result<Option<String>>;

/// Pops the first element of the first of its keys that has one, or waits.
struct Pop {
    wait: Wait,
    popped: Option<String>,
    /// The list that the element is moved to, if any.
    into: Option<&'static str>,
    runs: Arc<AtomicU64>,
    reply: oneshot::Sender<Popped>,
}

impl Job for Pop {
    fn writes(&self) -> bool {
        true
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        self.runs.fetch_add(1, Ordering::SeqCst);
        for key in self.wait.keys.clone() {
            if keyspace.list(&key, now).is_ok_and(|list| list.is_some()) {
                let value = keyspace.list_mut(&key, now).unwrap().pop_front();
                if let (Some(into), Some(value)) = (self.into, &value) {
                    keyspace.list_mut(into.as_bytes(), now).unwrap().push_back(value);
                }
                self.popped = value.map(|value| String::from_utf8_lossy(&value).into_owned());
                return Ran::Done;
            }
        }
        Ran::Waits(self.wait.clone())
    }

    fn complete(self: Box<Self>, gate: Result<()>) {
        let Pop { popped, reply, .. } = *self;
        let _ = reply.send(gate.map(|()| popped));
    }
}

/// A pop that was submitted, and its result.
struct Waiting {
    ticket: u64,
    runs: Arc<AtomicU64>,
    result: oneshot::Receiver<Popped>,
}

impl Waiting {
    async fn value(self) -> Option<String> {
        let result = tokio::time::timeout(Duration::from_secs(30), self.result).await;
        result.expect("it still waits").unwrap().unwrap()
    }

    fn is_waiting(&mut self) -> bool {
        matches!(self.result.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

fn pop(
    engine: &Engine,
    keys: &[&str],
    timeout_ms: Option<u64>,
    into: Option<&'static str>,
) -> (Box<Pop>, Waiting) {
    let (ticket, (reply, result)) = (engine.ticket(), oneshot::channel());
    let keys = keys.iter().map(|key| Bytes::from(key.as_bytes())).collect();
    let runs = Arc::default();
    let wait = Wait { ticket, keys, on_delete: false, timeout_ms };
    (
        Box::new(Pop { wait, popped: None, into, runs: Arc::clone(&runs), reply }),
        Waiting { ticket, runs, result },
    )
}

/// A pop that waits as a job of the queue, and has started to.
async fn waits(engine: &Engine, keys: &[&str], timeout_ms: Option<u64>) -> Waiting {
    let (job, waiting) = pop(engine, keys, timeout_ms, None);
    engine.submit(ShardId(0), job).unwrap();
    // Jobs are run in order.
    engine.read(b"k", |_, _| Ok(())).await.unwrap();
    waiting
}

async fn push(engine: &Engine, key: &'static str, values: &'static [&'static str]) {
    let push = move |keyspace: &mut Keyspace, now| {
        let mut list = keyspace.list_mut(key.as_bytes(), now)?;
        values.iter().for_each(|value| list.push_back(&Bytes::from(value.as_bytes())));
        Ok(())
    };
    engine.write(key.as_bytes(), push).await.unwrap();
}

fn open(level: Durability) -> (tempfile::TempDir, Engine) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
    (dir, engine)
}

#[tokio::test]
async fn the_first_waiter_is_served_first() {
    for level in [Durability::Memory].into_iter().chain(DURABLE) {
        let (_dir, engine) = open(level);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(waits(&engine, &["k"], None).await);
        }
        push(&engine, "k", &["a", "b", "c"]).await;
        let mut last = clients.pop().unwrap();
        for (client, expected) in clients.into_iter().zip(["a", "b", "c"]) {
            assert_eq!(client.value().await.as_deref(), Some(expected));
        }
        assert!(last.is_waiting());
        push(&engine, "k", &["d"]).await;
        assert_eq!(last.value().await.as_deref(), Some("d"));
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn the_ticket_decides_the_order_not_the_submission() {
    let (_dir, engine) = open(Durability::Memory);
    let (late, first) = pop(&engine, &["k"], None, None);
    let second = waits(&engine, &["k"], None).await;
    engine.submit(ShardId(0), late).unwrap();
    push(&engine, "k", &["a", "b"]).await;
    assert_eq!(first.value().await.as_deref(), Some("a"));
    assert_eq!(second.value().await.as_deref(), Some("b"));
}

#[tokio::test]
async fn a_turn_of_a_task_serves_at_once_at_every_level() {
    for level in [Durability::Memory].into_iter().chain(DURABLE) {
        let (_dir, engine) = open(level);
        let mut times = Vec::new();
        for _ in 0..20 {
            let client = waits(&engine, &["k"], None).await;
            let watch = Stopwatch::start();
            on_loop(&engine, ShardId(0), |local| async move {
                in_turn(&local, |turn| {
                    turn.run(true, |keyspace, now| {
                        keyspace.list_mut(b"k", now).unwrap().push_back(&Bytes::from(&b"v"[..]));
                        ((), Completion::Commit)
                    })
                    .unwrap()
                })
                .await;
            })
            .await;
            assert_eq!(client.value().await.as_deref(), Some("v"));
            times.push(watch.elapsed());
        }
        // A shard takes a turn ten times a second anyway; that would be too late.
        times.sort();
        assert!(times[10].as_millis() < 30, "{}: {:?} half of the time", level.as_str(), times[10]);
    }
}

#[tokio::test]
async fn a_task_may_make_a_job_wait_and_end_its_wait() {
    let (_dir, engine) = open(Durability::Memory);
    let (job, mut client) = pop(&engine, &["k"], None, None);
    let (wait, ticket) = (job.wait.clone(), client.ticket);
    on_loop(&engine, ShardId(0), move |local| async move {
        in_turn(&local, |turn| turn.wait(job, wait, Revision::ZERO)).await;
        put_on(&local, "other", "v").await;
    })
    .await;
    assert!(client.is_waiting() && client.runs.load(Ordering::SeqCst) == 0);
    on_loop(&engine, ShardId(0), move |local| async move {
        local.end_wait(ticket);
        local.end_wait(ticket);
        local.end_wait(ticket + 1);
    })
    .await;
    assert_eq!(client.value().await, None);
    push(&engine, "k", &["a"]).await;
    let left = engine.read(b"k", |keyspace, now| Ok(keyspace.list(b"k", now)?.map(|list| list.len()))).await;
    assert_eq!(left.unwrap(), Some(1), "no job waits any more");
}

#[tokio::test]
async fn a_job_that_is_served_may_serve_others() {
    let (_dir, engine) = open(Durability::Memory);
    let mut clients = Vec::new();
    for (from, to) in [("c", Some("d")), ("b", Some("c")), ("a", Some("b")), ("d", None)] {
        let (job, client) = pop(&engine, &[from], None, to);
        engine.submit(ShardId(0), job).unwrap();
        clients.push(client);
    }
    push(&engine, "a", &["x"]).await;
    for client in clients {
        assert_eq!(client.value().await.as_deref(), Some("x"));
    }
}

#[tokio::test]
async fn only_a_change_of_its_keys_runs_a_job_again() {
    let (_dir, engine) = open(Durability::Memory);
    let mut client = waits(&engine, &["k", "l"], None).await;
    for n in 0..10 {
        set(&engine, &format!("other{n}"), "v").await.unwrap();
    }
    let delete = |keyspace: &mut Keyspace, now| keyspace.delete(b"other1", now);
    engine.write(b"other1", delete).await.unwrap();
    assert_eq!(client.runs.load(Ordering::SeqCst), 1);
    set(&engine, "k", "a string").await.unwrap();
    assert!(client.is_waiting());
    push(&engine, "l", &["a"]).await;
    assert_eq!(client.value().await.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_change_that_is_undone_serves_nobody() {
    let (_dir, engine) = open(Durability::Memory);
    let mut client = waits(&engine, &["k"], None).await;
    let failing = |keyspace: &mut Keyspace, now: Millis| -> Result<()> {
        keyspace.list_mut(b"k", now)?.push_back(&Bytes::from(&b"undone"[..]));
        Err(keystead_core::Error::new(keystead_core::Code::Conflict, "on purpose"))
    };
    engine.write(b"k", failing).await.unwrap_err();
    assert!(client.is_waiting());
    push(&engine, "k", &["a"]).await;
    assert_eq!(client.value().await.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_wait_ends_at_its_timeout_and_not_before() {
    let (_dir, engine) = open(Durability::Memory);
    let watch = Stopwatch::start();
    let long = waits(&engine, &["k"], Some(10_000_000)).await;
    let (later, sooner) = (waits(&engine, &["k"], Some(250)).await, waits(&engine, &["k"], Some(60)).await);
    assert_eq!(sooner.value().await, None);
    let took = watch.elapsed().as_millis();
    assert!((59..5000).contains(&took), "{took} ms");
    assert_eq!(later.value().await, None);
    let took = watch.elapsed().as_millis();
    assert!((249..5000).contains(&took), "{took} ms");
    push(&engine, "k", &["a"]).await;
    assert_eq!(long.value().await.as_deref(), Some("a"));
}

#[tokio::test]
async fn timeouts_follow_the_injected_clock() {
    let clock = ManualClock::at(SystemClock.now());
    let engine = Engine::open(&Options::in_memory().clock(clock.clone())).unwrap();
    let mut client = waits(&engine, &["k"], Some(100)).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert!(client.is_waiting(), "the clock does not move");
    clock.advance_ms(101);
    assert_eq!(client.value().await, None);
}

/// A job that completes when its key is deleted.
struct Deleted(Option<oneshot::Sender<bool>>, Wait);

impl Job for Deleted {
    fn writes(&self) -> bool {
        false
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        if keyspace.exists(b"k", now).unwrap() { Ran::Waits(self.1.clone()) } else { Ran::Done }
    }

    fn complete(mut self: Box<Self>, gate: Result<()>) {
        let _ = self.0.take().unwrap().send(gate.is_ok());
    }
}

#[tokio::test]
async fn a_job_may_wait_for_the_deletion_of_a_key() {
    let clock = ManualClock::at(SystemClock.now());
    let engine = Engine::open(&Options::in_memory().clock(clock.clone())).unwrap();
    for how in ["deleted", "flushed", "expired"] {
        let at = if how == "expired" { clock.now().plus_ms(50) } else { Millis::NEVER };
        let put =
            move |keyspace: &mut Keyspace, now| keyspace.set_str(b"k", Bytes::new(), Expire::At(at), now);
        engine.write(b"k", put).await.unwrap();
        let (reply, result) = oneshot::channel();
        let wait = Wait {
            ticket: engine.ticket(),
            keys: vec![Bytes::from(&b"k"[..])],
            on_delete: true,
            timeout_ms: None,
        };
        engine.submit(ShardId(0), Box::new(Deleted(Some(reply), wait))).unwrap();
        engine
            .write(b"k", move |keyspace, now| {
                match how {
                    "deleted" => drop(keyspace.delete(b"k", now)?),
                    "flushed" => keyspace.flush(),
                    _ => {}
                }
                Ok(())
            })
            .await
            .unwrap();
        if how == "expired" {
            // A key is reclaimed a little later than it expires: the wheel has coarse ticks.
            clock.advance_ms(1000);
        }
        let result = tokio::time::timeout(Duration::from_secs(10), result).await;
        assert!(result.unwrap_or_else(|_| panic!("{how}: it did not complete")).unwrap());
    }
}

#[tokio::test]
async fn the_end_of_the_shard_ends_every_wait() {
    let (_dir, engine) = open(Durability::Fsync);
    let client = waits(&engine, &["k"], None).await;
    engine.close().await.unwrap();
    assert!(client.result.await.is_err(), "it ends without a result");

    let (_dir, engine) = open(Durability::Fsync);
    let client = waits(&engine, &["k"], None).await;
    let panicking = |_: &mut Keyspace, _: Millis| -> Result<()> { panic!("on purpose") };
    engine.write(b"k", panicking).await.unwrap_err();
    let result = tokio::time::timeout(Duration::from_secs(10), client.result).await;
    result.expect("it fails because the shard is poisoned").unwrap().unwrap_err();
}

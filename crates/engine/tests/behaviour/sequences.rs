//! Several requests in one entry of a shard's queue: each is all or nothing by itself, and their results are delivered together.

use keystead_core::{Code, Outcome, Result, Revision, ShardId};
use keystead_engine::{Completion, Durability, Engine, Sequence, Turn};
use tokio::sync::oneshot;

use crate::common::{get, occupy, options, set};
use crate::local_tasks::put;

/// What became of a sequence: the error of each request, and that of the output gate.
type Ended = (Vec<Option<Code>>, Result<()>);

/// Sets `k0`, `k1`, ... Request `fails` is rolled back, and `panics` panics outside of its savepoint.
struct Puts {
    count: usize,
    fails: Option<usize>,
    panics: Option<usize>,
    errors: Vec<Option<Code>>,
    reply_to: Option<oneshot::Sender<Ended>>,
}

impl Puts {
    fn new(
        count: usize,
        fails: Option<usize>,
        panics: Option<usize>,
    ) -> (Box<Self>, oneshot::Receiver<Ended>) {
        let (reply_to, ended) = oneshot::channel();
        (Box::new(Puts { count, fails, panics, errors: Vec::new(), reply_to: Some(reply_to) }), ended)
    }
}

impl Sequence for Puts {
    fn run(&mut self, turn: &mut Turn<'_>) -> Revision {
        let mut last = Revision::ZERO;
        for n in 0..self.count {
            assert!(self.panics != Some(n), "on purpose");
            let completion = Completion::commit_if(self.fails != Some(n));
            let ran = turn.run(true, |keyspace, now| (put(keyspace, &format!("k{n}"), "v", now), completion));
            self.errors.push(ran.as_ref().err().map(keystead_core::Error::code));
            last = ran.map_or(last, |((), seen)| last.max(seen));
        }
        last
    }

    fn complete(mut self: Box<Self>, gate: Result<()>) {
        let reply_to = self.reply_to.take().unwrap();
        reply_to.send((self.errors, gate)).unwrap();
    }
}

#[tokio::test]
async fn a_request_that_fails_leaves_nothing_and_its_neighbours_stay() {
    for level in [Durability::Fsync, Durability::Commit, Durability::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        let (sequence, ended) = Puts::new(4, Some(2), None);
        engine.submit_sequence(ShardId(0), sequence).unwrap();
        let (errors, gate) = ended.await.unwrap();
        gate.unwrap();
        assert_eq!(errors, [None; 4]);
        for (key, value) in [("k0", Some("v")), ("k1", Some("v")), ("k2", None), ("k3", Some("v"))] {
            assert_eq!(get(&engine, key).await.unwrap().as_deref(), value, "{key} at {level:?}");
        }
        engine.close().await.unwrap();
        if level != Durability::Memory {
            let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
            assert_eq!(get(&engine, "k3").await.unwrap().as_deref(), Some("v"));
            assert_eq!(get(&engine, "k2").await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn a_panic_poisons_the_shard_and_the_next_sequence_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).durability(Durability::Commit)).unwrap();
    set(&engine, "k0", "acknowledged").await.unwrap();
    let (first, panicked) = Puts::new(3, None, Some(1));
    let (second, rejected) = Puts::new(2, None, None);
    let busy = occupy(&engine, b"k0");
    engine.submit_sequence(ShardId(0), first).unwrap();
    engine.submit_sequence(ShardId(0), second).unwrap();
    drop(busy);
    let (_, gate) = panicked.await.unwrap();
    let error = gate.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::Unknown));
    let (errors, _) = rejected.await.unwrap();
    assert_eq!(errors, [Some(Code::StoreUnavailable); 2], "each request is rejected");
    assert!(engine.close().await.unwrap_err().message().contains("panicked"));
    let engine = Engine::open(&options(dir.path()).durability(Durability::Commit)).unwrap();
    assert_eq!(
        get(&engine, "k0").await.unwrap().as_deref(),
        Some("acknowledged"),
        "nothing of that turn was sent"
    );
}

#[tokio::test]
async fn a_full_queue_rejects_a_sequence_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&options(dir.path()).queue_jobs(2)).unwrap();
    let busy = occupy(&engine, b"k0");
    let mut ends = Vec::new();
    let error = loop {
        let (sequence, ended) = Puts::new(1, None, None);
        match engine.submit_sequence(ShardId(0), sequence) {
            Ok(()) => ends.push(ended),
            Err(error) => break error,
        }
    };
    assert_eq!((error.code(), error.outcome(), ends.len()), (Code::QueueFull, Outcome::NotApplied, 2));
    drop(busy);
    for ended in ends {
        ended.await.unwrap().1.unwrap();
    }
    engine.close().await.unwrap();
}

//! With the disk held back: no result, not even of a read, shows what is not yet durable, and what depends only on durable
//! revisions is returned at once.

use std::future::Future;
use std::pin::{Pin, pin};

use keystead_core::{Millis, Result, Revision, ShardId, Version};
use keystead_engine::{Completion, Durability, Engine, Sequence, Turn};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use tokio::sync::oneshot;

use crate::scene::{Scene, delete, get, set};

type Waiting<'a> = Pin<&'a mut dyn Future<Output = ()>>;

/// Runs `completes`, and none of `waiting` may complete meanwhile. Each of them has been submitted then, and since a shard takes
/// jobs in order, each has run when a later one completes.
async fn while_waiting<T>(mut waiting: Vec<Waiting<'_>>, completes: impl Future<Output = T>) -> T {
    let mut completes = pin!(completes);
    std::future::poll_fn(|context| {
        for (index, job) in waiting.iter_mut().enumerate() {
            assert!(job.as_mut().poll(context).is_pending(), "job {index} completed before its sync did");
        }
        completes.as_mut().poll(context)
    })
    .await
}

/// A job whose result is stored in a cell.
async fn into<T>(cell: &std::cell::Cell<Option<T>>, job: impl Future<Output = Result<T>>) {
    cell.set(Some(job.await.unwrap()));
}

async fn names(engine: &Engine) -> Result<Vec<String>> {
    let scan = |keyspace: &mut Keyspace, now| {
        let mut names = Vec::new();
        let visit = |key: &keystead_model::Bytes, _| names.push(String::from_utf8_lossy(key).into_owned());
        let next = keyspace.scan(0, 100, now, visit)?;
        assert_eq!(next, 0);
        names.sort();
        Ok(names)
    };
    engine.read(b"", scan).await
}

async fn exists(engine: &Engine, key: &'static str) -> Result<bool> {
    engine.read(key.as_bytes(), move |keyspace, now| keyspace.exists(key.as_bytes(), now)).await
}

async fn count(engine: &Engine) -> Result<usize> {
    engine.read(b"", |keyspace, _| Ok(keyspace.len())).await
}

pub(crate) fn a_read_never_shows_what_is_not_yet_durable(scene: &Scene) {
    let engine = &scene.open(Durability::Fsync);
    for key in ["settled", "changed", "deleted"] {
        scene.set(engine, key, "old").unwrap();
    }
    scene.disk.hold();
    let (version, gone) = (Default::default(), Default::default());
    let (seen, absent, there, scanned, counted) = Default::default();
    scene.run(async {
        let mut write = pin!(into(&version, set(engine, "changed", "new")));
        let mut removal = pin!(into(&gone, delete(engine, "deleted")));
        let mut read = pin!(into(&seen, get(engine, "changed")));
        let mut absence = pin!(into(&absent, get(engine, "deleted")));
        let mut existence = pin!(into(&there, exists(engine, "deleted")));
        let mut scan = pin!(into(&scanned, names(engine)));
        let mut counting = pin!(into(&counted, count(engine)));
        for _ in 0..50 {
            let waiting: Vec<Waiting<'_>> = vec![
                write.as_mut(),
                removal.as_mut(),
                read.as_mut(),
                absence.as_mut(),
                existence.as_mut(),
                scan.as_mut(),
                counting.as_mut(),
            ];
            let settled = while_waiting(waiting, get(engine, "settled")).await.unwrap();
            assert_eq!(settled.as_deref(), Some("old"), "a durable key is returned meanwhile");
        }
        scene.disk.release();
        tokio::join!(write, removal, read, absence, existence, scan, counting);
    });
    assert_eq!((version.take(), gone.take()), (Some(Version(2)), Some(true)));
    assert_eq!(seen.take(), Some(Some("new".to_string())));
    assert_eq!((absent.take(), there.take()), (Some(None), Some(false)));
    assert_eq!(scanned.take().unwrap(), ["changed", "settled"]);
    assert_eq!(counted.take(), Some(2));
    scene.run(engine.close()).unwrap();
    scene.is_sound();
}

/// What a failed job read must be durable as well: "there are too many already" reveals the writes of others.
pub(crate) fn an_error_waits_for_what_it_depends_on(scene: &Scene) {
    let engine = &scene.open(Durability::Fsync);
    scene.set(engine, "settled", "old").unwrap();
    scene.disk.hold();
    let error = Default::default();
    scene.run(async {
        let mut write = pin!(async {
            set(engine, "k", "new").await.unwrap();
        });
        let failing = engine.write(b"k", |keyspace, now| -> Result<()> {
            let there = keyspace.exists(b"k", now)?;
            keyspace.delete(b"settled", now)?;
            Err(keystead_core::Error::new(keystead_core::Code::Conflict, format!("is it there? {there}")))
        });
        let mut failing = pin!(async {
            std::cell::Cell::set(&error, Some(failing.await.unwrap_err()));
        });
        for _ in 0..20 {
            let waiting: Vec<Waiting<'_>> = vec![write.as_mut(), failing.as_mut()];
            // What it changed is undone, so the key is as durable as before.
            let settled = while_waiting(waiting, get(engine, "settled")).await.unwrap();
            assert_eq!(settled.as_deref(), Some("old"));
        }
        scene.disk.release();
        tokio::join!(write, failing);
    });
    assert!(error.take().unwrap().message().contains("true"));
}

/// Reads a key that is durable, and writes another.
struct ReadAndWrite(Option<String>, oneshot::Sender<Option<String>>);

impl Sequence for ReadAndWrite {
    fn run(&mut self, turn: &mut Turn<'_>) -> Revision {
        let read = turn.run(false, |keyspace, now| {
            let value = keyspace.str(b"settled", now).unwrap();
            (value.map(|value| String::from_utf8_lossy(value).into_owned()), Completion::Commit)
        });
        let (value, seen) = read.unwrap();
        self.0 = value;
        let write = turn.run(true, |keyspace, now| {
            let (value, expire) = (Bytes::from(&b"new"[..]), Expire::At(Millis::NEVER));
            (keyspace.set_str(b"changed", value, expire, now).unwrap(), Completion::Commit)
        });
        seen.max(write.unwrap().1)
    }

    fn complete(self: Box<Self>, gate: Result<()>) {
        gate.unwrap();
        let _ = self.1.send(self.0);
    }
}

/// The results of a sequence are delivered together, so its reads wait for its writes.
pub(crate) fn a_sequence_is_delivered_when_it_is_durable(scene: &Scene) {
    let engine = &scene.open(Durability::Fsync);
    scene.set(engine, "settled", "old").unwrap();
    scene.disk.hold();
    let delivered = Default::default();
    scene.run(async {
        let (reply, received) = oneshot::channel();
        engine.submit_sequence(ShardId(0), Box::new(ReadAndWrite(None, reply))).unwrap();
        let mut sequence = pin!(async {
            std::cell::Cell::set(&delivered, received.await.unwrap());
        });
        for _ in 0..20 {
            let settled = while_waiting(vec![sequence.as_mut()], get(engine, "settled")).await.unwrap();
            assert_eq!(settled.as_deref(), Some("old"));
        }
        scene.disk.release();
        sequence.await;
    });
    assert_eq!(delivered.take().as_deref(), Some("old"));
    assert_eq!(scene.run(get(engine, "changed")).unwrap().as_deref(), Some("new"));
}

//! NATS JetStream, on the real server: the cases of targets without a table, and faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use keystead_core::Code;
use keystead_sinks::{Layout, Sink, Written, open};
use keystead_testkit::servers::mariadb::MARIADB;
use keystead_testkit::servers::nats::{LOGIN, NATS, NATS_SMALL, NATS_TLS};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{OwnServer, SharedServer};
use keystead_testkit::skip::found;
use serde_json::json;

use crate::cases::{batch, delete, put, write};

static STREAMS: AtomicU64 = AtomicU64::new(0);

/// A stream of its own.
struct Target {
    port: u16,
    name: String,
    context: Context,
}

fn config(name: &str) -> Config {
    Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_atomic_publish: true,
        ..Config::default()
    }
}

impl Target {
    async fn create(port: u16) -> Target {
        let name = format!("s{}_{}", std::process::id(), STREAMS.fetch_add(1, Ordering::Relaxed));
        let client = async_nats::connect(format!("127.0.0.1:{port}")).await.unwrap();
        let context = jetstream::new(client);
        context.create_stream(config(&name)).await.unwrap();
        Target { port, name, context }
    }

    fn sink(&self, parameters: &str) -> Arc<dyn Sink> {
        sink(self.port, &self.name, parameters)
    }

    /// `SUBJECT OPERATION VERSION PAYLOAD` of each row in the stream, without the name of the stream.
    async fn rows(&self) -> Vec<String> {
        let mut stream = self.context.get_stream(&self.name).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut rows = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let subject = message.subject.strip_prefix(&format!("{}.", self.name)).unwrap().to_owned();
            if subject.starts_with("position.") {
                continue;
            }
            let header = |name: &str| {
                message.headers.get(name).map(|value| value.as_str().to_owned()).unwrap_or_default()
            };
            let payload = String::from_utf8_lossy(&message.payload).into_owned();
            assert!(header("Keystead-Batch").parse::<u64>().is_ok(), "{subject}");
            rows.push(format!(
                "{subject} {} {} {payload}",
                header("Keystead-Operation"),
                header("Keystead-Version")
            ));
        }
        rows
    }
}

fn sink(port: u16, stream: &str, parameters: &str) -> Arc<dyn Sink> {
    open(&format!("nats://127.0.0.1:{port}/{stream}{parameters}"), Layout::whole("s", "", "t")).unwrap()
}

async fn shared() -> Option<(SharedServer, Target)> {
    let server = found("nats", SharedServer::get(&NATS).await)?;
    let target = Target::create(server.site().port()).await;
    Some((server, target))
}

#[tokio::test]
async fn rows_and_position_arrive_together() {
    let Some((_server, target)) = shared().await else { return };
    let sink = target.sink("");
    sink.probe().await.unwrap();
    assert_eq!(sink.position().await.unwrap(), None);
    let rows = vec![put("user:1", 3, json!({"a": 1})), put("ü", 1, json!("x"))];
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    assert_eq!(write(&*sink, 2, vec![delete("user:1")]).await, Written::Done);
    let rows = [r#"user=3A1 put 3 {"a":1}"#, r#"=C3=BC put 1 "x""#, "user=3A1 delete 0 "];
    assert_eq!(target.rows().await, rows);
    let mut resync = batch(3, vec![]);
    resync.next.resync = Some(3);
    assert_eq!(sink.write(&resync).await.unwrap(), Written::Done, "a batch without rows");
    assert_eq!(target.sink("").position().await.unwrap(), Some(resync.next));
    // Its end is in the stream, also for a process that has not begun it; and only once.
    let other = target.sink("");
    for number in [4, 5] {
        assert_eq!(write(&*other, number, vec![put("c", number, json!(1))]).await, Written::Done);
    }
    let complete = r#"complete.s complete  {"firstBatch":3}"#;
    assert_eq!(target.rows().await[3..], ["c put 4 1", complete, "c put 5 1"]);
}

#[tokio::test]
async fn a_late_or_repeated_batch_changes_nothing() {
    let Some((_server, target)) = shared().await else { return };
    let sink = target.sink("");
    for number in [1, 2] {
        assert_eq!(write(&*sink, number, vec![put("a", number, json!(number))]).await, Written::Done);
    }
    for number in [1, 2, 4] {
        assert_eq!(write(&*sink, number, vec![put("a", 9, json!(9))]).await, Written::Fenced, "{number}");
    }
    let mut foreign = batch(3, vec![delete("a")]);
    foreign.expected = Some(("d2".to_owned(), 2));
    assert_eq!(sink.write(&foreign).await.unwrap(), Written::Fenced, "of another database");
    assert_eq!(target.rows().await, ["a put 1 1", "a put 2 2"]);
}

/// Two writers that both believe to be the only one: of each batch, the rows of one of them are in the stream, all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_writers_one_wins_each_batch() {
    let Some((_server, target)) = shared().await else { return };
    let writer = |name: u64| {
        let sink = target.sink("");
        async move {
            let mut won = 0;
            for number in 1..=40 {
                let rows = (0..5).map(|n| put(&format!("k{n}"), number, json!(name))).collect();
                match sink.write(&batch(number, rows)).await.unwrap() {
                    Written::Done => won += 1,
                    written => assert_eq!(written, Written::Fenced),
                }
                while sink.position().await.unwrap().is_none_or(|position| position.batch < number) {}
            }
            won
        }
    };
    let (one, two) = tokio::join!(writer(1), writer(2));
    assert_eq!(one + two, 40, "{one} and {two}");
    let rows = target.rows().await;
    assert_eq!(rows.len(), 200);
    for five in rows.chunks(5) {
        let of = |row: &String| row.split_once(' ').unwrap().1.to_owned();
        assert!(five.iter().all(|row| of(row) == of(&five[0])), "{five:?}");
    }
}

#[tokio::test]
async fn more_rows_than_an_atomic_batch_takes() {
    let Some((_server, target)) = shared().await else { return };
    let sink = target.sink("");
    let rows = |n: u64| (0..n).map(|n| put(&format!("k{n:05}"), 1, json!(n))).collect::<Vec<_>>();
    assert_eq!(write(&*sink, 1, rows(2_345)).await, Written::Done);
    assert_eq!(write(&*sink, 2, rows(999)).await, Written::Done);
    assert_eq!(sink.position().await.unwrap(), Some(batch(2, vec![]).next));
    let all = target.rows().await;
    assert_eq!((all.len(), all[2_344].as_str()), (2_345 + 999, "k02344 put 1 2344"));
}

#[tokio::test]
async fn a_row_that_the_server_does_not_take_is_named() {
    let Some(server) = found("nats-small", OwnServer::start(&NATS_SMALL).await) else { return };
    let target = Target::create(server.site().port()).await;
    let sink = target.sink("");
    let mut rows: Vec<_> = (0..20).map(|n| put(&format!("k{n}"), 1, json!(n))).collect();
    rows.insert(7, put("large", 1, json!("x".repeat(64 * 1024))));
    rows.insert(9, put(&"ü".repeat(1_000), 1, json!(1)));
    let Written::Rejected(rejected) = write(&*sink, 1, rows.clone()).await else { panic!("it was written") };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [7, 9]);
    assert!(rejected[0].reason.contains("raise max_payload"), "{rejected:?}");
    assert_eq!(target.rows().await.len(), 0);
    rows.remove(9);
    rows.remove(7);
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    // Almost as large as the server takes.
    assert_eq!(
        write(&*sink, 2, vec![put("fits", 1, json!("x".repeat(64 * 1024 - 1_100)))]).await,
        Written::Done
    );
}

#[tokio::test]
async fn streams_that_do_not_fit_are_rejected() {
    let Some((server, target)) = shared().await else { return };
    let port = server.site().port();
    let probe =
        async |stream: &str, parameters: &str| sink(port, stream, parameters).probe().await.unwrap_err();
    let error = probe("nowhere", "").await;
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert!(
        error.message().contains("no stream 'nowhere': create it with the subjects nowhere.>"),
        "{error}"
    );
    type Case = (&'static str, fn(&mut Config));
    let changes: [Case; 4] = [
        ("is in memory", |config| config.storage = StorageType::Memory),
        ("deletes keys when it is full", |config| {
            config.discard = DiscardPolicy::Old;
            config.max_messages = 5;
        }),
        ("set allow_atomic", |config| config.allow_atomic_publish = false),
        ("has the subjects", |config| config.subjects = vec![format!("{}.*", config.name)]),
    ];
    for (number, (expected, change)) in changes.into_iter().enumerate() {
        let name = format!("{}_{number}", target.name);
        let mut config = config(&name);
        change(&mut config);
        target.context.create_stream(config).await.unwrap();
        let error = probe(&name, "").await;
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(error.message().contains(expected), "{error}");
    }
    let error = probe(&target.name, "?subject=other").await;
    assert!(error.message().contains("no other.>"), "{error}");
}

#[tokio::test]
async fn a_full_stream_takes_nothing_and_says_so() {
    let Some((server, target)) = shared().await else { return };
    let name = format!("{}_full", target.name);
    target.context.create_stream(Config { max_messages: 10, ..config(&name) }).await.unwrap();
    let sink = sink(server.site().port(), &name, "");
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    let rows = (0..20).map(|n| put(&format!("k{n}"), 1, json!(n))).collect();
    let error = sink.write(&batch(2, rows)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.message().contains("did not take the batch"), "{error}");
    assert_eq!(sink.position().await.unwrap().map(|position| position.batch), Some(1));
    assert_eq!(target.context.get_stream(&name).await.unwrap().info().await.unwrap().state.messages, 2);
}

#[tokio::test]
async fn logins_that_fail_say_what_to_do() {
    let Some(server) = found("nats-tls", OwnServer::start(&NATS_TLS).await) else { return };
    let port = server.site().port();
    let error = sink(port, "S", "?tls=true&deadline=2s").probe().await.unwrap_err();
    assert!(error.message().contains("not trusted"), "{error}");
    let Some(other) = found("mariadb", SharedServer::get(&MARIADB).await) else { return };
    let url = format!("nats://{}:{}@127.0.0.1:{}/S?deadline=2s", LOGIN[0], LOGIN[1], other.site().port());
    let error = open(&url, Layout::whole("s", "", "t")).unwrap().probe().await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(!error.message().contains(LOGIN[1]), "{error}");
}

#[tokio::test]
async fn lost_replies_and_a_slow_server_are_unknown_and_then_settled() {
    let Some((_server, target)) = shared().await else { return };
    let proxy = Proxy::start(target.port).await.unwrap();
    let sink = sink(proxy.port(), &target.name, "?deadline=1s");
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    proxy.set(Traffic::Held);
    let error = sink.write(&batch(2, vec![put("a", 2, json!(2))])).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    proxy.set(Traffic::Forwarded);
    let position = async || loop {
        match sink.position().await {
            Ok(position) => break position.unwrap().batch,
            Err(error) => assert_eq!(error.code(), Code::StoreUnavailable),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let next = position().await + 1;
    assert_eq!(write(&*sink, next, vec![put("a", next, json!(next))]).await, Written::Done);
    assert_eq!(target.rows().await.last().unwrap(), &format!("a put {next} {next}"));
}

/// Writes batches while the server is killed. After an error the position says whether the batch was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_the_middle_of_batches_lose_and_repeat_nothing() {
    let Some(mut server) = found("nats", OwnServer::start(&NATS).await) else { return };
    let target = Target::create(server.site().port()).await;
    let (sink, done) = (target.sink("?deadline=2s"), Arc::new(AtomicBool::new(false)));
    let writing = {
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            let (mut next, mut errors) = (1, 0);
            while !done.load(Ordering::Relaxed) {
                let rows = (0..50).map(|n| put(&format!("k{n:02}"), next, json!(next))).collect();
                match sink.write(&batch(next, rows)).await {
                    Ok(written) => {
                        assert_eq!(written, Written::Done, "batch {next}");
                        next += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
                        errors += 1;
                        let position = loop {
                            match sink.position().await {
                                Ok(position) => break position,
                                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                            }
                        };
                        let reached = position.map_or(0, |position| position.batch);
                        assert!(reached == next || reached == next - 1, "{reached} of {next}");
                        next = reached + 1;
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (next - 1, errors)
        })
    };
    for round in 0..5 {
        tokio::time::sleep(Duration::from_millis(200 + 37 * round)).await;
        server.restart().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    done.store(true, Ordering::Relaxed);
    let (last, errors) = writing.await.unwrap();
    assert!(errors > 0, "no kill met a batch");
    let expected: Vec<String> =
        (1..=last).flat_map(|batch| (0..50).map(move |n| format!("k{n:02} put {batch} {batch}"))).collect();
    assert_eq!(target.rows().await, expected, "each batch is there once, in order");
}

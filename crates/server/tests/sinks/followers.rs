//! The same history with each kind of target: clients write while the server and the target are killed, and in the end the target has what the
//! clients know. And what only a webhook has: a position that the server keeps, and the end of a resynchronisation.

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use keystead_testkit::rng::Rng;
use keystead_testkit::servers::OwnServer;
use keystead_testkit::servers::mariadb::{self, LOGIN, MARIADB};
use keystead_testkit::servers::nats::NATS;
use keystead_testkit::skip::found;
use serde_json::json;

use crate::kills::{number, seed};
use crate::receiver::{Receiver, Replies};
use crate::writers::{Writers, Writing};
use crate::{Fixture, Rows, Target, until};

/// Faults of a short run.
const ROUNDS: u64 = 12;

/// One in so many is of the target, which takes longer to start.
const TARGET_EVERY: u64 = 4;

const MORE: &str = "flushEvery = \"5ms\"\nflushRows = 7\ngrace = \"1ms\"";

/// A target that can fail.
trait Follower: Target {
    /// It fails, clients write, and it comes back.
    async fn fail(&mut self, meanwhile: impl FnOnce());

    /// `key|value|version` of all rows, in the order of their keys.
    async fn rows(&self) -> Rows;
}

async fn history(mut target: impl Follower) {
    let (rounds, seed) = (number("KEYSTEAD_SINK_ROUNDS", ROUNDS), seed());
    println!("KEYSTEAD_SEED={seed} KEYSTEAD_SINK_ROUNDS={rounds}");
    let mut random = Rng::new(seed);
    let mut fixture = Fixture::start(&target, MORE, &["--shards", "2", "--durability", "commit"]);
    // What follows comes from the journal.
    fixture.http().settle();
    let writers = Writers::start(&fixture.server, Writing { clients: 3, keys: 12, seed });
    for round in 0..rounds {
        writers.progress(20 + random.next_u64() % 100);
        match round % TARGET_EVERY == TARGET_EVERY - 1 {
            true => target.fail(|| writers.progress(30)).await,
            false => writers.kill(&mut fixture.server),
        }
    }
    let wrote = writers.stop();
    let mut http = fixture.http();
    assert_eq!(http.documents(), wrote.rows, "the source is what clients know");
    http.flush();
    assert_eq!(target.rows().await, wrote.rows, "the target is what clients know");
    assert_eq!(http.sink()["resyncs"], json!(0), "from the journal");
    println!(
        "{} writes acknowledged, {} of unknown outcome: {}",
        wrote.acknowledged,
        wrote.unknown,
        http.sink()
    );
}

struct MySql(OwnServer);

impl Target for MySql {
    fn url(&self) -> String {
        let [user, password] = LOGIN;
        format!("mysql://{user}:{password}@127.0.0.1:{}/d?deadline=5s", self.0.site().port())
    }

    fn sql(&self, statement: &str) -> String {
        mariadb::sql(self.0.site(), "d", statement).unwrap()
    }
}

impl Follower for MySql {
    async fn fail(&mut self, meanwhile: impl FnOnce()) {
        self.0.kill().unwrap();
        meanwhile();
        self.0.restart().await.unwrap();
    }

    async fn rows(&self) -> Rows {
        crate::parse(&self.sql("SELECT `key`, keystead_version, value FROM t"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_has_what_clients_know() {
    let Some(server) = found("mariadb", OwnServer::start(&MARIADB).await) else { return };
    mariadb::sql(server.site(), "mysql", "CREATE DATABASE d").unwrap();
    let target = MySql(server);
    target.sql(
        "CREATE TABLE t (`key` varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY, value json, \
         keystead_version bigint NOT NULL DEFAULT 0, keystead_batch bigint NOT NULL DEFAULT 0)",
    );
    history(target).await;
}

struct Nats(OwnServer);

impl Nats {
    async fn stream(&self) -> jetstream::stream::Stream {
        let client = async_nats::connect(format!("127.0.0.1:{}", self.0.site().port())).await.unwrap();
        let subjects = vec!["rows.>".to_owned()];
        let config = Config { discard: DiscardPolicy::New, allow_atomic_publish: true, ..Config::default() };
        let config = Config { name: "rows".to_owned(), subjects, ..config };
        jetstream::new(client).get_or_create_stream(config).await.unwrap()
    }
}

impl Target for Nats {
    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}/rows?deadline=5s", self.0.site().port())
    }

    fn sql(&self, statement: &str) -> String {
        panic!("a stream knows no {statement}")
    }
}

impl Follower for Nats {
    async fn fail(&mut self, meanwhile: impl FnOnce()) {
        self.0.kill().unwrap();
        meanwhile();
        self.0.restart().await.unwrap();
    }

    /// The last message of each subject. The messages of a key are in the order of its revisions.
    async fn rows(&self) -> Rows {
        let mut stream = self.stream().await;
        let last = stream.info().await.unwrap().state.last_sequence;
        let (mut rows, mut revisions) =
            (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
            let Some(operation) = header("Keystead-Operation") else { continue };
            let Some(key) = message.subject.strip_prefix("rows.d=3A") else {
                assert_eq!((operation.as_str(), message.subject.as_str()), ("complete", "rows.complete.s"));
                continue;
            };
            let of = |name: &str| header(name).and_then(|text| text.parse::<u64>().ok()).unwrap();
            let revision = of("Keystead-Revision");
            let before = revisions.insert(key.to_owned(), revision).unwrap_or(0);
            assert!(revision >= before, "{key} went back from {before} to {revision}");
            let key = format!("d:{key}");
            match operation.as_str() {
                "put" => {
                    let value = serde_json::from_slice(&message.payload).unwrap();
                    rows.insert(key, (value, of("Keystead-Version")));
                }
                _ => drop(rows.remove(&key)),
            }
        }
        rows.into_iter().map(|(key, (value, version))| (key, value, version)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_has_what_clients_know() {
    let Some(server) = found("nats", OwnServer::start(&NATS).await) else { return };
    let target = Nats(server);
    target.stream().await;
    history(target).await;
}

impl Follower for Receiver {
    /// It is away, and then it takes events without saying so.
    async fn fail(&mut self, meanwhile: impl FnOnce()) {
        self.set(Replies::Away);
        meanwhile();
        let (before, _) = self.events();
        self.set(Replies::Loses);
        until("events are taken without a reply", || self.events().0 > before);
        self.set(Replies::Accepts);
    }

    async fn rows(&self) -> Rows {
        Receiver::rows(self)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_has_what_clients_know() {
    let receiver = Receiver::start();
    history(receiver).await;
}

#[test]
fn a_deletion_that_a_webhook_has_not_got_survives_a_kill() {
    let receiver = Receiver::start();
    let mut fixture = Fixture::start(&receiver, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    for n in 0..20 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    http.flush();
    assert_eq!(receiver.rows().len(), 20);
    let (before, _) = receiver.events();
    receiver.set(Replies::Away);
    assert_eq!(http.ask("DELETE", "/kv/d:7", &[], b"").status, 204);
    fixture.server.kill().unwrap();
    receiver.set(Replies::Accepts);
    fixture.server.restart().unwrap();
    until("the deletion arrives", || !receiver.rows().iter().any(|(key, _, _)| key == "d:7"));
    let mut http = fixture.http();
    http.flush();
    assert_eq!(receiver.rows().len(), 19);
    assert_eq!(receiver.events().0 - before, 1, "and nothing else: it goes on from the journal");
    assert_eq!(http.sink()["resyncs"], json!(0));
    // Another receiver of the same sink gets everything.
    let other = Receiver::start();
    assert!(fixture.server.stop().unwrap().success());
    crate::configure(fixture.home.path(), &other, "flushEvery = \"10ms\"");
    fixture.server.restart().unwrap();
    fixture.http().flush();
    assert_eq!(other.rows(), receiver.rows());
}

#[test]
fn what_was_deleted_unseen_follows_from_the_end_of_a_resynchronisation() {
    let receiver = Receiver::start();
    let mut fixture = Fixture::start(&receiver, "flushEvery = \"10ms\"", &["--shards", "2"]);
    let mut http = fixture.http();
    http.settle();
    for n in 0..5 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    http.flush();
    let completions = receiver.completions();
    // All keys at once, which are no deletions in the journal.
    http.run(&json!([["FLUSHALL"]]));
    http.flush();
    assert_eq!((receiver.rows(), receiver.completions()), (vec![], completions + 1));
    http.put("d:kept", &json!(1), "");
    http.put("d:gone", &json!(1), "");
    http.flush();
    // A server that knows nothing of the position, as after a restored backup without it.
    receiver.set(Replies::Away);
    http.ask("DELETE", "/kv/d:gone", &[], b"");
    fixture.server.kill().unwrap();
    std::fs::remove_file(fixture.home.path().join("data/sink-s.position.json")).unwrap();
    receiver.set(Replies::Accepts);
    fixture.server.restart().unwrap();
    let mut http = fixture.http();
    http.flush();
    assert_eq!(receiver.rows(), [("d:kept".to_owned(), json!(1), 1)]);
    assert_eq!(http.sink()["resyncs"], json!(1));
}

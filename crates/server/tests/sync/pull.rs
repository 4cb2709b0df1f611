//! Changes since a cursor: pages, deletions, restarts, snapshots where changes are no longer stored, events.

use std::collections::BTreeMap;

use keystead_testkit::server::Server;
use serde_json::{Value, json};

use crate::client::{Events, Http};
use crate::common::{dir, start_on};
use crate::resp::Client;
use crate::{memory, set};

/// A client's copy of the documents.
#[derive(Default)]
struct Copy {
    documents: BTreeMap<String, Value>,
    cursor: String,
    /// The keys of a snapshot that is being read.
    snapshot: Option<Vec<String>>,
    snapshots: usize,
}

impl Copy {
    /// Reads pages until there are no more.
    #[track_caller]
    fn pull(&mut self, http: &mut Http, query: &str) {
        loop {
            let page = http.changes(&format!("since={}&{query}", self.cursor));
            if page["reset"] == true {
                self.snapshot = Some(Vec::new());
                self.snapshots += 1;
            }
            for change in page["changes"].as_array().unwrap() {
                let key = change["key"].as_str().unwrap().to_owned();
                match change["deleted"] == true {
                    true => drop(self.documents.remove(&key)),
                    false => drop(self.documents.insert(key.clone(), change["value"].clone())),
                }
                self.snapshot.iter_mut().for_each(|keys| keys.push(key.clone()));
            }
            if page["complete"] == true {
                let keys = self.snapshot.take().unwrap();
                self.documents.retain(|key, _| keys.contains(key));
            }
            self.cursor = page["cursor"].as_str().unwrap().to_owned();
            if page["more"] == false {
                return;
            }
        }
    }
}

fn stored(http: &mut Http) -> BTreeMap<String, Value> {
    let lines = http.get("/kv?values=true").json();
    lines
        .as_array()
        .unwrap()
        .iter()
        .map(|document| (document["key"].as_str().unwrap().to_owned(), document["value"].clone()))
        .collect()
}

#[test]
fn a_cursor_survives_restarts_and_misses_nothing() {
    let home = dir();
    let mut server = start_on(home.path(), &["--durability", "commit", "--shards", "4"]);
    let mut http = Http::connect(&server);
    let (mut all, mut paged) = (Copy::default(), Copy::default());
    all.pull(&mut http, "");
    for round in 0..4u64 {
        for n in 0..30u64 {
            let id = round * 100 + n + 1;
            http.sync("c", &[set(id, &format!("k{}", n % 20), "n", json!(id))]);
        }
        http.ask("DELETE", &format!("/kv/k{round}"), &[], b"");
        if round == 2 {
            server.kill().unwrap();
            server.restart().unwrap();
            http = Http::connect(&server);
        }
        all.pull(&mut http, "");
        paged.pull(&mut http, "limit=3");
        assert_eq!(all.documents, stored(&mut http));
        assert_eq!(paged.documents, all.documents);
    }
    assert_eq!((all.snapshots, paged.snapshots), (1, 1), "the rest were changes");
    let page = http.changes(&format!("since={}", all.cursor));
    assert_eq!((&page["changes"], &page["more"]), (&json!([]), &json!(false)));
}

#[test]
fn changes_that_are_no_longer_stored_are_a_snapshot() {
    // Without a journal only what comes next is stored.
    let server = memory(&["--shards", "2"]);
    let (mut http, mut redis) = (Http::connect(&server), Client::connect(&server));
    let mut copy = Copy::default();
    http.sync("c", &[set(1, "a", "n", json!(1)), set(2, "b", "n", json!(1))]);
    copy.pull(&mut http, "");
    http.sync("c", &[json!({ "id": 3, "key": "a", "delete": true, "ts": crate::now_ms() })]);
    copy.pull(&mut http, "");
    assert_eq!(copy.documents, stored(&mut http), "what was deleted meanwhile is not in the snapshot");
    assert_eq!(copy.snapshots, 2);
    let home = dir();
    let other = start_on(home.path(), &["--durability", "commit"]);
    let (mut elsewhere, mut flushed) = (Http::connect(&other), Client::connect(&other));
    copy.pull(&mut elsewhere, "");
    assert!(copy.documents.is_empty(), "a cursor of another database");
    elsewhere.sync("c", &[set(1, "a", "n", json!(1))]);
    copy.pull(&mut elsewhere, "");
    flushed.ask("FLUSHALL");
    copy.pull(&mut elsewhere, "");
    assert!(copy.documents.is_empty());
    redis.ask("FLUSHALL");
    for cursor in
        ["x", "..", "0000000000000000.1", &format!("{}.9", copy.cursor), &copy.cursor.replace('.', ".99")]
    {
        assert_eq!(elsewhere.changes(&format!("since={cursor}"))["reset"], true, "{cursor}");
    }
    assert_eq!(elsewhere.get("/sync?limit=0").status, 400);
    assert_eq!(elsewhere.get("/sync?sinse=1").status, 400);
}

#[test]
fn a_prefix_selects_and_records_are_hidden() {
    let home = dir();
    let server = start_on(home.path(), &["--durability", "commit"]);
    let (mut http, mut redis) = (Http::connect(&server), Client::connect(&server));
    let mut copy = Copy::default();
    copy.pull(&mut http, "prefix=a:");
    http.sync("c", &[set(1, "a:1", "n", json!(1)), set(2, "b:1", "n", json!(1))]);
    redis.ask("SET a:text hello");
    redis.ask("LPUSH a:list 1");
    redis.ask("EXPIRE a:text 1000");
    copy.pull(&mut http, "prefix=a:");
    let expected =
        BTreeMap::from([("a:1".to_owned(), json!({ "n": 1 })), ("a:text".to_owned(), json!("hello"))]);
    assert_eq!(copy.documents, expected);
    let page = http.changes("prefix=keystead");
    assert_eq!(page["changes"], json!([]));
}

fn watch(server: &Server, target: &str) -> Events {
    let mut http = Http::connect(server);
    http.send("GET", target, &["Accept: text/event-stream"], b"");
    http.events_begin()
}

/// The id and data of the next event.
#[track_caller]
fn next(events: &mut Events) -> (String, Value) {
    loop {
        let text = events.try_whole().unwrap().unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        // Heartbeats have no name.
        let (Some(id), Some(data)) = (field("id"), field("data")) else { continue };
        return (id.to_owned(), serde_json::from_str(data).unwrap());
    }
}

#[test]
fn events_continue_at_a_cursor_and_are_cursors() {
    let home = dir();
    let server = start_on(home.path(), &["--durability", "commit", "--shards", "2"]);
    let mut http = Http::connect(&server);
    let mut copy = Copy::default();
    copy.pull(&mut http, "");
    http.sync("c", &[set(1, "a", "n", json!(1))]);
    let mut events = watch(&server, &format!("/sync?since={}", copy.cursor));
    let (_, data) = next(&mut events);
    assert_eq!((&data["key"], &data["value"]), (&json!("a"), &json!({ "n": 1 })), "it missed nothing");
    http.sync("c", &[set(2, "b", "n", json!(2))]);
    let (id, data) = next(&mut events);
    assert_eq!(data["key"], "b");
    http.sync("c", &[set(3, "a", "n", json!(3))]);
    let page = http.changes(&format!("since={id}"));
    assert_eq!(page["changes"], json!([{ "key": "a", "value": { "n": 3 }, "version": 2 }]));
}

//! `/kv` through a router.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::{Value, json};

use crate::client::Http;
use crate::resp::until;
use crate::{Cluster, NAMES, router};

#[test]
fn documents_are_written_read_patched_and_deleted() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    for key in cluster.keys("k").iter().map(|key| format!("/kv/{key}")) {
        http.get(&key).expect_error(404, "not_found");
        let put = http.put(&key, r#"{"n":1,"gone":true}"#);
        assert_eq!(put.status, 201, "{}", put.text());
        let got = http.get(&key);
        assert_eq!((got.status, got.json()["value"]["n"].as_u64()), (200, Some(1)));
        let version = got.json()["version"].as_u64().unwrap();
        assert_eq!(got.header("etag"), Some(format!("\"{version}\"").as_str()));
        assert_eq!(http.put(&format!("{key}?ifVersion={version}"), r#"{"n":2}"#).status, 200);
        let conflict = http.put(&format!("{key}?ifVersion={version}"), r#"{"n":3}"#);
        assert_eq!(conflict.expect_error(409, "conflict")["current"], version + 1);
        let tag = format!("If-Match: \"{version}\"");
        assert_eq!(http.ask("PUT", &key, &[&tag], b"{}").status, 412);
        let merge = ["Content-Type: application/merge-patch+json"];
        assert_eq!(http.ask("PATCH", &key, &merge, br#"{"m":{"x":1},"n":null}"#).status, 200);
        assert_eq!(http.get(&key).json()["value"], json!({"m": {"x": 1}}));
        let head = http.ask("HEAD", &key, &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(http.ask("DELETE", &key, &[], b"").status, 204);
        http.get(&key).expect_error(404, "not_found");
    }
}

#[test]
fn a_body_is_passed_on_whole_with_and_without_a_length() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let text = "x".repeat(3_000_000);
    assert_eq!(http.put("/kv/large", &format!("\"{text}\"")).status, 201);
    assert_eq!(http.get("/kv/large").json()["value"].as_str().unwrap().len(), text.len());
    http.send_raw(b"PUT /kv/chunked HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n");
    assert_eq!(http.try_receive("PUT").unwrap().status, 201);
    assert_eq!(http.get("/kv/chunked").json()["value"], json!({"a": 1}));
    http.put("/kv/larger", &"x".repeat(11_000_000)).expect_error(413, "too_large");
    let mut other = cluster.http();
    other.send_raw(b"PUT /kv/larger HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"400000\r\n", &vec![b'x'; 0x40_0000][..], b"\r\n"].concat();
    (0..3).for_each(|_| other.send_raw(&chunk));
    other.try_receive("PUT").unwrap().expect_error(400, "bad_request");
    cluster.http().get("/kv/larger").expect_error(404, "not_found");
}

#[test]
fn a_batch_runs_on_the_one_owner_of_its_keys() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let put = |a: &str, b: &str| {
        json!({"operations": [{"op": "put", "key": a, "value": 1}, {"op": "put", "key": b, "value": 2}]})
            .to_string()
    };
    let done = http.post("/kv:batch", &put("{t}a", "{t}b"));
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(http.get("/kv/%7Bt%7Db").json()["value"], 2);
    let error = http.post("/kv:batch", &put("a", "b")).expect_error(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("{tag}"), "{error}");
    http.post("/kv:batch", r#"{"operations":[{"op":"put"}]}"#).expect_error(400, "bad_request");
    assert_eq!(http.get("/kv/a").status, 404);
}

#[test]
fn a_list_has_the_keys_of_all_nodes_and_names_them() {
    let mut cluster = Cluster::start();
    let mut http = cluster.http();
    let mut expected = BTreeMap::new();
    for n in 0..60 {
        let put = http.put(&format!("/kv/list{n}"), "1");
        expected.insert(format!("list{n}"), put.header("keystead-node").unwrap().to_owned());
    }
    http.put("/kv/other", "1");
    let all = http.get("/kv").lines();
    assert_eq!((all.len(), &all[61]), (62, &json!({"failed": []})));
    let list = http.get("/kv?prefix=list").lines();
    let (last, keys) = list.split_last().unwrap();
    let pair =
        |line: &Value| (line["key"].as_str().unwrap().to_owned(), line["node"].as_str().unwrap().to_owned());
    assert_eq!(keys.iter().map(pair).collect::<BTreeMap<_, _>>(), expected);
    assert_eq!((keys.len(), last), (60, &json!({"failed": []})));
    assert_eq!(expected.values().collect::<BTreeSet<_>>().len(), 3, "all nodes have keys");
    let documents = http.get("/kv?values=true&prefix=other").lines();
    assert_eq!((&documents[0]["key"], &documents[0]["value"]), (&json!("other"), &json!(1)));
    assert!(NAMES.contains(&documents[0]["node"].as_str().unwrap()));
    http.get("/kv?limit=5").expect_error(400, "bad_request");
    cluster.nodes[1].kill().unwrap();
    let (lost, _) = expected.iter().find(|(_, node)| *node == "b").unwrap();
    until("the lost connections are noticed", || http.get(&format!("/kv/{lost}")).status == 503);
    let list = http.get("/kv?prefix=list").lines();
    let (last, keys) = list.split_last().unwrap();
    let left: BTreeMap<_, _> = expected.into_iter().filter(|(_, node)| node != "b").collect();
    assert_eq!(keys.iter().map(pair).collect::<BTreeMap<_, _>>(), left);
    assert_eq!(
        (last["failed"].as_array().unwrap().len(), &last["failed"][0]["node"]),
        (1, &json!("b")),
        "{last}"
    );
    assert!(last["failed"][0]["message"].as_str().unwrap().contains("cannot be reached"), "{last}");
}

#[test]
fn routers_with_the_same_nodes_route_alike() {
    let cluster = Cluster::start();
    let mut reversed: Vec<&str> = cluster.list.split(',').collect();
    reversed.reverse();
    let other = router(&reversed.join(",")).start().unwrap();
    let (mut first, mut second) = (cluster.http(), Http::connect(&other));
    for n in 0..100 {
        let (key, value) = (format!("/kv/same{n}"), n.to_string());
        let put = first.put(&key, &value);
        let got = second.get(&key);
        assert_eq!((got.status, got.json()["value"].to_string()), (200, value));
        assert_eq!(put.header("keystead-node"), got.header("keystead-node"));
    }
}

#[test]
fn clients_that_read_modify_and_write_lose_no_update() {
    let cluster = Cluster::start();
    let counters = cluster.keys("counter");
    for key in &counters {
        assert_eq!(cluster.http().put(&format!("/kv/{key}"), "0").status, 201);
    }
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut http = cluster.http();
                for key in &counters {
                    (0..50).for_each(|_| increment(&mut http, key));
                }
            });
        }
    });
    for key in &counters {
        assert_eq!(cluster.http().get(&format!("/kv/{key}")).json()["value"], 150, "{key}");
    }
}

fn increment(http: &mut Http, key: &str) {
    loop {
        let read = http.get(&format!("/kv/{key}")).json();
        let (value, version) = (read["value"].as_u64().unwrap(), &read["version"]);
        let put = http.put(&format!("/kv/{key}?ifVersion={version}"), &(value + 1).to_string());
        match put.status {
            200 => return,
            409 => {}
            _ => panic!("{}", put.text()),
        }
    }
}

#[test]
fn changes_are_streamed_as_they_happen() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    http.put("/kv/watched", "1");
    let mut watcher = cluster.http();
    watcher.send("GET", "/kv/watched", &["Accept: text/event-stream"], b"");
    let mut events = watcher.events_begin();
    for n in 2..5 {
        http.put("/kv/watched", &n.to_string());
        while !events.next().contains(&format!("\"value\":{n}")) {}
    }
    // A long poll ends with the next change.
    let version = http.get("/kv/watched").json()["version"].as_u64().unwrap();
    let mut waiting = cluster.http();
    waiting.send("GET", &format!("/kv/watched?wait=30s&sinceVersion={version}"), &[], b"");
    http.put("/kv/watched", "9");
    assert_eq!(waiting.try_receive("GET").unwrap().json()["value"], 9);
}

#[test]
fn a_stream_ends_when_the_router_stops() {
    let mut cluster = Cluster::start();
    cluster.http().put("/kv/watched", "1");
    let mut watcher = cluster.http();
    watcher.send("GET", "/kv/watched", &["Accept: text/event-stream"], b"");
    let mut events = watcher.events_begin();
    let ended = thread::spawn(move || while let Ok(Some(_)) = events.try_whole() {});
    assert!(cluster.router.stop().unwrap().success());
    ended.join().unwrap();
    assert!(!cluster.router.logs().contains("did not finish in time"), "{}", cluster.router.logs());
}

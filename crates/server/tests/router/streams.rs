//! Streams of all nodes: messages of channels wherever they are published, and the changes of all documents.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Events, Http};
use crate::resp::{Client, until};
use crate::{Cluster, NAMES};

const STREAM: &str = "Accept: text/event-stream";

/// The events of all documents of a router.
fn events(cluster: &Cluster, target: &str, headers: &[&str]) -> Events {
    let mut http = cluster.http();
    http.send("GET", target, &[&[STREAM], headers].concat(), b"");
    http.events_begin()
}

/// The id, name and data of the next event.
#[track_caller]
fn next(events: &mut Events) -> (String, String, Value) {
    loop {
        let text = events.try_whole().unwrap().unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        if let (Some(id), Some(name)) = (field("id"), field("event")) {
            return (id.to_owned(), name.to_owned(), serde_json::from_str(field("data").unwrap()).unwrap());
        }
    }
}

/// The comment that comes next.
fn comment(events: &mut Events, words: &str) {
    let text = events.try_whole().unwrap().unwrap();
    assert!(text.starts_with(": ") && text.contains(words), "{text}");
}

#[test]
fn messages_reach_subscribers_wherever_they_are_published() {
    let cluster = Cluster::start();
    let channels = cluster.keys("ch");
    let mut by_name = cluster.http().events(&format!("/subscribe/{}", channels.join("/")), &[]);
    let mut by_pattern = cluster.http().events("/psubscribe/ch*/nothing", &[]);
    for (n, channel) in channels.iter().enumerate() {
        assert_eq!(by_name.next(), format!("subscribe,{channel},{}", n + 1));
    }
    assert_eq!(
        (by_pattern.next(), by_pattern.next()),
        ("psubscribe,ch*,1".into(), "psubscribe,nothing,2".into())
    );
    for node in &cluster.nodes {
        for channel in &channels {
            assert_eq!(Client::connect(node).ask(&format!("PUBLISH {channel} hello")), ":2");
            assert_eq!(by_name.next(), format!("message,{channel},hello"));
            assert_eq!(by_pattern.next(), format!("pmessage,ch*,{channel},hello"));
        }
    }
    // Nothing of it is left when the clients have gone.
    drop((by_name, by_pattern));
    for node in &cluster.nodes {
        let mut node = Client::connect(node);
        until("the router has unsubscribed", || {
            node.ask("PUBSUB CHANNELS") == "[]" && node.ask("PUBSUB NUMPAT") == ":0"
        });
    }
    for bad in ["/subscribe", "/subscribe/"] {
        assert_eq!(cluster.http().post(bad, "[]").status, 400, "{bad}");
    }
}

#[test]
fn the_changes_of_all_nodes_are_one_stream_that_can_be_continued() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let keys = cluster.keys("doc");
    let mut stream = events(&cluster, "/kv?prefix=doc", &[]);
    let mut last = String::new();
    for (n, key) in keys.iter().enumerate() {
        http.put(&format!("/kv/{key}"), &n.to_string());
        http.put(&format!("/kv/x{key}"), "0");
        let (id, name, data) = next(&mut stream);
        assert_eq!((&*name, data), ("put", json!({ "key": key, "value": n, "version": 1 })));
        assert!(NAMES.iter().all(|name| id.contains(&format!("{name}:"))), "{id}");
        last = id;
    }
    drop(stream);
    for key in &keys {
        http.put(&format!("/kv/{key}"), "\"missed\"");
    }
    let mut again = events(&cluster, "/kv?prefix=doc", &[&format!("Last-Event-ID: {last}")]);
    let mut missed: Vec<Value> = keys.iter().map(|_| next(&mut again).2["key"].take()).collect();
    missed.sort_by_key(Value::to_string);
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(missed, expected);
    // Only the documents of one node are gone.
    Client::connect(&cluster.nodes[1]).expect(&[("FLUSHALL", "+OK")]);
    let (_, name, data) = next(&mut again);
    assert_eq!((&*name, data), ("flush", json!({ "node": "b" })));
    for (target, id) in
        [("/kv?prefix=doc", "Last-Event-ID: 12-5"), ("/kv?limit=1", "X: y"), ("/kv?values=true", "X: y")]
    {
        let refused = cluster.http().ask("GET", target, &[STREAM, id], b"");
        refused.expect_error(400, "bad_request");
    }
}

#[test]
fn a_stream_goes_on_where_it_stopped_when_a_node_is_back() {
    let mut cluster = Cluster::start();
    let mut http = cluster.http();
    let keys = cluster.keys("doc");
    let mut stream = events(&cluster, "/kv", &[]);
    let mut subscribed = cluster.http().events("/subscribe/ch", &[]);
    subscribed.next();
    http.put(&format!("/kv/{}", keys[2]), "1");
    let (id, ..) = next(&mut stream);
    cluster.nodes[2].kill().unwrap();
    comment(&mut stream, "node c");
    comment(&mut subscribed, "node c");
    http.put(&format!("/kv/{}", keys[0]), "2");
    assert_eq!(next(&mut stream).2["key"], keys[0]);
    // From now on, a change of the node that is away would be missing.
    let refused = cluster.http().ask("GET", "/kv", &[STREAM], b"");
    refused.expect_error(503, "node_unreachable");
    // Not if it is known where to continue.
    let mut again = events(&cluster, "/kv", &[&format!("Last-Event-ID: {id}")]);
    assert_eq!(next(&mut again).2["key"], keys[0]);
    let mut new = cluster.http().events("/subscribe/ch", &[]);
    assert_eq!(new.next(), "subscribe,ch,1");
    cluster.nodes[2].restart().unwrap();
    let mut node = Http::connect(&cluster.nodes[2]);
    node.put(&format!("/kv/{}", keys[2]), "3");
    for stream in [&mut stream, &mut again] {
        assert_eq!(next(stream).2, json!({ "key": keys[2], "value": 3, "version": 2 }));
    }
    until("all are subscribed again", || {
        let mut node = Client::connect(&cluster.nodes[2]);
        node.ask("PUBSUB NUMSUB ch") == "[ch :2]"
    });
    Client::connect(&cluster.nodes[2]).expect(&[("PUBLISH ch m", ":2")]);
    for events in [&mut subscribed, &mut new] {
        while events.next().is_empty() {}
    }
}

#[test]
fn a_scan_over_rest_visits_every_node() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let mut expected: Vec<String> = (0..500).map(|n| format!("key:{n}")).collect();
    for key in &expected {
        http.post("/", &json!(["SET", key, "v"]).to_string());
    }
    expected.sort();
    let mut scan = |headers: &[&str], decode: fn(&str) -> String| {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let command = json!(["SCAN", cursor, "MATCH", "key:*", "COUNT", 50]).to_string();
            let page = http.ask("POST", "/", headers, command.as_bytes()).json();
            cursor = decode(page["result"][0].as_str().unwrap());
            found.extend(
                page["result"][1].as_array().unwrap().iter().map(|key| decode(key.as_str().unwrap())),
            );
            if cursor == "0" {
                found.sort();
                return found;
            }
        }
    };
    assert_eq!(scan(&[], str::to_owned), expected);
    let decode =
        |text: &str| String::from_utf8(data_encoding::BASE64.decode(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(scan(&["Upstash-Encoding: base64"], decode), expected);
    // In the path, in RESP2, and what is wrong.
    let path = http.get("/scan/0/count/1").json();
    assert!(path["result"][0].as_str().unwrap() != "0", "{path}");
    let resp2 = http.ask("POST", "/", &["Upstash-Response-Format: resp2"], br#"["SCAN","0","COUNT","1"]"#);
    assert!(resp2.text().starts_with("*2\r\n$"), "{}", resp2.text());
    for (command, words) in [
        (json!(["SCAN"]), "ERR wrong number of arguments"),
        (json!(["SCAN", "x"]), "ERR invalid cursor"),
        (json!(["SCAN", "0", "NONSENSE"]), "ERR syntax error"),
    ] {
        let refused = http.post("/", &command.to_string());
        assert_eq!(refused.status, 400);
        assert!(refused.error().starts_with(words), "{}", refused.text());
    }
    let pipeline = http.post("/pipeline", r#"[["SCAN","0"],["PING"]]"#).json();
    assert!(
        pipeline[0]["error"].as_str().unwrap().starts_with("ERR a command about all nodes"),
        "{pipeline}"
    );
    assert_eq!(pipeline[1]["result"], "PONG");
}

#[test]
fn the_sdk_of_upstash_works_unchanged() {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/node_modules");
    if !peers.join("@upstash/redis/package.json").is_file() {
        return keystead_testkit::skip::skipped("upstash-redis-js", "it is not installed");
    }
    let cluster = Cluster::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/router/upstash_redis.cjs");
    let mut command = Command::new("node");
    let output = command.arg(script).arg(cluster.router.url("")).env("NODE_PATH", peers).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim_end().ends_with("ok"), "{said}\n{error}");
}

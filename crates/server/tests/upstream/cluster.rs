//! A cluster of three nodes: slots, redirections, and commands about all nodes.

use keystead_core::key::slot;
use serde_json::{Value, json};

use crate::client::Http;
use crate::others::{CLUSTER, Other};
use crate::{direct, start};

/// Keys on all nodes.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The ports of the node that has a slot, and of another one.
fn owner(cluster: &Other, slot: u16) -> (u16, u16) {
    let ports = cluster.ports();
    let is_owner = |port: &&u16| direct(**port).ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")) != ":0";
    let at = ports.iter().position(|port| is_owner(&port)).unwrap();
    (ports[at], ports[(at + 1) % ports.len()])
}

fn set(http: &mut Http, key: &str, value: &str) {
    assert_eq!(http.post("/", &json!(["SET", key, value]).to_string()).json(), json!({"result": "OK"}));
}

fn get(http: &mut Http, key: &str) -> Value {
    http.post("/", &json!(["GET", key]).to_string()).json()["result"].clone()
}

#[test]
fn pipelines_are_split_by_slot_and_keep_their_order() {
    let Some(cluster) = CLUSTER.start() else { return };
    let (_server, mut http) = start(&cluster.url(), &[]);
    let mut commands = Vec::new();
    let mut expected = Vec::new();
    for n in 0..600 {
        let key = KEYS[n % KEYS.len()];
        commands.push(json!(["RPUSH", key, n]));
        expected.push(json!({"result": n / KEYS.len() + 1}));
    }
    let response = http.post("/pipeline", &json!(commands).to_string());
    assert_eq!((response.status, response.json()), (200, json!(expected)));
    for (first, key) in KEYS.iter().enumerate() {
        let all = http.post("/", &json!(["LRANGE", key, 0, -1]).to_string()).json();
        let mine: Vec<_> = (first..600).step_by(KEYS.len()).map(|n| n.to_string()).collect();
        assert_eq!(all, json!({"result": mine}));
    }
    // Each node has some of them, so the pipeline was split.
    assert!(cluster.ports().iter().all(|port| direct(*port).ask("DBSIZE") != ":0"));
    let all = http.post("/pipeline", r#"[["DBSIZE"],["KEYS","*"],["FLUSHALL"],["DBSIZE"]]"#).json();
    assert_eq!(all[0], json!({"result": 6}));
    let mut keys: Vec<_> =
        all[1]["result"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, KEYS);
    assert_eq!((&all[2], &all[3]), (&json!({"result": "OK"}), &json!({"result": 0})));
}

#[test]
fn a_transaction_has_one_slot() {
    let Some(cluster) = CLUSTER.start() else { return };
    let (_server, mut http) = start(&cluster.url(), &[]);
    let both =
        http.post("/multi-exec", r#"[["SET","{t}a",1],["INCR","{t}a"],["PING"],["MGET","{t}a","{t}b"]]"#);
    assert_eq!(
        (both.status, both.json()),
        (200, json!([{"result": "OK"}, {"result": 2}, {"result": "PONG"}, {"result": ["2", null]}]))
    );
    for body in [r#"[["SET","{t}a",7],["SET","b",7]]"#, r#"[["SET","{t}a",7],["MGET","{t}a","b"]]"#] {
        let crossed = http.post("/multi-exec", body);
        assert_eq!(crossed.status, 400);
        assert!(crossed.error().starts_with("CROSSSLOT "), "{crossed:?}");
    }
    let crossed = http.post("/", r#"["MGET","{t}a","b"]"#);
    assert!(crossed.status == 400 && crossed.error().starts_with("CROSSSLOT "), "{crossed:?}");
    assert_eq!(http.post("/multi-exec", r#"[["SET","{t}a",7],["FLUSHALL"]]"#).status, 400);
    assert_eq!(get(&mut http, "{t}a"), json!("2"));
    let refused = http.post("/", r#"["SCAN",0]"#);
    assert!(refused.status == 400 && refused.error().contains("'SCAN'"), "{refused:?}");
    assert_eq!(http.get("/monitor").status, 501);
}

#[test]
fn a_slot_that_moves_is_followed() {
    let Some(cluster) = CLUSTER.start() else { return };
    let (_server, mut http) = start(&cluster.url(), &[]);
    set(&mut http, "{t}a", "1");
    let slot = slot(b"t");
    let (source, target) = owner(&cluster, slot);
    let id = |port: u16| direct(port).ask("CLUSTER MYID");
    let (source_id, target_id) = (id(source), id(target));
    let ask = |port: u16, line: String| assert_eq!(direct(port).ask(&line), "+OK", "{line}");
    ask(target, format!("CLUSTER SETSLOT {slot} IMPORTING {source_id}"));
    ask(source, format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}"));
    // Keys that are not there any more are asked for at the other node.
    let response =
        http.post("/pipeline", r#"[["GET","{t}a"],["SET","{t}new",1],["INCR","{t}new"],["GET","other"]]"#);
    assert_eq!(response.json(), json!([{"result": "1"}, {"result": "OK"}, {"result": 2}, {"result": null}]));
    assert_eq!(http.get("/incr/%7Bt%7Dnew").json(), json!({"result": 3}));
    let both = http.post("/multi-exec", r#"[["INCR","{t}new"],["INCR","{t}new"]]"#);
    assert_eq!(both.json(), json!([{"result": 4}, {"result": 5}]));
    ask(source, format!("MIGRATE 127.0.0.1 {target} {{t}}a 0 5000"));
    for port in [target, source].into_iter().chain(cluster.ports().iter().copied()) {
        ask(port, format!("CLUSTER SETSLOT {slot} NODE {target_id}"));
    }
    let response =
        http.post("/pipeline", r#"[["INCR","{t}a"],["INCR","{t}a"],["GET","other"],["INCR","{t}new"]]"#);
    assert_eq!(response.json(), json!([{"result": 2}, {"result": 3}, {"result": null}, {"result": 6}]));
    let both = http.post("/multi-exec", r#"[["INCR","{t}a"],["GET","{t}a"]]"#);
    assert_eq!(both.json(), json!([{"result": 4}, {"result": "4"}]));
    assert_eq!(direct(target).ask("GET {t}a"), "4");
}

#[test]
fn messages_are_heard_on_any_node() {
    let Some(cluster) = CLUSTER.start() else { return };
    let (server, _http) = start(&cluster.url(), &[]);
    let mut news = Http::connect(&server).events("/subscribe/news", &[]);
    assert_eq!(news.next(), "subscribe,news,1");
    for (n, port) in cluster.ports().iter().enumerate() {
        assert!(direct(*port).ask(&format!("PUBLISH news {n}")).starts_with(':'));
        assert_eq!(news.next(), format!("message,news,{n}"));
    }
}

#[test]
fn a_cluster_that_is_gone_is_an_error_at_once() {
    let Some(mut cluster) = CLUSTER.start() else { return };
    let (_server, mut http) = start(&cluster.url(), &[]);
    set(&mut http, "k", "v");
    cluster.kill();
    crate::resp::until("it is noticed", || http.get("/get/k").status == 503);
    let many: Vec<_> = (0..1_000).map(|n| json!(["SET", format!("k{n}"), n])).collect();
    let response = http.post("/pipeline", &json!(many).to_string());
    assert_eq!(response.status, 503);
    assert!(response.error().starts_with("ERR upstream: cannot connect to "), "{response:?}");
    assert_eq!(http.get("/healthz").json()["status"], "degraded");
}

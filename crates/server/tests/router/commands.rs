//! The Upstash-compatible REST API through a router.

use serde_json::{Value, json};

use crate::Cluster;
use crate::client::Http;

/// The results of a pipeline, each a result or an error.
#[track_caller]
fn pipeline(http: &mut Http, commands: &Value) -> Vec<Value> {
    let response = http.post("/pipeline", &commands.to_string());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json().as_array().unwrap().clone()
}

#[test]
fn commands_run_on_the_owners_of_their_keys() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    for (n, key) in cluster.keys("c").into_iter().enumerate() {
        let set = json!(["SET", key, n]).to_string();
        http.expect(&[(&set, r#"{"result":"OK"}"#)]);
        let direct = Http::connect(&cluster.nodes[n]).get(&format!("/get/{key}"));
        assert_eq!(direct.json(), json!({"result": n.to_string()}));
        assert_eq!(http.get(&format!("/get/{key}")).json(), direct.json());
    }
    http.expect(&[
        (r#"["PING"]"#, r#"{"result":"PONG"}"#),
        (r#"["DBSIZE"]"#, r#"{"result":3}"#),
        (r#"["MSET","{t}a",1,"{t}b",2]"#, r#"{"result":"OK"}"#),
        (r#"["MGET","{t}a","{t}b"]"#, r#"{"result":["1","2"]}"#),
        (r#"["EVAL","return redis.call('GET', KEYS[1])",1,"{t}b"]"#, r#"{"result":"2"}"#),
        (r#"["MGET","a","b"]"#, r#"{"error":"CROSSSLOT Keys in request don't hash to the same slot"}"#),
    ]);
    let mut keys: Vec<String> = serde_json::from_value(http.get("/keys/*").json()["result"].take()).unwrap();
    keys.sort_unstable();
    assert_eq!(keys.len(), 5, "{keys:?}");
    let random = http.post("/", r#"["RANDOMKEY"]"#);
    assert!(random.status == 400 && random.error().contains("not available through a router"), "{random:?}");
    http.expect(&[(r#"["FLUSHALL"]"#, r#"{"result":"OK"}"#), (r#"["DBSIZE"]"#, r#"{"result":0}"#)]);
}

#[test]
fn the_replies_of_a_pipeline_are_in_the_order_of_its_commands() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let sets: Vec<Value> = (0..200).map(|n| json!(["SET", format!("p{n}"), format!("v\"{n}")])).collect();
    assert!(pipeline(&mut http, &json!(sets)).iter().all(|reply| *reply == json!({"result": "OK"})));
    let gets: Vec<Value> = (0..200).map(|n| json!(["GET", format!("p{n}")])).collect();
    let expected: Vec<Value> = (0..200).map(|n| json!({"result": format!("v\"{n}")})).collect();
    assert_eq!(pipeline(&mut http, &json!(gets)), expected);
    // On one key the commands run in their order, whatever is between them.
    let mixed: Vec<Value> =
        (0..100).flat_map(|n| [json!(["INCR", "counter"]), json!(["GET", format!("p{n}")])]).collect();
    let replies = pipeline(&mut http, &json!(mixed));
    for n in 0..100 {
        assert_eq!(replies[2 * n], json!({"result": n + 1}));
    }
    let replies = pipeline(
        &mut http,
        &json!([
            ["GET", "p0"],
            ["NOSUCH"],
            ["MGET", "p0", "p1"],
            [],
            ["DBSIZE"],
            ["LPOP", "p1"],
            ["PING"],
            ["GET", "p2"]
        ]),
    );
    assert_eq!((&replies[0], &replies[7]), (&json!({"result": "v\"0"}), &json!({"result": "v\"2"})));
    assert_eq!(replies[6], json!({"result": "PONG"}));
    for (n, words) in [
        (1, "ERR unknown command"),
        (2, "CROSSSLOT "),
        (3, "ERR empty"),
        (4, "ERR a command about all"),
        (5, "WRONGTYPE "),
    ] {
        assert!(replies[n]["error"].as_str().unwrap().starts_with(words), "{n}: {}", replies[n]);
    }
    let base64 = http.ask(
        "POST",
        "/pipeline",
        &["Upstash-Encoding: base64"],
        br#"[["GET","p0"],["GET","p1"],["GET","p2"]]"#,
    );
    assert_eq!(base64.json()[1], json!({"result": "diIx"}));
}

#[test]
fn a_transaction_runs_on_one_owner() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let done = http.post("/multi-exec", r#"[["SET","{t}a",1],["INCR","{t}a"],["GET","{t}a"]]"#);
    assert_eq!((done.status, done.json()), (200, json!([{"result": "OK"}, {"result": 2}, {"result": "2"}])));
    let crossed = http.post("/multi-exec", r#"[["SET","a",1],["SET","b",1]]"#);
    assert_eq!((crossed.status, crossed.error().split(' ').next()), (400, Some("CROSSSLOT")));
    http.expect(&[(r#"["EXISTS","a"]"#, r#"{"result":0}"#)]);
    assert_eq!(http.post("/multi-exec", r#"[["FLUSHALL"]]"#).status, 400);
}

#[test]
fn messages_reach_the_subscribers_of_their_channel() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    for channel in cluster.keys("channel") {
        let mut events = cluster.http().events(&format!("/subscribe/{channel}"), &[]);
        assert_eq!(events.next(), format!("subscribe,{channel},1"));
        let publish = json!(["PUBLISH", channel, "hello"]).to_string();
        http.expect(&[(&publish, r#"{"result":1}"#)]);
        assert_eq!(events.next(), format!("message,{channel},hello"));
    }
}

#[test]
fn a_repeated_request_with_an_idempotency_key_runs_once() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let body = br#"[["INCR","x1"],["INCR","x2"],["INCR","x3"],["INCR","x4"]]"#;
    let first = http.ask("POST", "/pipeline", &["Idempotency-Key: once"], body);
    assert_eq!(first.status, 200, "{}", first.text());
    let second = http.ask("POST", "/pipeline", &["Idempotency-Key: once"], body);
    assert_eq!(second.json(), first.json());
    http.expect(&[(r#"["GET","x1"]"#, r#"{"result":"1"}"#), (r#"["GET","x4"]"#, r#"{"result":"1"}"#)]);
}

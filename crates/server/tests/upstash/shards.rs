//! Several shards: pipelines are split by shard and their replies merged, transactions stay on one shard.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Http;
use crate::{Server, differs, memory};

/// A server with four shards, and a connection for each of their loops.
fn sharded() -> (Server, Vec<Http>) {
    let server = memory(&["--shards", "4"]);
    let connections = (0..8).map(|_| Http::connect(&server)).collect();
    (server, connections)
}

fn pipeline(http: &mut Http, commands: Vec<Value>) -> Value {
    let response = http.post("/pipeline", &Value::from(commands).to_string());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

#[test]
fn a_pipeline_over_all_shards_keeps_the_order_of_each_key() {
    let (_server, mut connections) = sharded();
    for (name, http) in connections.iter_mut().enumerate() {
        let (mut commands, mut expected) = (Vec::new(), Vec::new());
        for n in 0..20 {
            for key in 0..50 {
                let key = format!("c{name}:k{key}");
                commands.push(json!(["APPEND", key, n % 10]));
                commands.push(json!(["GET", key]));
                expected.push(json!({ "result": n + 1 }));
                let so_far: String = (0..=n).map(|n| char::from(b'0' + n % 10)).collect();
                expected.push(json!({ "result": so_far }));
            }
        }
        assert_eq!(pipeline(http, commands), Value::from(expected));
    }
}

#[test]
fn scripts_are_known_between_their_load_and_flush() {
    let (_server, mut connections) = sharded();
    let digits = "b534286061d4b9e4026607613b95c06c06015ae8";
    for (name, http) in connections.iter_mut().enumerate() {
        let run = json!(["EVALSHA", digits, 1, format!("k{name}")]);
        let load = json!(["SCRIPT", "LOAD", "return 'loaded'"]);
        let flush = json!(["SCRIPT", "FLUSH"]);
        let commands = vec![run.clone(), load.clone(), run.clone(), flush, run.clone()];
        let unknown = json!({ "error": "NOSCRIPT No matching script. Please use EVAL." });
        let expected = [
            unknown.clone(),
            json!({ "result": digits }),
            json!({ "result": "loaded" }),
            json!({ "result": "OK" }),
            unknown,
        ];
        assert_eq!(pipeline(http, commands), Value::from(expected.to_vec()));
        let response = http.post("/multi-exec", &json!([load, run, ["SCRIPT", "FLUSH"]]).to_string());
        if differs("several objects: transactions with commands about all objects") {
            let words = "ERR a command about all objects cannot be part of a transaction: send it on its own";
            assert_eq!((response.status, response.error().as_str()), (400, words));
            continue;
        }
        assert_eq!(response.json(), Value::from([&expected[1..4]].concat()));
    }
}

#[test]
fn commands_on_all_keys_keep_the_order_of_the_pipeline() {
    let (_server, mut connections) = sharded();
    let sets = |count: usize| (0..count).map(|n| json!(["SET", format!("k{n}"), n])).collect::<Vec<_>>();
    for http in &mut connections {
        let commands = [
            sets(40),
            vec![json!(["DBSIZE"]), json!(["FLUSHALL"]), json!(["DBSIZE"])],
            sets(7),
            vec![json!(["DBSIZE"]), json!(["GET", "k6"]), json!(["FLUSHALL"])],
        ];
        let response = pipeline(http, commands.concat());
        let of = |n: usize| response[n].clone();
        assert_eq!(
            (of(40), of(41), of(42)),
            (json!({ "result": 40 }), json!({ "result": "OK" }), json!({ "result": 0 }))
        );
        assert_eq!((of(50), of(51)), (json!({ "result": 7 }), json!({ "result": "6" })), "{response}");
    }
}

#[test]
fn keys_scan_dbsize_and_flushall_use_all_shards() {
    let (_server, mut connections) = sharded();
    let expected: BTreeSet<String> = (0..500).map(|n| format!("key:{n}")).collect();
    pipeline(&mut connections[0], expected.iter().map(|key| json!(["SET", key, "v"])).collect());
    let names = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    for http in &mut connections {
        assert_eq!(http.get("/dbsize").text(), r#"{"result":500}"#);
        let keys = names(&http.get("/keys/key:*").json()["result"]);
        assert_eq!((keys.len(), keys.into_iter().collect::<BTreeSet<_>>()), (500, expected.clone()));
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let response = http.get(&format!("/scan/{cursor}/count/37")).json();
            cursor = response["result"][0].as_str().unwrap().to_owned();
            found.extend(names(&response["result"][1]));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (500, expected.clone()));
        let random = http.get("/randomkey").json()["result"].as_str().unwrap().to_owned();
        assert!(expected.contains(&random), "{random}");
    }
    assert_eq!(connections[3].get("/flushall").text(), r#"{"result":"OK"}"#);
    for http in &mut connections {
        assert_eq!(http.get("/dbsize").text(), r#"{"result":0}"#);
    }
}

#[test]
fn a_transaction_across_shards_is_an_error_and_one_on_a_shard_runs() {
    let (_server, mut connections) = sharded();
    for (n, http) in connections.iter_mut().enumerate() {
        let across: Vec<Value> = (0..20).map(|key| json!(["SET", format!("a{n}:{key}"), 1])).collect();
        let response = http.post("/multi-exec", &Value::from(across).to_string());
        assert_eq!(
            (response.status, response.error().as_str()),
            (400, "CROSSSLOT Keys in request don't hash to the same slot")
        );
        let one: Vec<Value> = (0..20).map(|key| json!(["INCR", format!("{{c{n}}}:{}", key % 2)])).collect();
        let response = http.post("/multi-exec", &Value::from(one).to_string());
        let expected: Vec<Value> = (0..20).map(|key| json!({ "result": key / 2 + 1 })).collect();
        assert_eq!(response.json(), Value::from(expected));
    }
    assert_eq!(connections[0].get("/dbsize").text(), r#"{"result":16}"#, "nothing of those across");
}

#[test]
fn clients_of_all_shards_count_together() {
    let (_server, connections) = sharded();
    let threads: Vec<_> = connections
        .into_iter()
        .map(|mut http| {
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let commands = (0..50).map(|n| json!(["INCR", format!("n{}", n % 10)])).collect();
                    let response = pipeline(&mut http, commands);
                    assert!(
                        response.as_array().unwrap().iter().all(|item| item["result"].is_u64()),
                        "{response}"
                    );
                }
                http
            })
        })
        .collect();
    let mut connections: Vec<Http> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for n in 0..10 {
        let response = connections[n % 8].get(&format!("/get/n{n}"));
        assert_eq!(response.text(), r#"{"result":"800"}"#);
    }
}

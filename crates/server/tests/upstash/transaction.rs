//! Several commands as a transaction: all of them or none, isolated from others.

use serde_json::{Value, json};

use crate::client::Http;
use crate::memory;

#[test]
fn replies_are_in_order_and_a_command_that_fails_undoes_nothing() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let response =
        http.post("/multi-exec", r#"[["SET","k","v"],["INCR","k"],["APPEND","k","w"],["GET","k"],["PING"]]"#);
    assert_eq!(response.status, 200);
    let expected = json!([
        { "result": "OK" },
        { "error": "ERR value is not an integer or out of range" },
        { "result": 2 },
        { "result": "vw" },
        { "result": "PONG" },
    ]);
    assert_eq!(response.json(), expected);
}

#[test]
fn what_cannot_be_queued_discards_all_of_it() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for (row, words) in [
        (r#"["NOSUCH","x"]"#, "ERR unknown command 'NOSUCH', with args beginning with: 'x' "),
        (r#"["GET"]"#, "ERR wrong number of arguments for 'get' command"),
        (r#"[]"#, "ERR empty pipeline command"),
        (r#"["BLPOP","l",0]"#, "ERR Command is not available: 'BLPOP'. It needs a connection of its own"),
        (r#"["WATCH","k"]"#, "ERR Command is not available: 'WATCH'. It needs a connection of its own"),
        (r#"["MULTI"]"#, "ERR Command is not available: 'MULTI'. It needs a connection of its own"),
        (r#"["EXEC"]"#, "ERR Command is not available: 'EXEC'. It needs a connection of its own"),
        (r#"null"#, "ERR failed to parse pipeline request"),
    ] {
        for body in [format!(r#"[["SET","k","v"],{row}]"#), format!(r#"[{row},["SET","k","v"]]"#)] {
            let response = http.post("/multi-exec", &body);
            assert_eq!((response.status, response.error().as_str()), (400, words), "{body}");
        }
    }
    assert_eq!(http.get("/exists/k").text(), r#"{"result":0}"#);
}

#[test]
fn its_response_is_always_json() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let response = http.ask("POST", "/multi-exec", &["Upstash-Response-Format: resp2"], br#"[["PING"]]"#);
    assert_eq!(response.json(), json!([{ "result": "PONG" }]));
}

#[test]
fn commands_on_all_keys_are_part_of_it_on_one_shard() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let response = http.post(
        "/multi-exec",
        r#"[["SET","k","v"],["DBSIZE"],["KEYS","*"],["RANDOMKEY"],["SCAN",0],["FLUSHALL"],["DBSIZE"]]"#,
    );
    let expected = json!([
        { "result": "OK" },
        { "result": 1 },
        { "result": ["k"] },
        { "result": "k" },
        { "result": ["0", ["k"]] },
        { "result": "OK" },
        { "result": 0 },
    ]);
    assert_eq!((response.status, response.json()), (200, expected));
}

#[test]
fn other_commands_do_not_interleave() {
    let server = memory(&[]);
    let transaction = r#"[["INCR","a"],["INCR","b"],["GET","a"],["GET","b"]]"#;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let mut http = Http::connect(&server);
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let response = http.post("/multi-exec", transaction).json();
                    let of = |n: usize| response[n]["result"].clone();
                    assert_eq!(of(0), of(1), "{response}");
                    assert_eq!((of(2), of(3)), (json!(of(0).to_string()), json!(of(0).to_string())));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(Http::connect(&server).get("/mget/a/b").json(), json!({ "result": ["800", "800"] }));
}

#[test]
fn readers_see_all_of_it_or_nothing() {
    let server = memory(&[]);
    let mut writer = Http::connect(&server);
    let thread = std::thread::spawn(move || {
        for n in 0..300 {
            let commands: Vec<Value> = (0..10).map(|key| json!(["SET", format!("k{key}"), n])).collect();
            assert_eq!(writer.post("/multi-exec", &Value::from(commands).to_string()).status, 200);
        }
    });
    let mut reader = Http::connect(&server);
    let mut last = Value::Null;
    while last != json!("299") {
        let response = reader.get("/mget/k0/k1/k2/k3/k4/k5/k6/k7/k8/k9").json();
        let values = response["result"].as_array().unwrap();
        assert!(values.iter().all(|value| *value == values[0]), "{response}");
        last = values[0].clone();
    }
    thread.join().unwrap();
}

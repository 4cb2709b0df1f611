//! Several commands, each for itself.

use serde_json::{Value, json};

use crate::client::Http;
use crate::memory;

#[test]
fn answers_come_in_order_and_a_refusal_stops_nothing() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let came = http.post(
        "/pipeline",
        r#"[["SET","k","v"],["INCR","k"],["NOSUCH"],["GET"],[],["BLPOP","l",0],["get","k"],["LPUSH","l",1,2]]"#,
    );
    assert_eq!(came.status, 200);
    let expected = json!([
        { "result": "OK" },
        { "error": "ERR value is not an integer or out of range" },
        { "error": "ERR unknown command 'NOSUCH', with args beginning with: " },
        { "error": "ERR wrong number of arguments for 'get' command" },
        { "error": "ERR empty pipeline command" },
        { "error": "ERR Command is not available: 'BLPOP'. It needs a connection of its own" },
        { "result": "v" },
        { "result": 2 },
    ]);
    assert_eq!(came.json(), expected);
    assert!(came.header("upstash-sync-token").is_some());
}

#[test]
fn put_is_as_good_as_post_and_a_query_is_nothing() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let came = http.ask("PUT", "/pipeline?x=1", &[], br#"[["PING"]]"#);
    assert_eq!((came.status, came.text()), (200, r#"[{"result":"PONG"}]"#));
}

/// Auto-pipelining sends a thousand at a time.
#[test]
fn thousands_of_commands_are_one_request() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let commands: Vec<Value> = (0..10_000).map(|n| json!(["RPUSH", format!("l{}", n % 7), n])).collect();
    let came = http.post("/pipeline", &Value::from(commands).to_string()).json();
    let expected: Vec<Value> = (0..10_000).map(|n| json!({ "result": n / 7 + 1 })).collect();
    assert_eq!(came, Value::from(expected));
    let list = http.get("/lrange/l3/0/-1").json();
    let list: Vec<usize> =
        list["result"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(list, (0..10_000).skip(3).step_by(7).collect::<Vec<_>>());
}

#[test]
fn messages_of_a_pipeline_leave_in_order() {
    let server = memory(&[]);
    let mut events = Http::connect(&server).events("/subscribe/c", &[]);
    assert_eq!(events.next(), "subscribe,c,1");
    let commands: Vec<Value> = (0..100).map(|n| json!(["PUBLISH", "c", n])).collect();
    let came = Http::connect(&server).post("/pipeline", &Value::from(commands).to_string()).json();
    assert_eq!(came, Value::from(vec![json!({ "result": 1 }); 100]));
    for n in 0..100 {
        assert_eq!(events.next(), format!("message,c,{n}"));
    }
}

#[test]
fn pipelines_on_one_connection_are_answered_one_after_the_other() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for n in 0..50 {
        http.send("POST", "/pipeline", &[], format!(r#"[["SET","k",{n}],["GET","k"]]"#).as_bytes());
    }
    for n in 0..50 {
        let came = http.try_receive("POST").unwrap();
        assert_eq!(came.text(), format!(r#"[{{"result":"OK"}},{{"result":"{n}"}}]"#));
    }
}

//! Several commands, independent of each other.

use serde_json::{Value, json};

use crate::client::Http;
use crate::{differs, memory};

#[test]
fn replies_are_in_order_and_an_error_stops_nothing() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let response = http.post(
        "/pipeline",
        r#"[["SET","k","v"],["INCR","k"],["NOSUCH"],["GET"],[],["BLPOP","l",0],["get","k"],["LPUSH","l",1,2]]"#,
    );
    assert_eq!(response.status, 200);
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
    assert_eq!(response.json(), expected);
    assert!(response.header("upstash-sync-token").is_some());
}

#[test]
fn put_is_the_same_as_post_and_a_query_is_ignored() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let response = http.ask("PUT", "/pipeline?x=1", &[], br#"[["PING"]]"#);
    assert_eq!((response.status, response.text()), (200, r#"[{"result":"PONG"}]"#));
}

/// Auto-pipelining sends a thousand at a time.
#[test]
fn thousands_of_commands_are_one_request() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let commands: Vec<Value> = (0..10_000).map(|n| json!(["RPUSH", format!("l{}", n % 7), n])).collect();
    let response = http.post("/pipeline", &Value::from(commands).to_string()).json();
    let expected: Vec<Value> = (0..10_000).map(|n| json!({ "result": n / 7 + 1 })).collect();
    assert_eq!(response, Value::from(expected));
    let list = http.get("/lrange/l3/0/-1").json();
    let list: Vec<usize> =
        list["result"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(list, (0..10_000).skip(3).step_by(7).collect::<Vec<_>>());
}

/// Other clients see it half done, on the shard of the connection and on others: it is not a transaction, and must not block
/// them.
#[test]
fn others_get_their_turn_while_a_long_pipeline_runs() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        let fill: Vec<Value> = (0..1000).map(|n| json!(["RPUSH", "{x}long", n])).collect();
        http.post("/pipeline", &Value::from(fill).to_string());
        // Each of them scans the whole list.
        let step = [json!(["SORT", "{x}long", "LIMIT", 0, 1]), json!(["INCR", "{x}done"])];
        let commands: Vec<Value> = step.iter().cloned().cycle().take(4000).collect();
        let done = std::thread::scope(|scope| {
            let long = scope.spawn(|| {
                Http::connect(&server).post("/pipeline", &Value::from(commands).to_string()).json()
            });
            let mut seen = Vec::new();
            while !long.is_finished() {
                let done = http.get("/get/{x}done").json()["result"].clone();
                seen.push(done.as_str().map_or(0, |done| done.parse::<u32>().unwrap()));
            }
            assert_eq!(long.join().unwrap().as_array().unwrap().len(), 4000);
            seen
        });
        let between = done.iter().filter(|done| (1..2000).contains(*done)).count();
        match differs("a long pipeline") {
            true => assert_eq!(between, 0, "{shards} objects: {done:?}"),
            false => assert!(between > 1, "{shards} shards: {done:?}"),
        }
    }
}

#[test]
fn messages_of_a_pipeline_are_sent_in_order() {
    let server = memory(&[]);
    let mut events = Http::connect(&server).events("/subscribe/c", &[]);
    assert_eq!(events.next(), "subscribe,c,1");
    let commands: Vec<Value> = (0..100).map(|n| json!(["PUBLISH", "c", n])).collect();
    let response = Http::connect(&server).post("/pipeline", &Value::from(commands).to_string()).json();
    assert_eq!(response, Value::from(vec![json!({ "result": 1 }); 100]));
    for n in 0..100 {
        assert_eq!(events.next(), format!("message,c,{n}"));
    }
}

#[test]
fn pipelines_on_one_connection_run_one_after_the_other() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    for n in 0..50 {
        http.send("POST", "/pipeline", &[], format!(r#"[["SET","k",{n}],["GET","k"]]"#).as_bytes());
    }
    for n in 0..50 {
        let response = http.try_receive("POST").unwrap();
        assert_eq!(response.text(), format!(r#"[{{"result":"OK"}},{{"result":"{n}"}}]"#));
    }
}

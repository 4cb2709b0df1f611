//! How many requests a command costs: two cold, one warm.

use serde_json::json;

use super::{both, client::Http, compute, requests, run, storage};

#[test]
fn a_command_costs_two_requests_cold_and_one_warm() {
    let (storage, first) = both();
    let mut http = Http::connect(&first);
    // Opens the keys: what the schema says, once.
    run(&mut http, &["GET", "absent"]);
    let mut cost = |commands: &[&str]| {
        let before = requests(&storage);
        for command in commands {
            run(&mut http, &command.split(' ').collect::<Vec<_>>());
        }
        requests(&storage) - before
    };
    for (commands, expected) in [
        (&["SET a 1"][..], 2),
        (&["SET a 2"], 1),
        (&["GET a"], 1),
        (&["INCR a"], 1),
        (&["HSET h f v g w"], 2),
        (&["HGET h f"], 1),
        (&["HSET h f w"], 1),
        (&["RPUSH l a b"], 2),
        (&["LPOP l"], 1),
        (&["ZADD z 1 m", "SADD s m"], 4),
        (&["XADD x 1-1 f v"], 2),
        (&["XADD x 2-1 f v"], 1),
        (&["MSET a 1 b 2 c 3"], 2),
        (&["MGET a b c"], 1),
        (&["DEL a b c"], 1),
        // What was fetched for it, in one transaction, needs no confirmation.
        (&["GET absent"], 1),
        (&["PING"], 0),
        (&["DBSIZE"], 1),
        (&["SCAN 0"], 1),
    ] {
        assert_eq!(cost(commands), expected, "{commands:?}");
    }
}

#[test]
fn pipelines_transactions_and_scripts_cost_no_more() {
    let (storage, first) = both();
    let mut http = Http::connect(&first);
    run(&mut http, &["GET", "absent"]);
    let many: Vec<_> = (0..50).map(|n| json!(["SET", format!("k{n}"), n])).collect();
    let script = "return redis.call('incr', KEYS[1]) + redis.call('incr', KEYS[2])";
    let transaction = json!([["INCR", "t"], ["RPUSH", "u", "a"]]);
    for (target, body, cold) in [
        ("/pipeline", json!(many), 2),
        ("/multi-exec", transaction, 2),
        ("/", json!(["EVAL", script, "2", "e1", "e2"]), 2),
    ] {
        for expected in [cold, 1] {
            let before = requests(&storage);
            let response = http.post(target, &body.to_string());
            assert_eq!(response.status, 200, "{response:?}");
            assert_eq!(requests(&storage) - before, expected, "{target} {body}");
        }
    }
}

/// As many commands as a pipeline may have, in two requests; and when another process has changed one of the keys.
#[test]
fn a_pipeline_of_very_many_keys_is_one_batch() {
    let storage = storage(&[]);
    let (one, other) = (compute(&storage), compute(&storage));
    let (mut one, mut other) = (Http::connect(&one), Http::connect(&other));
    run(&mut one, &["GET", "absent"]);
    let many: Vec<_> = (0..5_000).map(|n| json!(["INCR", format!("k{n}")])).collect();
    let many = json!(many).to_string();
    let before = requests(&storage);
    assert_eq!(one.post("/pipeline", &many).status, 200);
    assert_eq!(requests(&storage) - before, 2);
    run(&mut other, &["INCR", "k7"]);
    let replies = one.post("/pipeline", &many).json();
    assert_eq!(
        [&replies[6], &replies[7], &replies[8]],
        [&json!({ "result": 2 }), &json!({ "result": 3 }), &json!({ "result": 2 })]
    );
    assert_eq!(run(&mut other, &["DBSIZE"]), 5_000);
}

#[test]
fn another_process_reads_what_is_there_and_costs_one_request() {
    let storage = storage(&[]);
    let (one, other) = (compute(&storage), compute(&storage));
    let (mut one, mut other) = (Http::connect(&one), Http::connect(&other));
    run(&mut one, &["HSET", "h", "f", "1"]);
    assert_eq!(run(&mut other, &["HGET", "h", "f"]), "1");
    run(&mut one, &["HSET", "h", "f", "2"]);
    // It holds another state, and gets this one with the conflict: two requests, as there is one more attempt.
    let before = requests(&storage);
    assert_eq!(run(&mut other, &["HGET", "h", "f"]), "2");
    assert_eq!(requests(&storage) - before, 2);
    run(&mut other, &["FLUSHALL"]);
    assert_eq!(run(&mut one, &["HGET", "h", "f"]), json!(null));
    run(&mut one, &["SET", "h", "now a string"]);
    assert_eq!(run(&mut other, &["GET", "h"]), "now a string");
    assert_eq!(run(&mut other, &["DBSIZE"]), 1);
}

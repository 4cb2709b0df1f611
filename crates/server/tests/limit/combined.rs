//! Several policies in one check, and writes with a decision.

use serde_json::{Value, json};

use crate::client::{Http, Response};
use crate::{Fixture, differs};

fn left(http: &mut Http, policy: &str, key: &str) -> u64 {
    http.get(&format!("/limit/{policy}/{key}")).json()["remaining"].as_u64().unwrap()
}

fn combined(http: &mut Http, body: &Value) -> Response {
    http.post("/limit", &body.to_string())
}

#[test]
fn all_of_them_or_none_is_consumed() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        // On one store, and on three.
        for policies in [["login", "window"], ["login", "memory"], ["aside", "memory"], ["window", "aside"]] {
            let key = policies.join("-");
            let checks: Vec<Value> =
                policies.iter().map(|policy| json!({ "policy": policy, "key": key, "cost": 2 })).collect();
            let response = combined(&mut http, &json!({ "checks": checks })).json();
            assert_eq!(response["allowed"], true, "{response}");
            assert_eq!(response["decisions"].as_array().unwrap().len(), 2);
            let before: Vec<u64> = policies.iter().map(|policy| left(&mut http, policy, &key)).collect();
            let checks: Vec<Value> = [1, 1000]
                .iter()
                .zip(policies)
                .map(|(cost, policy)| json!({ "policy": policy, "key": key, "cost": cost }))
                .collect();
            let response = http.post("/limit?status=429", &json!({ "checks": checks }).to_string());
            assert_eq!(
                (response.status, &response.json()["allowed"], &response.json()["policy"]),
                (429, &json!(false), &json!(policies[1]))
            );
            assert!(response.header("retry-after").is_some());
            let after: Vec<u64> = policies.iter().map(|policy| left(&mut http, policy, &key)).collect();
            assert_eq!(before, after, "a denied combination consumes nothing");
        }
    }
}

#[test]
fn any_of_them_consumes_those_that_admit() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let checks = json!([{ "policy": "login", "key": "k", "cost": 4 }, { "policy": "window", "key": "k" }]);
    let response = combined(&mut http, &json!({ "rule": "any", "checks": checks })).json();
    assert_eq!((&response["allowed"], &response["policy"]), (&json!(true), &json!("window")));
    assert_eq!((left(&mut http, "login", "k"), left(&mut http, "window", "k")), (3, 49));
}

#[test]
fn a_write_happens_exactly_when_it_is_admitted() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        let body = json!({
            "checks": [{ "policy": "login", "key": "{t}ada" }, { "policy": "window", "key": "{t}all" }],
            "then": { "commands": [["RPUSH", "{t}jobs", "j"], ["LLEN", "{t}jobs"]] },
        });
        for n in 1..=5 {
            let response = combined(&mut http, &body).json();
            assert_eq!(response["allowed"], n <= 3, "{response}");
            let results = json!([{ "result": n }, { "result": n }]);
            assert_eq!(response.get("results"), if n <= 3 { Some(&results) } else { None });
        }
        assert_eq!(http.get("/llen/{t}jobs").json()["result"], 3);
        assert_eq!(left(&mut http, "window", "%7Bt%7Dall"), 47);
    }
}

#[test]
fn a_document_is_written_with_a_decision_and_a_conflict_consumes_nothing() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let body = |version: Value| {
        json!({
            "checks": [{ "policy": "login", "key": "ada" }],
            "then": { "operations": [
                { "op": "put", "key": "side", "value": 1 },
                { "op": "put", "key": "doc", "value": { "n": 1.10 }, "ifVersion": version },
            ] },
        })
    };
    let response = combined(&mut http, &body(Value::Null));
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["results"][1], json!({ "key": "doc", "value": { "n": 1.10 }, "version": 1 }));
    let conflict = combined(&mut http, &body(json!(7)));
    conflict.is_error(409, "conflict", "another version");
    assert_eq!(conflict.json()["error"]["operation"], 1);
    assert_eq!(http.get("/kv/side").json()["version"], 1, "what was written before it is undone");
    assert_eq!(left(&mut http, "login", "ada"), 2);
}

#[test]
fn a_command_that_fails_undoes_everything() {
    let (_fixture, mut http) = Fixture::open(&[]);
    http.post("/", r#"["SET","text","x"]"#);
    for (commands, status, code, words) in [
        (json!([["SET", "a", "1"], ["LPUSH", "text", "1"]]), 409, "wrong_type", "another type"),
        (json!([["SET", "a", "1"], ["INCR", "text"]]), 400, "bad_request", "not an integer"),
        (json!([["SET", "a", "1"], ["NOSUCH"]]), 400, "bad_request", "unknown command"),
        (json!([["SET", "a", "1"], ["SUBSCRIBE", "c"]]), 400, "bad_request", ""),
        (json!([["SET", "a", "1"], ["MULTI"]]), 400, "bad_request", ""),
    ] {
        let body =
            json!({ "checks": [{ "policy": "login", "key": "ada" }], "then": { "commands": commands } });
        let response = combined(&mut http, &body);
        response.is_error(status, code, words);
        assert_eq!(response.json()["error"]["operation"], 1);
    }
    assert_eq!(http.get("/exists/a").json()["result"], 0);
    assert_eq!(left(&mut http, "login", "ada"), 3, "nothing was consumed");
}

#[test]
fn what_cannot_be_one_step_is_an_error() {
    let (_fixture, mut http) = Fixture::open(&["--shards", "4"]);
    let check = |policy: &str, key: &str| json!({ "policy": policy, "key": key });
    let then = json!({ "commands": [["SET", "{x}k", "1"]] });
    for (body, words) in [
        (json!({ "checks": [check("login", "{y}a")], "then": then }), "the same {tag}"),
        (
            json!({ "checks": [check("login", "{x}a"), check("window", "{y}a")], "then": then }),
            "the same {tag}",
        ),
        (
            json!({ "checks": [check("memory", "{x}a")], "then": then }),
            "only with policies on the store 'engine'",
        ),
        (json!({ "checks": [check("login", "a"), check("login", "a")] }), "is checked twice"),
        (json!({ "checks": [] }), "there are 1 to 64 checks"),
        (json!({ "checks": [check("login", "a")], "then": {} }), "either \"commands\" or \"operations\""),
        (json!({ "checks": [check("login", "a")], "then": { "commands": [] } }), "commands"),
        (json!({ "checks": [check("login", "a")], "rule": "most" }), "unknown variant `most`"),
    ] {
        // All of them are on the object.
        if words.ends_with("'engine'") && differs("policies of rate limits") {
            assert_eq!(combined(&mut http, &body).json()["allowed"], true);
            continue;
        }
        combined(&mut http, &body).is_error(400, "bad_request", words);
    }
    combined(&mut http, &json!({ "checks": [check("nope", "a")] })).is_error(
        404,
        "not_found",
        "no policy 'nope'",
    );
}

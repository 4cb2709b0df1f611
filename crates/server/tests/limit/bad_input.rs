//! An invalid request gets an error with a code and changes nothing; tokens.

use crate::client::Http;
use crate::{Fixture, differs};

#[test]
fn errors_say_what_to_send_and_consume_nothing() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for (target, body, words) in [
        ("/limit/login", "", "send {\"key\":\"ada\""),
        ("/limit/login", "{", "line 1 column 1"),
        ("/limit/login", "[]", "send"),
        ("/limit/login", r#"["k",1,false]"#, "expected a JSON object"),
        ("/limit/login", "{}", "missing field `key`"),
        ("/limit/login", r#"{"key":1}"#, "a key: text"),
        ("/limit/login", r#"{"key":""}"#, "a key must not be empty"),
        ("/limit/login", r#"{"key":"k","cost":0}"#, "cost must be a whole number"),
        ("/limit/login", r#"{"key":"k","cost":-1}"#, "`-1`, expected a whole number"),
        ("/limit/login", r#"{"key":"k","cost":1.5}"#, "`1.5`, expected a whole number"),
        ("/limit/login", r#"{"key":"k","cost":9007199254740992}"#, "cost must be a whole number"),
        ("/limit/login", r#"{"key":"k","cost":"1"}"#, "send"),
        ("/limit/login", r#"{"key":"k","peek":1}"#, "send"),
        ("/limit/login", r#"{"key":"k","extra":1}"#, "unknown field `extra`"),
        ("/limit/login", r#"{"key":"k","key":"k"}"#, "duplicate field `key`"),
        ("/limit/login?status=500", r#"{"key":"k"}"#, "'status' is 200 or 429"),
        ("/limit/login?verbose=1", r#"{"key":"k"}"#, "'verbose' is unknown"),
        ("/limit/login/check", r#"{"keys":["k"]}"#, "send"),
        ("/limit/login/check", r#"{"keys":[{"key":"k"},{"key":"k","cost":0}]}"#, "cost must be"),
        ("/limit/login/reserve", r#"{"key":"k"}"#, "missing field `cost`"),
        ("/limit/login/reserve", r#"{"key":"k","cost":1,"ttlMs":0}"#, "ttlMs is"),
        ("/limit/jobs/reserve", r#"{"key":"k","cost":1}"#, "leases, not units"),
        ("/limit/login/check", r#"[[{"key":"k"}]]"#, "expected a JSON object"),
        ("/limit/login/check", r#"{"keys":[["k",1]]}"#, "expected a JSON object"),
        ("/limit/login/reserve", r#"["k",1]"#, "expected a JSON object"),
        ("/limit/login/settle", r#"["k",1,1]"#, "expected a JSON object"),
        ("/limit/jobs/acquire", r#"["k"]"#, "expected a JSON object"),
        ("/limit/jobs/release", r#"["k",1]"#, "expected a JSON object"),
        ("/limit", r#"["all",[{"policy":"login","key":"k"}]]"#, "expected a JSON object"),
        ("/limit", r#"{"checks":[["login","k"]]}"#, "expected a JSON object"),
        (
            "/limit",
            r#"{"checks":[{"policy":"login","key":"k"}],"then":[[["SET","a","1"]]]}"#,
            "expected a JSON object",
        ),
        (
            "/limit",
            r#"{"checks":[{"policy":"login","key":"k"}],"then":{"operations":[["put","a",1]]}}"#,
            "an operation is an object",
        ),
        ("/limit/jobs", r#"{"key":"k","cost":2}"#, "one lease at a time: leave cost out"),
        ("/limit/jobs", r#"{"key":"k","cost":2,"peek":true}"#, "one lease at a time"),
        ("/limit/jobs/check", r#"{"keys":[{"key":"k"},{"key":"k","cost":2}]}"#, "one lease at a time"),
        ("/limit", r#"{"checks":[{"policy":"jobs","key":"k","cost":2}]}"#, "one lease at a time"),
        ("/limit/", "{}", "/limit/POLICY"),
        ("/limit/login/a/b", "{}", "%2F"),
    ] {
        let response = http.post(target, body);
        response.is_error(400, "bad_request", words);
        for word in ["struct ", "u64", "tuple", "enum"] {
            assert!(!response.text().contains(word), "the name of a type: {}", response.text());
        }
    }
    let long = format!(r#"{{"key":"{}"}}"#, "k".repeat(33_000));
    http.post("/limit/login", &long).is_error(
        413,
        "too_large",
        "33017 bytes, with 'limit:login:gcra:' before it",
    );
    let words = match differs("policies of rate limits") {
        true => "set it in the variable LIMITS",
        false => "there are aside, flow, jobs",
    };
    http.post("/limit/nope", r#"{"key":"k"}"#).is_error(404, "not_found", words);
    http.post("/limit/login/nope", r#"{"key":"k"}"#).is_error(404, "not_found", "there is no action 'nope'");
    let (put, delete) =
        (http.ask("PUT", "/limit/login", &[], b"{}"), http.ask("DELETE", "/limit/login", &[], b""));
    match differs("a method that a path does not take") {
        true => assert_eq!((put.status, delete.status), (400, 400)),
        false => {
            assert_eq!(
                (put.status, delete.status, delete.header("allow")),
                (405, 405, Some("GET, POST, HEAD"))
            );
        }
    }
    let stands = http.get("/limit/login/k").json();
    assert_eq!(stands["remaining"], 3);
    assert_eq!(http.get("/limit/jobs/k").json()["remaining"], 2);
}

#[test]
fn a_whole_number_may_be_written_in_any_form() {
    let (_fixture, mut http) = Fixture::open(&[]);
    assert_eq!(http.check("window", r#"{"key":"k","cost":10}"#)["remaining"], 40);
    assert_eq!(http.check("window", r#"{"key":"k","cost":10.0}"#)["remaining"], 30);
    assert_eq!(http.check("window", r#"{"key":"k","cost":1e1}"#)["remaining"], 20);
    assert_eq!(http.check("jobs", r#"{"key":"k","cost":1.0}"#)["remaining"], 1);
    let body = r#"{"checks":[{"policy":"window","key":"k","cost":5.0}]}"#;
    assert_eq!(http.post("/limit", body).json()["remaining"], 15);
    let reserved = http.post("/limit/window/reserve", r#"{"key":"k","cost":5.0,"ttlMs":6e4}"#).json();
    assert_eq!((&reserved["remaining"], &reserved["reservation"]["cost"]), (&10.into(), &5.into()));
}

/// On several shards the keys of a request are checked in turn.
#[test]
fn a_key_of_another_kind_among_many_consumes_nothing_of_the_others() {
    let shards = if differs("several objects: limits of several keys") { "1" } else { "4" };
    let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
    let keys: Vec<_> = (0..16).map(|n| serde_json::json!({ "key": format!("k{n}") })).collect();
    let body = serde_json::json!({ "keys": keys }).to_string();
    for n in 0..16 {
        let key = format!("limit:window:fixedWindow:k{n}");
        http.post("/", &serde_json::json!(["SET", key, "x"]).to_string());
        http.post("/limit/window/check", &body).is_error(409, "wrong_type", "");
        http.post("/", &serde_json::json!(["DEL", key]).to_string());
    }
    let response = http.post("/limit/window/check", &body).json();
    for decision in response["decisions"].as_array().unwrap() {
        assert_eq!(decision["remaining"], 49, "{response}");
    }
}

#[test]
fn a_key_of_another_kind_is_not_touched() {
    let (_fixture, mut http) = Fixture::open(&[]);
    http.post("/", r#"["SET","limit:login:gcra:k","x"]"#);
    http.post("/limit/login", r#"{"key":"k"}"#).is_error(409, "wrong_type", "");
    assert_eq!(http.ask("DELETE", "/limit/login/k", &[], b"").status, 409);
    assert_eq!(http.get("/get/limit:login:gcra:k").json()["result"], "x");
}

#[test]
fn only_the_token_may_consume_and_a_read_only_token_may_peek() {
    let (fixture, mut http) = Fixture::open(&["--token", "t0ken", "--read-only-token", "l00k"]);
    let (all, look) = (["Authorization: Bearer t0ken"], ["Authorization: Bearer l00k"]);
    http.post("/limit/login", r#"{"key":"k"}"#).is_error(401, "unauthorized", "");
    let mut http = Http::connect(&fixture.server);
    http.ask("GET", "/limit", &[], b"").is_error(401, "unauthorized", "");
    let mut http = Http::connect(&fixture.server);
    assert_eq!(http.ask("POST", "/limit/login", &all, br#"{"key":"k"}"#).json()["remaining"], 2);
    for (method, target, body) in [
        ("POST", "/limit/login", r#"{"key":"k"}"#),
        ("POST", "/limit/login/check", r#"{"keys":[{"key":"k"}]}"#),
        ("POST", "/limit/login/reserve", r#"{"key":"k","cost":1}"#),
        ("POST", "/limit/login/settle", r#"{"key":"k","id":1,"cost":1}"#),
        ("POST", "/limit/jobs/acquire", r#"{"key":"k"}"#),
        ("POST", "/limit/jobs/release", r#"{"key":"k","leaseId":1}"#),
        ("POST", "/limit", r#"{"checks":[{"policy":"login","key":"k"}]}"#),
        ("DELETE", "/limit/login/k", ""),
    ] {
        http.ask(method, target, &look, body.as_bytes()).is_error(403, "forbidden", "may only read");
    }
    assert_eq!(http.ask("POST", "/limit/login", &look, br#"{"key":"k","peek":true}"#).json()["remaining"], 2);
    assert_eq!(http.ask("GET", "/limit/login/k", &look, b"").json()["remaining"], 2);
    let status = if differs("GET /limit, GET /limit/NAME") { 400 } else { 200 };
    assert_eq!(http.ask("GET", "/limit/login", &look, b"").status, status);
}

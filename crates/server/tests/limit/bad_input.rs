//! What is no request gets a typed refusal and changes nothing; tokens.

use crate::House;
use crate::client::Http;

#[test]
fn bad_requests_are_told_what_to_send_and_consume_nothing() {
    let (_house, mut http) = House::open(&[]);
    for (target, body, words) in [
        ("/limit/login", "", "send {\"key\":\"ada\""),
        ("/limit/login", "{", "line 1 column 1"),
        ("/limit/login", "[]", "send"),
        ("/limit/login", "{}", "missing field `key`"),
        ("/limit/login", r#"{"key":1}"#, "a key: text"),
        ("/limit/login", r#"{"key":""}"#, "a key must not be empty"),
        ("/limit/login", r#"{"key":"k","cost":0}"#, "cost must be a whole number"),
        ("/limit/login", r#"{"key":"k","cost":-1}"#, "send"),
        ("/limit/login", r#"{"key":"k","cost":1.5}"#, "send"),
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
        ("/limit/", "{}", "/limit/POLICY"),
        ("/limit/login/a/b", "{}", "%2F"),
    ] {
        http.post(target, body).refusal(400, "bad_request", words);
    }
    let long = format!(r#"{{"key":"{}"}}"#, "k".repeat(33_000));
    http.post("/limit/login", &long).refusal(413, "too_large", "max key size");
    http.post("/limit/nope", r#"{"key":"k"}"#).refusal(404, "not_found", "there are aside, flow, jobs");
    http.post("/limit/login/nope", r#"{"key":"k"}"#).refusal(404, "not_found", "there is no action 'nope'");
    assert_eq!(http.ask("PUT", "/limit/login", &[], b"{}").status, 405);
    let stands = http.get("/limit/login/k").json();
    assert_eq!(stands["remaining"], 3);
}

#[test]
fn a_key_of_another_kind_is_not_touched() {
    let (_house, mut http) = House::open(&[]);
    http.post("/", r#"["SET","limit:login:gcra:k","x"]"#);
    http.post("/limit/login", r#"{"key":"k"}"#).refusal(409, "wrong_type", "");
    assert_eq!(http.ask("DELETE", "/limit/login/k", &[], b"").status, 409);
    assert_eq!(http.get("/get/limit:login:gcra:k").json()["result"], "x");
}

#[test]
fn only_the_token_may_consume_and_one_that_reads_may_look() {
    let (house, mut http) = House::open(&["--token", "t0ken", "--read-only-token", "l00k"]);
    let (all, look) = (["Authorization: Bearer t0ken"], ["Authorization: Bearer l00k"]);
    http.post("/limit/login", r#"{"key":"k"}"#).refusal(401, "unauthorized", "");
    let mut http = Http::connect(&house.server);
    http.ask("GET", "/limit", &[], b"").refusal(401, "unauthorized", "");
    let mut http = Http::connect(&house.server);
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
        http.ask(method, target, &look, body.as_bytes()).refusal(403, "forbidden", "may only read");
    }
    assert_eq!(http.ask("POST", "/limit/login", &look, br#"{"key":"k","peek":true}"#).json()["remaining"], 2);
    assert_eq!(http.ask("GET", "/limit/login/k", &look, b"").json()["remaining"], 2);
    assert_eq!(http.ask("GET", "/limit/login", &look, b"").status, 200);
}

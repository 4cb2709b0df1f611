//! One version in all APIs; tokens; pages of other sites.

use serde_json::json;

use crate::client::Http;
use crate::resp::Client;
use crate::{differs, memory};

/// What SCAN finds of documents, on all shards.
fn scanned(redis: &mut Client, kind: &str) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let response = redis.ask(&format!("SCAN {cursor} COUNT 100 TYPE {kind}"));
        let (next, keys) = response[1..].split_once(" [").unwrap();
        found.extend(keys.trim_end_matches(']').split_whitespace().map(str::to_owned));
        next.clone_into(&mut cursor);
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn each_change_in_any_api_increments_the_one_version() {
    let shards = if differs("several objects: pipelines over several") { "1" } else { "4" };
    let server = memory(&["--shards", shards]);
    let (mut http, mut redis) = (Http::connect(&server), Client::connect(&server));
    // REST has another name for the type than Redis has over TCP.
    let of_json = if differs("Redis over TCP") { "+json" } else { "+ReJSON-RL" };
    http.put("/kv/a", r#"{"n":1}"#);
    redis.expect(&[
        ("TYPE a", of_json),
        ("TTL a", ":-1"),
        ("EXISTS a", ":1"),
        ("JSON.GET a", r#"{\"n\":1}"#),
    ]);
    assert_eq!(http.version("/kv/a"), 1, "looking changes nothing");
    redis.expect(&[("JSON.SET a $.n 2", "+OK")]);
    http.get("/kv/a").is(200, r#"{"key":"a","value":{"n":2},"version":2}"#);
    redis.expect(&[("JSON.NUMINCRBY a $.n 1", "[3]")]);
    assert_eq!(http.version("/kv/a"), 3);
    assert_eq!(http.post("/", r#"["JSON.MERGE","a","$","{\"m\":1}"]"#).status, 200);
    http.get("/kv/a").is(200, r#"{"key":"a","value":{"n":3,"m":1},"version":4}"#);
    redis.expect(&[("EXPIRE a 100", ":1")]);
    let after_expire = http.version("/kv/a");
    assert_eq!(after_expire, 5);
    assert!(http.get("/kv/a").json()["expiresAt"].is_u64());
    http.put("/kv/a?ifVersion=4", "1").expect_error(409, "conflict");
    assert_eq!(scanned(&mut redis, &of_json[1..]), ["a"]);
    redis.expect(&[("DEL a", ":1")]);
    http.get("/kv/a").expect_error(404, "not_found");
    redis.expect(&[("SET a text", "+OK"), ("APPEND a s", ":5")]);
    http.get("/kv/a").is(200, r#"{"key":"a","value":"texts","version":2}"#);
    http.put("/kv/a?ifVersion=2", "[]").is(200, r#"{"key":"a","value":[],"version":3}"#);
    redis.expect(&[("TYPE a", of_json), ("RPUSH list x", ":1")]);
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let body: &[u8] = if method == "GET" { b"" } else { b"1" };
        http.ask(method, "/kv/list", &[], body).expect_error(409, "wrong_type");
    }
    redis.expect(&[("LRANGE list 0 -1", "[x]"), ("FLUSHALL", "+OK")]);
    assert_eq!(http.get("/kv").text(), "[]\n");
}

#[test]
fn a_token_is_needed_and_a_read_only_token_reads() {
    let server = memory(&["--token", "s3cret", "--read-only-token", "look"]);
    let mut http = Http::connect(&server);
    let (all, look) = ("Authorization: Bearer s3cret", "Authorization: Bearer look");
    let requests = [
        ("PUT", "/kv/a", "1"),
        ("PATCH", "/kv/a", "1"),
        ("DELETE", "/kv/a", ""),
        ("POST", "/kv:batch", r#"{"operations":[{"op":"get","key":"a"}]}"#),
    ];
    for headers in [&[][..], &["Authorization: Bearer x"]] {
        for (method, target, body) in requests.into_iter().chain([("GET", "/kv/a", ""), ("GET", "/kv", "")]) {
            let response = http.ask(method, target, headers, body.as_bytes());
            response.expect_error(401, "unauthorized");
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        }
    }
    http.ask("PUT", "/kv/a", &[all], b"1").is(201, r#"{"key":"a","value":1,"version":1}"#);
    for (method, target, body) in requests.into_iter().chain([("GET", "/kv", "")]) {
        http.ask(method, target, &[look], body.as_bytes()).expect_error(403, "forbidden");
    }
    http.ask("GET", "/kv/a", &[look], b"").is(200, r#"{"key":"a","value":1,"version":1}"#);
    http.get("/kv/a?_token=look").is(200, r#"{"key":"a","value":1,"version":1}"#);
    if differs("wait=, event streams of documents") {
        let response = http.ask("GET", "/kv/a", &[look, "Accept: text/event-stream"], b"");
        response.expect_error(501, "unsupported");
        return;
    }
    let mut events = Http::connect(&server);
    events.send("GET", "/kv/a", &[look, "Accept: text/event-stream"], b"");
    assert_eq!(events.events_begin().next(), r#"{"key":"a","value":1,"version":1}"#);
}

#[test]
fn pages_need_a_token() {
    let server = memory(&["--token", "s3cret"]);
    let mut http = Http::connect(&server);
    let page = "Origin: https://example.com";
    let response = http.ask(
        "OPTIONS",
        "/kv/a",
        &[
            page,
            "Access-Control-Request-Method: PATCH",
            "Access-Control-Request-Headers: authorization,if-match",
        ],
        b"",
    );
    assert_eq!((response.status, response.header("access-control-allow-origin")), (204, Some("*")));
    assert_eq!(response.header("access-control-allow-headers"), Some("authorization,if-match"));
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        assert!(response.header("access-control-allow-methods").unwrap().contains(method), "{method}");
    }
    let response = http.ask("PUT", "/kv/a", &[page, "Authorization: Bearer s3cret"], b"1");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (201, Some("*")));
    let exposed = response.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("etag") && exposed.contains("keystead-cursor"), "{exposed}");
    if differs("no token") {
        return;
    }
    let open = memory(&[]);
    let mut http = Http::connect(&open);
    for (method, body) in [("GET", ""), ("PUT", "1"), ("DELETE", "")] {
        http.ask(method, "/kv/a", &[page], body.as_bytes()).expect_error(401, "unauthorized");
    }
    let response = http.ask("PUT", "/kv/a", &["Origin: http://localhost:3000"], b"1");
    assert_eq!((response.status, &response.json()["version"]), (201, &json!(1)));
}

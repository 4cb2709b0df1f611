//! Keys of any bytes, bodies that are not JSON, invalid requests, and sizes beyond the bounds.

use serde_json::json;

use crate::resp::Client;
use crate::stores::on_two_stores;
use crate::{differs, open};

#[test]
fn keys_are_any_bytes() {
    let (server, mut http) = open();
    for (path, name, redis) in [
        ("a%2Fb", json!("a/b"), "a/b"),
        ("%20+%3F%26", json!(" +?&"), " +?&"),
        ("%C3%BC", json!("\u{fc}"), "\u{fc}"),
        ("a:b@c", json!("a:b@c"), "a:b@c"),
    ] {
        let response = http.put(&format!("/kv/{path}"), "1");
        assert_eq!((response.status, &response.json()["key"]), (201, &name));
        assert_eq!(http.get(&format!("/kv/{path}")).json()["key"], name);
        assert_eq!(Client::connect(&server).ask_words(&["JSON.GET", redis]), "1");
    }
    let response = http.put("/kv/%00%ff%0D%0A", "2");
    assert_eq!((response.status, &response.json()["key"]), (201, &json!({ "base64": "AP8NCg==" })));
    http.get("/kv/%00%FF%0d%0a").is(200, r#"{"key":{"base64":"AP8NCg=="},"value":2,"version":1}"#);
    http.delete("/kv/%00%FF%0d%0a").is(204, "");
    for bad in ["/kv/", "/kv/a/b", "/kv/%", "/kv/%2", "/kv/%zz"] {
        for method in ["GET", "PUT", "DELETE"] {
            let body: &[u8] = if method == "GET" { b"" } else { b"1" };
            http.ask(method, bad, &[], body).expect_error(400, "bad_request");
        }
    }
}

#[test]
fn the_error_of_invalid_json_has_its_position() {
    on_two_stores(|http| {
        http.put("/kv/a", "1");
        for (body, place) in [
            ("", "line 1 column 0"),
            ("{\"a\":1,\n\"b\":}", "line 2 column 5"),
            ("nope", "line 1 column 2"),
            ("1 2", "line 1 column 3"),
            ("{\"a\":01}", "line 1 column"),
            ("\"\\ud800\"", "line 1 column"),
            ("NaN", "line 1 column 1"),
        ] {
            for method in ["PUT", "PATCH"] {
                let error = http.ask(method, "/kv/a", &[], body.as_bytes()).expect_error(400, "bad_request");
                assert!(error["message"].as_str().unwrap().contains(place), "{body:?}: {error}");
            }
        }
        let error = http.ask("PUT", "/kv/a", &[], b"\n\"ab\xff\"").expect_error(400, "bad_request");
        assert!(error["message"].as_str().unwrap().contains("line 2 column 4"), "{error}");
        let deep = "[".repeat(128) + &"]".repeat(128);
        http.put("/kv/a", &deep).expect_error(400, "bad_request");
        assert_eq!(http.put("/kv/deep", &deep[1..255]).status, 201);
        assert_eq!(http.version("/kv/a"), 1);
    });
}

#[test]
fn what_is_over_the_bounds_has_a_code() {
    let (_server, mut http) = open();
    let key = "k".repeat(32 * 1024);
    assert_eq!(http.put(&format!("/kv/{key}"), "1").status, 201);
    http.put(&format!("/kv/{key}k"), "1").expect_error(413, "too_large");
    let long = format!("\"{}\"", "x".repeat(10 * 1024 * 1024));
    let (_server, mut other) = open();
    other.put("/kv/a", &long).expect_error(413, "too_large");
    let name = format!("Idempotency-Key: {}", "n".repeat(256));
    http.ask("PUT", "/kv/a", &[&name], b"1").expect_error(400, "bad_request");
    http.ask("PUT", "/kv/a", &["Idempotency-Key:"], b"1").expect_error(400, "bad_request");
    if !differs("wait=, event streams of documents") {
        http.get("/kv/a?wait=301s").expect_error(400, "bad_request");
    }
    for limit in ["0", "10001", "x", "-1"] {
        http.get(&format!("/kv?limit={limit}")).expect_error(400, "bad_request");
    }
    assert_eq!(http.get("/kv/a").status, 404);
}

#[test]
fn invalid_requests_are_errors() {
    let (_server, mut http) = open();
    for target in ["/kv?nosuch=1", "/kv/a?nosuch=1", "/kv/a?prefix=x", "/kv?cursor=x", "/kv?values=perhaps"] {
        http.get(target).expect_error(400, "bad_request");
    }
    match differs("an invented cursor of GET /kv") {
        true => assert_eq!(http.get("/kv?cursor=255").status, 200),
        false => drop(http.get("/kv?cursor=255").expect_error(400, "bad_request")),
    }
    http.delete("/kv/a?ttl=1s").expect_error(400, "bad_request");
    match differs("wait=, event streams of documents") {
        true => http.get("/kv/a?sinceVersion=1").expect_error(501, "unsupported"),
        false => http.get("/kv/a?sinceVersion=1").expect_error(400, "bad_request"),
    };
    for (method, target, allow) in [
        ("POST", "/kv/a", "GET, HEAD, PUT, PATCH, DELETE"),
        ("PUT", "/kv", "GET, HEAD"),
        ("GET", "/kv:batch", "POST"),
    ] {
        let response = http.ask(method, target, &[], b"");
        if differs("a method that a path does not take") {
            response.expect_error(400, "bad_request");
            continue;
        }
        response.expect_error(405, "method_not_allowed");
        for word in allow.split(", ").filter(|word| *word != "HEAD") {
            assert!(response.header("allow").unwrap().contains(word), "{method} {target}: {response:?}");
        }
    }
}

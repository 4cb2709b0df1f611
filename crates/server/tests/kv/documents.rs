//! One document: read, replaced, patched, deleted; its tag, its expiry, its numbers.

use keystead_core::{Clock, SystemClock};

use crate::open;
use crate::resp::{Client, pause, until};
use crate::stores::on_two_stores;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

#[test]
fn a_document_is_created_replaced_read_and_deleted() {
    on_two_stores(|http| {
        http.get("/kv/a").expect_error(404, "not_found");
        let response = http.put("/kv/a", r#" {"n" : 1} "#);
        response.is(201, r#"{"key":"a","value":{"n":1},"version":1}"#);
        assert_eq!(response.header("etag"), Some("\"1\""));
        let response = http.put("/kv/a", "[1]");
        response.is(200, r#"{"key":"a","value":[1],"version":2}"#);
        assert_eq!(response.header("etag"), Some("\"2\""));
        let response = http.get("/kv/a");
        response.is(200, r#"{"key":"a","value":[1],"version":2}"#);
        assert_eq!(
            (response.header("etag"), response.header("content-type")),
            (Some("\"2\""), Some("application/json"))
        );
        let response = http.ask("HEAD", "/kv/a", &[], b"");
        assert_eq!((response.status, response.header("etag")), (200, Some("\"2\"")));
        http.delete("/kv/a").is(204, "");
        http.delete("/kv/a").expect_error(404, "not_found");
        http.get("/kv/a").expect_error(404, "not_found");
        // A key that is created again starts at version 1.
        http.put("/kv/a", "null").is(201, r#"{"key":"a","value":null,"version":1}"#);
    });
}

#[test]
fn an_unchanged_document_is_304() {
    on_two_stores(|http| {
        http.put("/kv/a", "1");
        for (known, status) in [
            ("\"1\"", 304),
            ("W/\"1\"", 304),
            ("\"7\", \"1\"", 304),
            ("*", 304),
            ("\"2\"", 200),
            ("\"x\"", 200),
        ] {
            let response = http.ask("GET", "/kv/a", &[&format!("If-None-Match: {known}")], b"");
            assert_eq!((response.status, response.header("etag")), (status, Some("\"1\"")), "{known}");
            assert_eq!(response.body.is_empty(), status == 304);
        }
        http.ask("GET", "/kv/a", &["If-Match: \"2\""], b"").expect_error(412, "conflict");
        assert_eq!(http.ask("GET", "/kv/a", &["If-Match: \"1\""], b"").status, 200);
    });
}

#[test]
fn a_patch_merges_the_members_of_two_objects_and_replaces_anything_else() {
    on_two_stores(|http| {
        http.patch("/kv/a", JSON, r#"{"a":{"b":1},"n":null}"#)
            .is(201, r#"{"key":"a","value":{"a":{"b":1},"n":null},"version":1}"#);
        http.patch("/kv/a", JSON, r#"{"a":{"c":2}}"#)
            .is(200, r#"{"key":"a","value":{"a":{"c":2},"n":null},"version":2}"#);
        http.patch("/kv/a", JSON, "[1]").is(200, r#"{"key":"a","value":[1],"version":3}"#);
        http.patch("/kv/a", "application/json; charset=utf-8", r#"{"x":1}"#)
            .is(200, r#"{"key":"a","value":{"x":1},"version":4}"#);
        // Without a media type it is JSON.
        http.ask("PATCH", "/kv/a", &[], br#"{"y":2}"#)
            .is(200, r#"{"key":"a","value":{"x":1,"y":2},"version":5}"#);
        http.patch("/kv/a", "text/plain", "{}").expect_error(415, "unsupported_media_type");
        assert_eq!(http.version("/kv/a"), 5);
    });
}

#[test]
fn a_merge_patch_is_that_of_rfc_7396() {
    on_two_stores(|http| {
        http.patch("/kv/a", MERGE, r#"{"a":1,"b":null}"#)
            .is(201, r#"{"key":"a","value":{"a":1},"version":1}"#);
        for (before, patch, after) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            http.put("/kv/b", before);
            let response = http.patch("/kv/b", MERGE, patch);
            let text = response.text();
            assert!(
                text.starts_with(&format!(r#"{{"key":"b","value":{after},"version":"#)),
                "{before} {patch}: {text}"
            );
        }
    });
}

#[test]
fn a_json_patch_is_that_of_rfc_6902_and_all_or_nothing() {
    on_two_stores(|http| {
        http.patch("/kv/a", OPERATIONS, r#"[{"op":"add","path":"/x","value":1}]"#)
            .expect_error(404, "not_found");
        http.put("/kv/a", r#"{"list":[1,2],"a~/b":1.50}"#);
        let patch = r#"[{"op":"test","path":"/a~0~1b","value":1.5},{"op":"add","path":"/list/1","value":9},
        {"op":"move","from":"/a~0~1b","path":"/m"},{"op":"copy","from":"/list/0","path":"/c"},
        {"op":"replace","path":"/list/0","value":null},{"op":"remove","path":"/list/2"}]"#;
        http.patch("/kv/a", OPERATIONS, patch)
            .is(200, r#"{"key":"a","value":{"list":[null,9],"m":1.50,"c":1},"version":2}"#);
        let half = r#"[{"op":"remove","path":"/m"},{"op":"test","path":"/c","value":2}]"#;
        let error = http.patch("/kv/a", OPERATIONS, half).expect_error(409, "conflict");
        assert_eq!(error["current"], 2);
        assert!(error["message"].as_str().unwrap().contains("test"), "{error}");
        let half = r#"[{"op":"remove","path":"/m"},{"op":"remove","path":"/nosuch"}]"#;
        http.patch("/kv/a", OPERATIONS, half).expect_error(422, "unprocessable");
        for bad in ["{}", r#"[{"op":"fly","path":""}]"#, r#"[{"op":"add","path":"x","value":1}]"#, "["] {
            http.patch("/kv/a", OPERATIONS, bad).expect_error(400, "bad_request");
        }
        let many = format!("[{}]", vec![r#"{"op":"test","path":"/c","value":1}"#; 1001].join(","));
        http.patch("/kv/a", OPERATIONS, &many).expect_error(400, "bad_request");
        http.get("/kv/a").is(200, r#"{"key":"a","value":{"list":[null,9],"m":1.50,"c":1},"version":2}"#);
        // A few short operations must not grow a document without bound.
        http.put("/kv/a", r#"{"a":["0123456789abcdef"]}"#);
        let grow = format!("[{}]", vec![r#"{"op":"copy","from":"/a","path":"/a/-"}"#; 500].join(","));
        http.patch("/kv/a", OPERATIONS, &grow).expect_error(413, "too_large");
        assert_eq!(http.version("/kv/a"), 3);
    });
}

#[test]
fn numbers_keep_all_digits() {
    let (server, mut http) = open();
    for number in [
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1.10",
        "-0.0",
        "1e+400",
    ] {
        http.put("/kv/n", number);
        let response = http.patch("/kv/n", JSON, &format!(r#"{{"n":{number}}}"#));
        assert!(
            response.text().contains(&format!(r#""value":{{"n":{number}}}"#)),
            "{number}: {}",
            response.text()
        );
        http.patch("/kv/n", MERGE, r#"{"x":1}"#);
        assert!(http.get("/kv/n").text().contains(&format!(r#""n":{number},"#)));
        let read = Client::connect(&server).ask("JSON.GET n .n");
        assert_eq!(read, number);
    }
}

#[test]
fn an_expiry_is_set_kept_and_cleared() {
    let (server, mut http) = open();
    let mut redis = Client::connect(&server);
    let mut ttl = |expires: bool| {
        let ms: i64 = redis.ask("PTTL a").strip_prefix(':').unwrap().parse().unwrap();
        assert_eq!(ms > 0, expires, "{ms}");
        ms
    };
    http.put("/kv/a?ttl=30s", "1");
    assert!(ttl(true) <= 30_000);
    assert!(http.get("/kv/a").json()["expiresAt"].as_u64().is_some());
    http.put("/kv/a", "1");
    ttl(false);
    assert!(http.get("/kv/a").json().get("expiresAt").is_none());
    let at = SystemClock.now().0 + 100_000;
    let response = http.put(&format!("/kv/a?expiresAt={at}"), "1");
    assert_eq!(response.json()["expiresAt"], at);
    http.patch("/kv/a", JSON, "2");
    assert!(ttl(true) > 30_000, "a patch keeps it");
    http.put("/kv/a?ttl=keep", "3");
    assert!(ttl(true) > 30_000);
    http.patch("/kv/a?ttl=none", JSON, "4");
    ttl(false);
    http.patch("/kv/a?ttl=10s", JSON, "5");
    assert!(ttl(true) <= 10_000);
    let version = http.version("/kv/a");
    for bad in [
        "ttl=0s",
        "ttl=",
        "ttl=soon",
        "ttl=1s&expiresAt=9",
        "expiresAt=1",
        "expiresAt=x",
        "expiresAt=18446744073709551615",
    ] {
        http.put(&format!("/kv/a?{bad}"), "9").expect_error(400, "bad_request");
    }
    assert_eq!(http.version("/kv/a"), version);
    http.put("/kv/a?ttl=50ms", "6");
    until("the document expires", || http.get("/kv/a").status == 404);
    pause(1);
    http.put("/kv/a?ifVersion=8", "1").expect_error(409, "conflict");
    http.put("/kv/a", "1").is(201, r#"{"key":"a","value":1,"version":1}"#);
}

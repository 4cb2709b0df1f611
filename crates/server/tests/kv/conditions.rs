//! Conditional changes: 409 for a parameter, 412 for a header, and a failed condition changes nothing.

use serde_json::{Value, json};

use crate::stores::on_two_stores;
use crate::{differs, open};

#[test]
fn another_version_is_a_conflict_with_the_current_version() {
    on_two_stores(|http| {
        for (method, target) in [
            ("PUT", "/kv/a?ifVersion=1"),
            ("PATCH", "/kv/a?ifVersion=1"),
            ("DELETE", "/kv/a?ifVersion=1"),
            ("PUT", "/kv/a?ifVersion=0"),
        ] {
            let error = http.ask(method, target, &[], b"{}").expect_error(409, "conflict");
            assert_eq!(error["current"], Value::Null, "{method}");
            assert!(error.as_object().unwrap().contains_key("current"));
        }
        assert_eq!(http.get("/kv/a").status, 404, "nothing was created");
        http.put("/kv/a", "1");
        http.put("/kv/a?ifVersion=1", "2").is(200, r#"{"key":"a","value":2,"version":2}"#);
        for method in ["PUT", "PATCH", "DELETE"] {
            let error = http.ask(method, "/kv/a?ifVersion=1", &[], b"3").expect_error(409, "conflict");
            assert_eq!(error["current"], json!(2), "{method}");
        }
        http.ask("PATCH", "/kv/a?ifVersion=2", &[], b"3").is(200, r#"{"key":"a","value":3,"version":3}"#);
        http.delete("/kv/a?ifVersion=2").expect_error(409, "conflict");
        http.delete("/kv/a?ifVersion=3").is(204, "");
    });
}

#[test]
fn headers_do_the_same_and_fail_with_412() {
    on_two_stores(|http| {
        let create = ["If-None-Match: *"];
        http.ask("PUT", "/kv/a", &["If-Match: *"], b"1").expect_error(412, "conflict");
        http.ask("PUT", "/kv/a", &create, b"1").is(201, r#"{"key":"a","value":1,"version":1}"#);
        let error = http.ask("PUT", "/kv/a", &create, b"2").expect_error(412, "conflict");
        assert_eq!(error["current"], 1);
        http.ask("PATCH", "/kv/a", &create, b"2").expect_error(412, "conflict");
        http.ask("PUT", "/kv/a", &["If-Match: *"], b"2").is(200, r#"{"key":"a","value":2,"version":2}"#);
        http.ask("PUT", "/kv/a", &["If-Match: \"2\""], b"3").is(200, r#"{"key":"a","value":3,"version":3}"#);
        http.ask("PUT", "/kv/a", &["If-Match: \"1\", \"3\""], b"4")
            .is(200, r#"{"key":"a","value":4,"version":4}"#);
        http.ask("PUT", "/kv/a", &["If-Match: \"1\"", "If-Match: \"4\""], b"5")
            .is(200, r#"{"key":"a","value":5,"version":5}"#);
        for header in ["If-Match: \"1\"", "If-Match: W/\"5\"", "If-Match: \"x\""] {
            for method in ["PUT", "PATCH", "DELETE"] {
                let error = http.ask(method, "/kv/a", &[header], b"9").expect_error(412, "conflict");
                assert_eq!(error["current"], 5, "{method} {header}");
            }
        }
        http.ask("PUT", "/kv/a?ifVersion=5", &["If-Match: \"5\""], b"6")
            .is(200, r#"{"key":"a","value":6,"version":6}"#);
        http.ask("PUT", "/kv/a?ifVersion=5", &["If-Match: \"5\""], b"6").expect_error(409, "conflict");
        http.ask("DELETE", "/kv/a", &["If-Match: \"6\""], b"").is(204, "");
    });
}

#[test]
fn contradictory_or_invalid_conditions_are_errors() {
    on_two_stores(|http| {
        http.put("/kv/a", "1");
        for (target, headers) in [
            ("/kv/a?ifVersion=1", &["If-Match: \"2\""][..]),
            ("/kv/a?ifVersion=1", &["If-Match: *"]),
            ("/kv/a?ifVersion=1", &["If-None-Match: *"]),
            ("/kv/a", &["If-Match: \"1\"", "If-None-Match: *"]),
            ("/kv/a", &["If-None-Match: \"1\""]),
            ("/kv/a", &["If-Match: 1"]),
            ("/kv/a?ifVersion=x", &[]),
            ("/kv/a?ifVersion=-1", &[]),
            ("/kv/a?ifVersion=", &[]),
            ("/kv/a?ifVersion=1&ifVersion=1", &[]),
            ("/kv/a?ifversion=9", &[]),
            ("/kv/a?ifVersion=99999999999999999999", &[]),
        ] {
            for method in ["PUT", "PATCH", "DELETE"] {
                http.ask(method, target, headers, b"2").expect_error(400, "bad_request");
            }
        }
        http.get("/kv/a").is(200, r#"{"key":"a","value":1,"version":1}"#);
        // Also of requests that only read, or wait.
        for target in ["/kv/a", "/kv/none", "/kv/a?wait=10ms"] {
            for header in ["If-Match: 1", "If-Match: \"1", "If-None-Match: \"1\" \"2\"", "If-None-Match: W/1"]
            {
                http.ask("GET", target, &[header], b"").expect_error(400, "bad_request");
            }
        }
    });
}

#[test]
fn waiting_requests_have_conditions_too() {
    let (_server, mut http) = open();
    http.put("/kv/a", "1");
    if differs("wait=, event streams of documents") {
        for target in ["/kv/a?wait=30s", "/kv/a?wait=10ms&sinceVersion=1", "/kv/none?wait=10ms"] {
            http.ask("GET", target, &["If-Match: \"7\""], b"").expect_error(501, "unsupported");
        }
        return;
    }
    for target in ["/kv/a", "/kv/a?wait=30s", "/kv/a?wait=10ms&sinceVersion=1"] {
        let error = http.ask("GET", target, &["If-Match: \"7\""], b"").expect_error(412, "conflict");
        assert_eq!(error["current"], 1, "{target}");
        assert_eq!(http.ask("GET", target, &["If-None-Match: \"7\", W/\"1\""], b"").status, 304, "{target}");
    }
    assert_eq!(http.ask("GET", "/kv/a?wait=30s", &["If-Match: \"a,b\", \"1\""], b"").status, 200);
    http.ask("GET", "/kv/none?wait=10ms", &["If-Match: *"], b"").expect_error(412, "conflict");
}

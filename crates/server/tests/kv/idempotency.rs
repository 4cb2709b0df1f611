//! `Idempotency-Key`: a repeat gets the first response and changes nothing, another request with that key is an error.

use crate::client::{Http, Response};
use crate::{differs, memory, open};

pub(crate) const NAME: [&str; 1] = ["Idempotency-Key: n-1"];

pub(crate) fn same(first: &Response, again: &Response) {
    assert_eq!((first.status, first.text()), (again.status, again.text()));
    assert_eq!(first.header("etag"), again.header("etag"));
}

#[test]
fn a_repeat_gets_the_first_response_and_changes_nothing() {
    let (_server, mut http) = open();
    let first = http.ask("PUT", "/kv/a", &NAME, b"1");
    first.is(201, r#"{"key":"a","value":1,"version":1}"#);
    http.put("/kv/a", "2");
    same(&first, &http.ask("PUT", "/kv/a", &NAME, b"1"));
    http.get("/kv/a").is(200, r#"{"key":"a","value":2,"version":2}"#);
    for (method, target, headers, body) in [
        ("PUT", "/kv/a", &NAME[..], "3"),
        ("PATCH", "/kv/a", &NAME, "1"),
        ("PUT", "/kv/b", &NAME, "1"),
        ("PUT", "/kv/a?ifVersion=2", &NAME, "1"),
        ("PUT", "/kv/a", &[NAME[0], "If-Match: \"2\""], "1"),
        ("DELETE", "/kv/a", &NAME, ""),
        ("POST", "/kv:batch", &NAME, r#"{"operations":[{"op":"put","key":"a","value":1}]}"#),
    ] {
        http.ask(method, target, headers, body.as_bytes()).expect_error(422, "unprocessable");
    }
    http.get("/kv/a").is(200, r#"{"key":"a","value":2,"version":2}"#);
    assert_eq!(http.get("/kv/b").status, 404);
    assert_eq!(http.get("/kv").text(), "[\"a\"]\n", "what is noted of a request is no document");
}

#[test]
fn errors_deletes_and_batches_are_repeated_too() {
    let (_server, mut http) = open();
    let conflict = http.ask("PUT", "/kv/a?ifVersion=1", &NAME, b"1");
    conflict.expect_error(409, "conflict");
    http.put("/kv/a", "0");
    same(&conflict, &http.ask("PUT", "/kv/a?ifVersion=1", &NAME, b"1"));
    let name = ["Idempotency-Key: n-2"];
    let deleted = http.ask("DELETE", "/kv/a", &name, b"");
    deleted.is(204, "");
    http.put("/kv/a", "5");
    same(&deleted, &http.ask("DELETE", "/kv/a", &name, b""));
    assert_eq!(http.version("/kv/a"), 1);
    let name = ["Idempotency-Key: n-3"];
    let body = br#"{"operations":[{"op":"patch","key":"a","value":6},{"op":"put","key":"b","value":1}]}"#;
    let first = http.ask("POST", "/kv:batch", &name, body);
    assert_eq!(first.status, 200);
    same(&first, &http.ask("POST", "/kv:batch", &name, body));
    assert_eq!((http.version("/kv/a"), http.version("/kv/b")), (2, 1));
    let name = ["Idempotency-Key: n-4"];
    let body = br#"{"operations":[{"op":"patch","key":"a","value":7},{"op":"delete","key":"c"}]}"#;
    let first = http.ask("POST", "/kv:batch", &name, body);
    first.expect_error(404, "not_found");
    http.put("/kv/c", "1");
    if differs("the response to a /kv:batch that failed, with an Idempotency-Key") {
        assert_eq!(http.ask("POST", "/kv:batch", &name, body).status, 200);
        assert_eq!((http.version("/kv/a"), http.version("/kv/c")), (3, 0));
        return;
    }
    same(&first, &http.ask("POST", "/kv:batch", &name, body));
    assert_eq!(
        (http.version("/kv/a"), http.version("/kv/c")),
        (2, 1),
        "the batch was undone, its response stored"
    );
}

#[test]
fn a_key_is_claimed_on_all_shards() {
    let server = memory(&["--shards", "16"]);
    let mut http = Http::connect(&server);
    let first = http.ask("PUT", "/kv/a", &NAME, b"1");
    if differs("several objects: an Idempotency-Key") {
        let mut fresh = |n: i32| http.ask("PUT", &format!("/kv/k{n}"), &NAME, b"1").status == 201;
        let count = (0..40).filter(|n| fresh(*n)).count();
        assert_eq!(count, 11, "one in each other object that has any of the keys");
        return;
    }
    for n in 0..40 {
        http.ask("PUT", &format!("/kv/k{n}"), &NAME, b"1").expect_error(422, "unprocessable");
    }
    same(&first, &http.ask("PUT", "/kv/a", &NAME, b"1"));
    assert_eq!(http.get("/kv").text(), "[\"a\"]\n");
}

#[test]
fn of_many_repeats_at_once_one_runs() {
    let server = memory(&["--shards", "4"]);
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let mut http = Http::connect(&server);
            std::thread::spawn(move || http.ask("PATCH", "/kv/a", &NAME, b"{}").text().to_owned())
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().trim_end(), r#"{"key":"a","value":{},"version":1}"#);
    }
    assert_eq!(Http::connect(&server).version("/kv/a"), 1);
}

//! `Idempotency-Key`: a repeat gets the first response and consumes nothing, another request with that key is an error.

use serde_json::json;

use crate::client::Http;
use crate::{Fixture, differs};

pub(crate) const NAME: [&str; 1] = ["Idempotency-Key: n-1"];

pub(crate) fn left(http: &mut Http, policy: &str) -> u64 {
    http.get(&format!("/limit/{policy}/k")).json()["remaining"].as_u64().unwrap()
}

#[test]
fn a_repeat_consumes_nothing_and_gets_the_same_response() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        for (n, (target, body)) in [
            ("/limit/window", r#"{"key":"k"}"#),
            ("/limit/window/check", r#"{"keys":[{"key":"k","cost":2}]}"#),
            ("/limit/window/reserve", r#"{"key":"k","cost":3}"#),
            ("/limit", r#"{"checks":[{"policy":"window","key":"k"}],"then":{"commands":[["INCR","{limit:window:fixedWindow:k}"]]}}"#),
            ("/limit/jobs/acquire", r#"{"key":"k"}"#),
            ("/limit/jobs/release", r#"{"key":"k","leaseId":1}"#),
        ]
        .into_iter()
        .enumerate()
        {
            let name = [&*format!("Idempotency-Key: n-{n}")];
            let first = http.ask("POST", target, &name, body.as_bytes());
            assert_eq!(first.status, 200, "{target}: {}", first.text());
            let stands = (left(&mut http, "window"), left(&mut http, "jobs"));
            for _ in 0..3 {
                let again = http.ask("POST", target, &name, body.as_bytes());
                assert_eq!((again.status, again.text()), (first.status, first.text()), "{target}");
            }
            assert_eq!((left(&mut http, "window"), left(&mut http, "jobs")), stands, "{target}");
            let other = http.ask("POST", target, &name, format!("{body} ").as_bytes());
            other.is_error(422, "unprocessable", "used for another request");
        }
        assert_eq!(left(&mut http, "window"), 50 - 1 - 2 - 3 - 1);
        if !differs("GET /limit, GET /limit/NAME") {
            // A repeated check is counted once.
            assert_eq!(http.get("/limit/window").json()["allowed"], 4);
        }
    }
}

#[test]
fn a_repeated_settlement_settles_once() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let id =
        http.post("/limit/window/reserve", r#"{"key":"k","cost":40}"#).json()["reservation"]["id"].clone();
    let body = json!({ "key": "k", "id": id, "cost": 10 }).to_string();
    let first = http.ask("POST", "/limit/window/settle", &NAME, body.as_bytes());
    assert_eq!(first.json()["remaining"], 40);
    http.check("window", r#"{"key":"k","cost":5}"#);
    let again = http.ask("POST", "/limit/window/settle", &NAME, body.as_bytes());
    assert_eq!((again.status, again.text()), (200, first.text()));
    http.post("/limit/window/settle", &body).is_error(404, "not_found", "no such reservation");
}

#[test]
fn a_hundred_repeats_at_once_consume_one() {
    let (fixture, mut http) = Fixture::open(&["--shards", "4"]);
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let mut http = Http::connect(&fixture.server);
            std::thread::spawn(move || {
                http.ask("POST", "/limit/window", &NAME, br#"{"key":"k"}"#).text().to_owned()
            })
        })
        .collect();
    let mut responses: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    responses.dedup();
    assert_eq!((responses.len(), left(&mut http, "window")), (1, 49));
}

#[test]
fn a_key_is_an_error_where_the_response_cannot_be_stored_with_the_decision() {
    let (_fixture, mut http) = Fixture::open(&["--shards", "4"]);
    for (target, body, words) in [
        ("/limit/memory", r#"{"key":"k"}"#, "needs policies on the store 'engine'"),
        ("/limit/aside", r#"{"key":"k"}"#, "needs policies on the store 'engine'"),
        ("/limit", r#"{"checks":[{"policy":"window","key":"k"},{"policy":"memory","key":"k"}]}"#, "'engine'"),
        (
            "/limit/window/check",
            r#"{"keys":[{"key":"a"},{"key":"b"},{"key":"c"},{"key":"d"}]}"#,
            "the same {tag}",
        ),
        (
            "/limit",
            r#"{"checks":[{"policy":"window","key":"{a}"},{"policy":"login","key":"{b}"}]}"#,
            "with an Idempotency-Key all keys must be on one shard: give them the same {tag}",
        ),
    ] {
        let words = match words.starts_with("with an Idempotency-Key") {
            true if differs("several objects: limits of several keys") => "the same {tag}",
            _ if words.contains("'engine'") && differs("policies of rate limits") => continue,
            _ => words,
        };
        http.ask("POST", target, &NAME, body.as_bytes()).is_error(400, "bad_request", words);
    }
    assert_eq!((left(&mut http, "window"), left(&mut http, "memory")), (50, 50));
    let peek = http.ask("POST", "/limit/memory", &NAME, br#"{"key":"k","peek":true}"#);
    assert_eq!(peek.status, 200, "what only looks may be sent as often as one likes");
}

#[test]
fn a_repeat_has_the_headers_of_its_decision() {
    let policies = "[limit.one]\nkind = \"fixedWindow\"\nlimit = 1\nwindowMs = \"1d\"\nfail = \"closed\"\n\
                    headers = [\"plain\", \"structured\", \"legacy\"]\n\
                    [limit.plain]\nlimit = 9\nperiodMs = \"1d\"\nfail = \"closed\"\n";
    for shards in ["1", "4"] {
        let fixture = Fixture::with(policies, &["--durability", "memory", "--shards", shards]);
        let mut http = Http::connect(&fixture.server);
        for (n, (target, body)) in [
            ("/limit/one", r#"{"key":"{k}"}"#),
            ("/limit/one/reserve", r#"{"key":"{k}","cost":1}"#),
            ("/limit", r#"{"checks":[{"policy":"plain","key":"{k}"},{"policy":"one","key":"{k}"}]}"#),
        ]
        .into_iter()
        .enumerate()
        {
            http.check("one", r#"{"key":"{k}"}"#);
            let name = [&*format!("Idempotency-Key: n-{n}")];
            let target = format!("{target}?status=429");
            let first = http.ask("POST", &target, &name, body.as_bytes());
            let again = http.ask("POST", &target, &name, body.as_bytes());
            assert_eq!((first.status, again.status, again.text()), (429, 429, first.text()), "{target}");
            assert!(again.header("ratelimit-reset").is_some(), "{target}: {again:?}");
            for name in [
                "retry-after",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-policy",
                "x-ratelimit-reset",
            ] {
                let is_plain = !matches!(name, "ratelimit-policy" | "x-ratelimit-reset");
                if !is_plain && differs("policies of rate limits") {
                    continue;
                }
                assert!(first.header(name).is_some(), "{target}: {name}");
                assert_eq!(first.header(name), again.header(name), "{target}: {name}");
            }
        }
    }
}

#[test]
fn a_request_that_fails_releases_its_key_on_any_shard() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        http.post("/", r#"["SET","limit:window:fixedWindow:bad","x"]"#);
        for n in 0..16 {
            let name = [&*format!("Idempotency-Key: n-{n}")];
            for (target, bad, good) in [
                ("/limit/window", r#"{"key":"bad"}"#, r#"{"key":"k"}"#),
                (
                    "/limit",
                    r#"{"checks":[{"policy":"window","key":"bad"}]}"#,
                    r#"{"checks":[{"policy":"window","key":"k"}]}"#,
                ),
            ] {
                let name = [&*format!("{}{target}", name[0])];
                http.ask("POST", target, &name, bad.as_bytes()).is_error(409, "wrong_type", "");
                let response = http.ask("POST", target, &name, good.as_bytes());
                assert_eq!(response.status, 200, "{shards} shards, {name:?}: {}", response.text());
                let again = http.ask("POST", target, &name, bad.as_bytes());
                // The key of the bad request is in another object.
                match shards != "1" && differs("several objects: an Idempotency-Key") {
                    true => again.is_error(409, "wrong_type", ""),
                    false => again.is_error(422, "unprocessable", "another request"),
                }
            }
        }
        assert_eq!(left(&mut http, "window"), 50 - 32);
    }
}

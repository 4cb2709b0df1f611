//! One key, many keys, peek, reset, statuses and headers.

use serde_json::json;

use crate::{Fixture, differs};

/// Each on its own store: the database, memory, another database.
const ON_EVERY_STORE: [(&str, u64); 4] = [("login", 3), ("window", 50), ("memory", 50), ("aside", 50)];

#[test]
fn a_limit_admits_so_many_and_no_more_on_every_store() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        for (policy, limit) in ON_EVERY_STORE {
            for left in (0..limit).rev() {
                let decision = http.check(policy, r#"{"key":"ada"}"#);
                assert_eq!(
                    (
                        &decision["allowed"],
                        &decision["remaining"],
                        &decision["limit"],
                        &decision["retryAfterMs"]
                    ),
                    (&json!(true), &json!(left), &json!(limit), &json!(0)),
                    "{policy}"
                );
            }
            for _ in 0..3 {
                let decision = http.check(policy, r#"{"key":"ada"}"#);
                assert_eq!((&decision["allowed"], &decision["remaining"]), (&json!(false), &json!(0)));
                assert!(decision["retryAfterMs"].as_u64().unwrap() > 0);
            }
            assert_eq!(
                http.check(policy, r#"{"key":"bob"}"#)["allowed"],
                true,
                "another key is another count"
            );
        }
    }
}

#[test]
fn a_cost_counts_and_one_that_does_not_fit_consumes_nothing() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for policy in ["window", "memory", "aside"] {
        assert_eq!(http.check(policy, r#"{"key":"k","cost":40}"#)["remaining"], 10);
        let denied = http.check(policy, r#"{"key":"k","cost":11}"#);
        assert_eq!((&denied["allowed"], &denied["remaining"]), (&json!(false), &json!(10)));
        assert_eq!(http.check(policy, r#"{"key":"k","cost":10}"#)["allowed"], true);
    }
}

#[test]
fn peeks_consume_nothing() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for (policy, limit) in ON_EVERY_STORE {
        for _ in 0..3 {
            let stands = http.check(policy, r#"{"key":"k","peek":true}"#);
            assert_eq!((&stands["allowed"], &stands["remaining"]), (&json!(true), &json!(limit)), "{policy}");
            assert_eq!(http.get(&format!("/limit/{policy}/k")).json()["remaining"], limit);
        }
        let beyond = format!(r#"{{"key":"k","cost":{},"peek":true}}"#, limit + 1);
        let stands = http.check(policy, &beyond);
        assert_eq!((&stands["allowed"], &stands["remaining"]), (&json!(false), &json!(limit)), "{policy}");
    }
}

#[test]
fn a_reset_restores_the_whole_limit() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        for (policy, _) in ON_EVERY_STORE {
            while http.check(policy, r#"{"key":"a/b"}"#)["allowed"] == true {}
            let reset = |http: &mut crate::client::Http| {
                http.ask("DELETE", &format!("/limit/{policy}/a%2Fb"), &[], b"")
            };
            assert_eq!(reset(&mut http).text(), "{\"reset\":true}\n");
            assert_eq!(reset(&mut http).text(), "{\"reset\":false}\n", "{policy}");
            assert_eq!(http.check(policy, r#"{"key":"a/b"}"#)["allowed"], true);
        }
    }
}

#[test]
fn many_keys_are_checked_at_one_instant_in_their_order() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        for (policy, limit) in ON_EVERY_STORE {
            if shards != "1" && differs("several objects: limits of several keys") {
                let body = r#"{"keys":[{"key":"a"},{"key":"b"},{"key":"c"},{"key":"d"}]}"#;
                let response = http.post(&format!("/limit/{policy}/check"), body);
                response.is_error(400, "bad_request", "the same {tag}");
                continue;
            }
            let body = format!(
                r#"{{"keys":[{{"key":"a"}},{{"key":"b","cost":{limit}}},{{"key":"c","cost":{}}},{{"key":"b"}},{{"key":{{"base64":"/w=="}}}}]}}"#,
                limit + 1
            );
            let response = http.post(&format!("/limit/{policy}/check"), &body).json();
            let decisions = response["decisions"].as_array().unwrap();
            let allowed: Vec<bool> = decisions.iter().map(|one| one["allowed"] == true).collect();
            assert_eq!(allowed, [true, true, false, false, true], "{policy}: {response}");
            // The same instant: keys in the same state have the same decision.
            assert_eq!(decisions[0], decisions[4], "{policy}");
        }
    }
}

#[test]
fn a_denial_is_429_if_the_query_says_so_and_always_has_retry_after() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for n in 0..5 {
        let response = http.post("/limit/login?status=429", r#"{"key":"k"}"#);
        assert_eq!(response.status, if n < 3 { 200 } else { 429 });
        assert_eq!(response.json()["allowed"], n < 3);
        assert_eq!(response.header("retry-after").is_some(), n >= 3);
    }
    let response = http.post("/limit/login", r#"{"key":"k"}"#);
    // Without a setting, the server adds none of its headers, and the worker adds the plain ones.
    let limit = differs("policies of rate limits").then_some("3");
    assert_eq!((response.status, response.header("ratelimit-limit")), (200, limit));
    let seconds: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, response.json()["retryAfterMs"].as_u64().unwrap().div_ceil(1000));
}

#[test]
fn headers_are_those_of_the_policy() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let response = http.post("/limit/memory", r#"{"key":"k","cost":20}"#);
    for (name, value) in [("ratelimit-limit", "50"), ("ratelimit-remaining", "30")] {
        assert_eq!(response.header(name), Some(value));
    }
    if differs("policies of rate limits") {
        for name in ["x-ratelimit-remaining", "ratelimit-policy", "ratelimit", "retry-after"] {
            assert_eq!(response.header(name), None, "{name}");
        }
        return;
    }
    assert_eq!(response.header("x-ratelimit-remaining"), Some("30"));
    assert_eq!(response.header("ratelimit-policy"), Some("\"memory\";q=50;w=50000"));
    assert!(response.header("ratelimit").unwrap().starts_with("\"memory\";r=30;t="));
    assert_eq!(response.header("retry-after"), None);
}

#[test]
fn a_shaper_returns_the_delay() {
    let (_fixture, mut http) = Fixture::open(&[]);
    assert_eq!(http.check("flow", r#"{"key":"k","cost":2}"#)["delayMs"], 0);
    let second = http.check("flow", r#"{"key":"k"}"#)["delayMs"].as_u64().unwrap();
    assert!((1..=2000).contains(&second), "{second}");
    assert_eq!(http.check("flow", r#"{"key":"k"}"#)["allowed"], false, "the queue is full");
}

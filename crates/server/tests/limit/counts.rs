//! Counts and metrics of policies.

use serde_json::json;

use crate::Fixture;

#[test]
fn allowed_denied_and_the_keys_that_are_denied_most_are_reported() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for (key, times) in [("often", 8), ("once", 4), ("never", 2)] {
        for _ in 0..times {
            http.check("login", &json!({ "key": key }).to_string());
        }
    }
    let policy = http.get("/limit/login").json();
    assert_eq!((&policy["allowed"], &policy["denied"], &policy["errors"]), (&json!(8), &json!(6), &json!(0)));
    assert_eq!(policy["topDenied"], json!([{ "key": "often", "denied": 5 }, { "key": "once", "denied": 1 }]));
    assert_eq!(policy["definition"], json!({ "limit": 3, "periodMs": "1h", "fail": "closed" }));
    let metrics = http.get("/metrics");
    for line in [
        "keystead_limit_checks_total{policy=\"login\",outcome=\"allowed\"} 8",
        "keystead_limit_checks_total{policy=\"login\",outcome=\"denied\"} 6",
        "keystead_limit_checks_total{policy=\"login\",outcome=\"error\"} 0",
        "keystead_limit_checks_total{policy=\"login\",outcome=\"failed_open\"} 0",
        "keystead_limit_check_duration_seconds_count{policy=\"login\"} 14",
        "keystead_limit_denied_key{policy=\"login\",key=\"often\"} 5",
        "keystead_limit_file_refused 0",
    ] {
        assert!(metrics.text().lines().any(|there| there == line), "{line}\n{}", metrics.text());
    }
}

#[test]
fn a_list_has_every_policy_and_no_secret() {
    let policies = crate::POLICIES.replace("sqlite:aside", "sqlite:aside-s3cret");
    let fixture = Fixture::with(&policies, &["--durability", "memory"]);
    let mut http = crate::client::Http::connect(&fixture.server);
    let response = http.get("/limit");
    let names: Vec<String> = response.json()["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|policy| policy["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["aside", "flow", "jobs", "login", "memory", "window"]);
    assert_eq!(response.json()["policies"][0]["store"], "sqlite");
    assert!(!response.text().contains("s3cret"));
}

#[test]
fn a_combination_that_is_denied_is_counted_where_it_was_denied() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let body = json!({ "checks": [{ "policy": "login", "key": "k", "cost": 9 }, { "policy": "window", "key": "k" }] });
    http.post("/limit", &body.to_string());
    assert_eq!(http.get("/limit/login").json()["denied"], 1);
    let window = http.get("/limit/window").json();
    assert_eq!((&window["allowed"], &window["denied"]), (&json!(0), &json!(0)), "it was not asked to decide");
}

#[test]
fn the_duration_of_a_request_for_many_keys_is_counted_once() {
    let (_fixture, mut http) = Fixture::open(&["--shards", "4"]);
    http.post("/limit/window/check", r#"{"keys":[{"key":"a"},{"key":"b"},{"key":"c"}]}"#);
    let body = r#"{"checks":[{"policy":"window","key":"a"},{"policy":"window","key":"b"}]}"#;
    http.post("/limit", body);
    let metrics = http.get("/metrics");
    for line in [
        "keystead_limit_checks_total{policy=\"window\",outcome=\"allowed\"} 5",
        "keystead_limit_check_duration_seconds_count{policy=\"window\"} 2",
    ] {
        assert!(metrics.text().lines().any(|there| there == line), "{line}\n{}", metrics.text());
    }
}

#[test]
fn denied_keys_have_whole_characters_and_stay_distinct() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let long = "k".to_owned() + &"é".repeat(100);
    for (key, denied) in
        [(json!(long), 3), (json!({ "base64": "/w==" }), 2), (json!({ "base64": "/g==" }), 1)]
    {
        for _ in 0..3 + denied {
            http.check("login", &json!({ "key": key }).to_string());
        }
    }
    let cut = "k".to_owned() + &"é".repeat(63);
    assert_eq!(
        http.get("/limit/login").json()["topDenied"],
        json!([
            { "key": cut, "denied": 3 },
            { "key": { "base64": "/w==" }, "denied": 2 },
            { "key": { "base64": "/g==" }, "denied": 1 },
        ])
    );
    let metrics = http.get("/metrics");
    for (key, count) in [(&*cut, 3), ("base64:/w==", 2), ("base64:/g==", 1)] {
        let line = format!("keystead_limit_denied_key{{policy=\"login\",key=\"{key}\"}} {count}");
        assert!(metrics.text().lines().any(|there| there == line), "{line}\n{}", metrics.text());
    }
}

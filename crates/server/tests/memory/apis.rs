//! The limit over REST, `/kv` and `/limit`, and how health and metrics report it.

use crate::client::Http;
use crate::common::start_on;
use crate::resp::{Client, pause};
use crate::{KEYS, LIMIT, OOM, fill};

const POLICY: &str = "[limit.login]\nlimit = 3\nperiodMs = \"1h\"\nfail = \"closed\"\n";

#[test]
fn every_api_rejects_what_adds_memory_and_nothing_else() {
    let dir = crate::common::dir();
    let file = dir.path().join("keystead.toml");
    std::fs::write(&file, POLICY).unwrap();
    let data = dir.path().join("data");
    let arguments = ["--durability", "commit", "--memory", LIMIT, "--config", file.to_str().unwrap()];
    let server = start_on(&data, &arguments);
    let (mut client, mut http) = (Client::connect(&server), Http::connect(&server));
    assert_eq!(http.ask("PUT", "/kv/before", &[], b"1").status, 201);
    assert_eq!(http.post("/limit/login", r#"{"key":"before"}"#).status, 200);
    assert!(fill(&mut client, KEYS) > 0);

    let typed = |response: crate::client::Response| {
        let body = response.json();
        (response.status, body["error"]["code"].as_str().unwrap_or("none").to_owned())
    };
    let rejected = (507, "out_of_memory".to_owned());
    assert_eq!(typed(http.ask("PUT", "/kv/new", &[], b"1")), rejected);
    assert_eq!(typed(http.ask("PUT", "/kv/before", &[], b"2")), rejected);
    let patch = ["Content-Type: application/merge-patch+json"];
    assert_eq!(typed(http.ask("PATCH", "/kv/before", &patch, br#"{"a":1}"#)), rejected);
    // What it would change is nothing, but its response would be stored.
    assert_eq!(typed(http.ask("DELETE", "/kv/absent", &["Idempotency-Key: x"], b"")), rejected);
    assert_eq!(typed(http.post("/limit/login", r#"{"key":"new"}"#)), rejected);
    assert_eq!(http.get("/kv/before").json()["value"], 1);
    assert_eq!(http.post("/limit/login", r#"{"key":"before"}"#).json()["remaining"], 1, "a key that exists");

    let response = http.post("/", r#"["SET","rest","v"]"#);
    assert_eq!((response.status, response.error()), (507, OOM[1..].to_owned()));
    let both = http.post("/pipeline", r#"[["SET","rest","v"],["GET","key:0000000000"]]"#).json();
    assert_eq!((&both[0]["error"], &both[1]["result"]), (&OOM[1..].into(), &"v".into()));
    let response = http.post("/multi-exec", r#"[["DEL","key:0000000000"],["SET","rest","v"]]"#);
    assert_eq!((response.status, response.error()), (507, OOM[1..].to_owned()));
    assert_eq!(client.ask("EXISTS key:0000000000"), ":1");

    // The figures are those of the last batch.
    pause(300);
    let health = http.get("/healthz");
    assert_eq!((health.status, &health.json()["status"]), (200, &"degraded".into()));
    assert!(health.text().contains("the memory limit is reached"), "{health:?}");
    let metrics = http.get("/metrics");
    assert!(metrics.text().contains("keystead_memory_full{shard=\"0\"} 1"), "{}", metrics.text());
    assert!(client.ask("MEMORY DOCTOR").contains("reached the memory limit"));

    assert_eq!(http.ask("DELETE", "/kv/before", &[], b"").status, 204);
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    assert_eq!(http.ask("PUT", "/kv/new", &[], b"1").status, 201);
    pause(300);
    assert_eq!(http.get("/healthz").json()["status"], "ok");
}

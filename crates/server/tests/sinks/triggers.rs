//! What makes a sink write before its time is up, and what health and the ready block say of what waits.

use serde_json::{Value, json};

use crate::{File, Fixture, Http, Target, common, until};

/// A server whose first resynchronisation is over, and the rows that were written until then.
fn started(file: &File, more: &str) -> (Fixture, Http, u64) {
    let fixture = Fixture::start(file, more, &["--shards", "1"]);
    let mut http = fixture.http();
    http.settle();
    let rows = written(&mut http);
    (fixture, http, rows)
}

fn written(http: &mut Http) -> u64 {
    http.sink()["rows"].as_u64().unwrap()
}

fn waits(http: &mut Http, pending: u64) {
    until("the sink knows of it", || http.sink()["pending"] == json!(pending));
}

#[test]
fn a_batch_is_written_when_so_many_rows_wait() {
    let home = common::dir();
    let file = File::new(home.path());
    let (_fixture, mut http, before) = started(&file, "flushEvery = \"1h\"\nflushRows = 10");
    for n in 0..9 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    // Updates of the same key are one row.
    http.put("d:0", &json!("again"), "");
    waits(&mut http, 9);
    assert_eq!((written(&mut http), file.sql("SELECT count(*) FROM t")), (before, "0".to_owned()));
    http.put("d:9", &json!(9), "");
    until("the tenth row writes all", || file.sql("SELECT count(*) FROM t") == "10");
    until("they are counted", || written(&mut http) == before + 10);
}

#[test]
fn a_batch_is_written_when_so_many_bytes_wait() {
    let home = common::dir();
    let file = File::new(home.path());
    let (_fixture, mut http, before) = started(&file, "flushEvery = \"1h\"\nflushBytes = \"1mb\"");
    let value = |byte: &str| json!(byte.repeat(300_000));
    for n in 0..3 {
        http.put(&format!("d:{n}"), &value("x"), "");
    }
    // Updates replace what waits.
    for _ in 0..5 {
        http.put("d:0", &value("y"), "");
    }
    until("the sink knows of it", || http.sink()["changes"] == json!(8));
    assert_eq!((written(&mut http), file.sql("SELECT count(*) FROM t")), (before, "0".to_owned()));
    http.put("d:3", &value("x"), "");
    until("the fourth value writes all", || file.sql("SELECT count(*) FROM t") == "4");
    // Small values again: the size of those before does not count.
    let before = written(&mut http);
    for n in 0..20 {
        http.put(&format!("d:{n}"), &json!(n), "");
    }
    waits(&mut http, 20);
    assert_eq!(written(&mut http), before);
}

#[test]
fn health_shows_what_waits_and_is_degraded_when_it_waits_too_long() {
    let home = common::dir();
    let file = File::new(home.path());
    let (mut fixture, mut http, _) = started(&file, "flushEvery = \"1h\"");
    http.put("d:1", &json!(1), "");
    http.put("d:1", &json!(2), "");
    waits(&mut http, 1);
    let health = http.get("/healthz").json();
    assert_eq!(health["status"], json!("ok"), "it waits as it should: {health}");
    let sink = &health["sinks"]["s"];
    assert_eq!(
        (&sink["pending"], &sink["quarantined"], &sink["resyncing"]),
        (&json!(1), &json!(0), &json!(false))
    );
    http.flush();
    let sink = http.get("/healthz").json()["sinks"]["s"].clone();
    assert_eq!((&sink["pending"], &sink["coalescing"]), (&json!(0), &json!(2.0)), "{sink}");
    let mean = |sink: &Value| sink["flushMs"]["mean"].as_u64();
    assert!(mean(&sink).is_some() && sink["batches"].as_u64() > Some(0), "{sink}");
    assert!(fixture.server.stop().unwrap().success());

    fixture.server.restart().unwrap();
    let line = fixture.server.line("sinks");
    assert_eq!(line.as_deref(), Some("s to sqlite: at most 0 changes pending, 0 keys in quarantine"));
    // What is not flushed when the server is killed, and a target that is not there.
    let mut http = fixture.http();
    http.flush();
    http.put("d:1", &json!(3), "");
    http.put("d:2", &json!(1), "");
    fixture.server.kill().unwrap();
    fixture.server.restart().unwrap();
    let line = fixture.server.line("sinks").unwrap();
    let pending = line.strip_prefix("s to sqlite: at most ").and_then(|rest| rest.split(' ').next());
    assert!(pending.and_then(|count| count.parse::<u64>().ok()) >= Some(2), "{line}");
    assert!(fixture.server.stop().unwrap().success());
    std::fs::rename(&file.0, home.path().join("away.db")).unwrap();
    std::fs::create_dir(&file.0).unwrap();
    fixture.server.restart().unwrap();
    assert_eq!(
        fixture.server.line("sinks").as_deref(),
        Some("s to sqlite: not reached yet, 0 keys in quarantine")
    );
}

#[test]
fn health_says_that_all_keys_are_written_and_that_a_target_is_behind() {
    let home = common::dir();
    let file = File::new(home.path());
    let (fixture, mut http, _) = started(&file, "flushEvery = \"10ms\"\nbehindAfter = \"100ms\"");
    // Somebody holds a lock: nothing fails, and nothing is written.
    let lock = rusqlite::Connection::open(&file.0).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    http.put("d:1", &json!(1), "");
    let has = |http: &mut Http, words: &str| {
        let health = http.get("/healthz").json();
        let reasons = health["reasons"].as_array().cloned().unwrap_or_default();
        let found = reasons.iter().any(|reason| reason.as_str().is_some_and(|reason| reason.contains(words)));
        assert!(!found || health["status"] == "degraded", "{health}");
        found
    };
    until("it is behind", || {
        has(&mut http, "sink.s: its target (sqlite) is behind: a change has waited for")
    });
    lock.execute_batch("ROLLBACK").unwrap();
    until("it is healthy again", || http.get("/healthz").json()["status"] == "ok");
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(http.post("/sinks/s/resync", "").status, 202);
    until("it says so", || has(&mut http, "sink.s: all keys are being written to its target (sqlite)"));
    assert_eq!(http.get("/healthz").json()["sinks"]["s"]["resyncing"], json!(true));
    lock.execute_batch("ROLLBACK").unwrap();
    until("it is healthy again", || http.get("/healthz").json()["status"] == "ok");
    assert_eq!(fixture.http().sink()["resyncs"], json!(2));
}

#[test]
fn with_a_token_health_has_no_counts() {
    let home = common::dir();
    let file = File::new(home.path());
    let token = "a-token-of-these-tests-that-is-long-enough";
    let fixture = Fixture::start(&file, "", &["--token", token]);
    let health = fixture.http().get("/healthz").json();
    assert_eq!(health["sinks"], Value::Null, "{health}");
    let header = format!("Authorization: Bearer {token}");
    let listed = fixture.http().ask("GET", "/sinks/s", &[&header], b"").json();
    assert!(listed["flushMs"]["last"].is_u64() && listed["coalescing"].is_null(), "{listed}");
}

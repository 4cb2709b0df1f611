//! Stores of policies: one that fails, one that cannot be opened yet, one whose parameters change.

use keystead_testkit::server::{Launch, Server};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::client::Http;
use crate::common::dir;
use crate::file::until;
use crate::{Fixture, write};

/// A policy on a database of its own in `dir`.
fn policy(name: &str, dir: &std::path::Path, parameters: &str, fail: &str) -> String {
    format!(
        "[limit.{name}]\nlimit = 50\nperiodMs = \"1d\"\nfail = \"{fail}\"\nstore = \"sqlite:{}{parameters}\"\n",
        dir.display()
    )
}

/// A server that gets an error when a file exceeds its size limit, instead of a signal.
fn with_file_size_errors(policies: &str) -> (Fixture, Http) {
    let home = dir();
    write(home.path(), policies);
    let server = Launch::new("/bin/sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_keystead")])
        .args(["--durability", "memory", "--config"])
        .arg(home.path().join("keystead.toml"))
        .start()
        .unwrap();
    let http = Http::connect(&server);
    (Fixture { server, home }, http)
}

/// From now on the server cannot write to a file.
fn fill_disk(server: &Server) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: Some(0), maximum: None }).unwrap();
}

#[test]
fn a_store_that_fails_is_reported_everywhere_and_failing_open_is_not_counted_as_allowed() {
    let aside = dir();
    let both = policy("fair", aside.path(), "?durability=commit", "open")
        + &policy("strict", aside.path(), "?durability=commit", "closed")
        + "[limit.here]\nlimit = 50\nperiodMs = \"1d\"\nfail = \"open\"\n";
    let (fixture, mut http) = with_file_size_errors(&both);
    for name in ["fair", "strict", "here"] {
        assert_eq!(http.check(name, r#"{"key":"k"}"#)["remaining"], 49);
    }
    assert_eq!(http.get("/healthz").json()["status"], "ok");
    fill_disk(&fixture.server);
    let passed = http.check("fair", r#"{"key":"k"}"#);
    assert_eq!((&passed["allowed"], &passed["failedOpen"]), (&json!(true), &json!(true)));
    let passed = http.post("/limit/fair/check", r#"{"keys":[{"key":"a"},{"key":"b"}]}"#).json();
    assert_eq!(passed["decisions"][1]["failedOpen"], true, "{passed}");
    http.post("/limit/strict", r#"{"key":"k"}"#).is_error(503, "store_unavailable", "");
    let list = http.get("/limit").json();
    let of = |n: usize| {
        let policy = &list["policies"][n];
        ["name", "allowed", "failedOpen", "denied", "errors", "storeBroken"].map(|name| policy[name].clone())
    };
    assert_eq!(of(0), [json!("fair"), json!(1), json!(3), json!(0), json!(0), json!(true)]);
    assert_eq!(of(1), [json!("here"), json!(1), json!(0), json!(0), json!(0), json!(false)]);
    assert_eq!(of(2), [json!("strict"), json!(1), json!(0), json!(0), json!(1), json!(true)]);
    let health = http.get("/healthz");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("degraded")));
    let why = |name| format!("limit.{name}: its store (sqlite) failed at the last check");
    assert_eq!(health.json()["reasons"], json!([why("fair"), why("strict")]));
    assert_eq!(http.get("/readyz").status, 200, "the rest goes on");
    assert_eq!(http.check("here", r#"{"key":"k"}"#)["remaining"], 48);
    let metrics = http.get("/metrics");
    for line in [
        r#"keystead_limit_checks_total{policy="fair",outcome="allowed"} 1"#,
        r#"keystead_limit_checks_total{policy="fair",outcome="failed_open"} 3"#,
        r#"keystead_limit_checks_total{policy="strict",outcome="error"} 1"#,
        r#"keystead_limit_store_broken{policy="fair",store="sqlite"} 1"#,
        r#"keystead_limit_store_broken{policy="strict",store="sqlite"} 1"#,
    ] {
        assert!(metrics.text().lines().any(|there| there == line), "{line}\n{}", metrics.text());
    }
    assert!(
        !metrics.text().contains("store_broken{policy=\"here\""),
        "the database has a health check of its own"
    );
}

#[test]
fn a_store_that_could_not_be_opened_is_tried_again_without_a_change_of_the_file() {
    let aside = dir();
    let (free, taken) = (aside.path().join("free"), aside.path().join("taken"));
    let fixture = Fixture::with("", &["--durability", "memory"]);
    std::fs::write(&taken, "no directory").unwrap();
    let both = policy("a", &free, "", "closed") + &policy("b", &taken, "", "closed");
    write(fixture.home.path(), &both);
    let list = until(&fixture, "a problem", |list| list["problem"].is_string());
    assert!(list["problem"].as_str().unwrap().contains("limit.b: store: "), "{list}");
    assert_eq!(list["policies"], json!([]));
    assert!(!Http::connect(&fixture.server).get("/metrics").text().contains("policy=\"a\""), "no traces");
    std::fs::remove_file(&taken).unwrap();
    let list = until(&fixture, "both policies", |list| list["problem"].is_null());
    assert_eq!(list["policies"].as_array().unwrap().len(), 2);
    assert_eq!(Http::connect(&fixture.server).check("b", r#"{"key":"k"}"#)["allowed"], true);
}

#[test]
fn other_parameters_of_an_open_store_need_a_restart() {
    let aside = dir();
    let with = |parameters: &str| policy("a", &aside.path().join("db"), parameters, "closed");
    let mut fixture = Fixture::with(&with("?durability=commit"), &["--durability", "memory"]);
    write(fixture.home.path(), &with("?durability=fsync"));
    let list = until(&fixture, "a problem", |list| list["problem"].is_string());
    assert!(list["problem"].as_str().unwrap().ends_with("restart the server to change it"), "{list}");
    assert!(!list.to_string().contains("durability"), "a URL may hold a password: {list}");
    assert_eq!(Http::connect(&fixture.server).check("a", r#"{"key":"k"}"#)["remaining"], 49);
    fixture.server.stop().unwrap();
    fixture.server.restart().unwrap();
    let list: Value = Http::connect(&fixture.server).get("/limit").json();
    assert_eq!((&list["problem"], &list["policies"][0]["store"]), (&Value::Null, &json!("sqlite")));
    assert_eq!(Http::connect(&fixture.server).check("a", r#"{"key":"k"}"#)["remaining"], 48);
}

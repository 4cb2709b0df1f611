//! The settings file: errors at the start, and reload while the server runs.

use keystead_core::Stopwatch;
use serde_json::Value;

use crate::client::Http;
use crate::common::{dir, only_line, run_in};
use crate::resp::{PATIENCE, pause};
use crate::{Fixture, write};

const ONE: &str = "[limit.a]\nlimit = 2\nperiodMs = \"1h\"\nfail = \"closed\"\n";

/// Polls `GET /limit` until the condition holds.
#[track_caller]
pub(crate) fn until(fixture: &Fixture, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let waited = Stopwatch::start();
    loop {
        let list = Http::connect(&fixture.server).get("/limit").json();
        if is(&list) {
            return list;
        }
        assert!(waited.elapsed() < PATIENCE, "{what}: {list}");
        pause(50);
    }
}

#[test]
fn a_bad_file_is_one_line_that_says_where_and_what_to_do() {
    for (text, words) in [
        ("[limit.a]\nlimit = 1\nperiodMs = 1", "keystead.toml:1: limit.a: fail is missing: write fail ="),
        (
            "shards = 1\n[limit.a]\nlimit = 0\nperiodMs = 1\nfail = \"open\"",
            "keystead.toml:2: limit.a: gcra: limit must be",
        ),
        (
            "[limit.a]\nlimit = 1\nperiodMs = 1\nfail = \"open\"\nstore = \"mysql:x\"",
            "limit.a: store: there is no store 'mysql'",
        ),
        ("[limits.a]\nlimit = 1", "unknown key 'limits'"),
        ("[limit.a]\nlimit = = 1", "keystead.toml:2: not valid TOML"),
        ("[limit.a]\nlimit = = 1", "write [limit.login] and below it limit = 5"),
    ] {
        let home = dir();
        write(home.path(), text);
        let line = only_line(
            2,
            &run_in(home.path(), &["serve", "--durability", "memory", "--http", "127.0.0.1:0"], &[]),
        );
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn config_lists_the_policies() {
    let home = dir();
    write(home.path(), ONE);
    let (code, stdout, _) = run_in(home.path(), &["config"], &[]);
    assert_eq!(code, 0);
    assert!(stdout.ends_with("limit.a  gcra, store engine, fail closed\n"), "{stdout}");
}

#[test]
fn a_changed_file_takes_effect_and_a_bad_one_leaves_everything_as_it_was() {
    let fixture = Fixture::with(ONE, &["--durability", "memory"]);
    let mut http = Http::connect(&fixture.server);
    for left in [1, 0] {
        assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], left);
    }
    // A higher limit, and another policy: what was consumed still counts.
    write(fixture.home.path(), &(ONE.replace("limit = 2", "limit = 4") + &ONE.replace("limit.a", "limit.b")));
    until(&fixture, "two policies", |list| list["policies"].as_array().unwrap().len() == 2);
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["limit"], 4);
    assert_eq!(http.check("b", r#"{"key":"k"}"#)["allowed"], true);
    // An invalid file: the old policies stay, and the problem is reported.
    for (text, words) in [
        ("[limit.a]\nlimit = 9", "keystead.toml:1: limit.a: fail is missing"),
        ("[limit.a", "not valid TOML"),
        ("http = 5", "http is of type integer"),
    ] {
        write(fixture.home.path(), text);
        let list =
            until(&fixture, text, |list| list["problem"].as_str().is_some_and(|why| why.contains(words)));
        assert_eq!(list["policies"].as_array().unwrap().len(), 2);
        assert_eq!(http.check("a", r#"{"key":"x"}"#)["limit"], 4);
    }
    assert!(http.get("/metrics").text().contains("keystead_limit_file_refused 1"));
    // A valid file again: a policy of another kind starts with a new state.
    write(
        fixture.home.path(),
        "[limit.a]\nkind = \"fixedWindow\"\nlimit = 7\nwindowMs = \"1d\"\nfail = \"open\"\n",
    );
    let list = until(&fixture, "one policy", |list| list["problem"].is_null());
    assert_eq!(list["policies"].as_array().unwrap().len(), 1);
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], 6);
    assert_eq!(http.post("/limit/b", r#"{"key":"k"}"#).status, 404);
    std::fs::remove_file(fixture.home.path().join("keystead.toml")).unwrap();
    until(&fixture, "a file that is gone", |list| !list["problem"].is_null());
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], 5);
}

/// Buckets of another width start at other times: counts of narrow ones must not be in the future of wide ones.
#[test]
fn a_longer_sliding_window_starts_with_a_new_state() {
    let window = |ms: &str, limit: u64| {
        format!(
            "[limit.a]\nkind = \"slidingWindow\"\nlimit = {limit}\nwindowMs = \"{ms}\"\nfail = \"closed\"\n"
        )
    };
    let fixture = Fixture::with(&window("10m", 5), &["--durability", "memory"]);
    let mut http = Http::connect(&fixture.server);
    let before = http.check("a", r#"{"key":"k"}"#)["resetAt"].as_u64().unwrap();
    write(fixture.home.path(), &window("1h", 6));
    until(&fixture, "the longer window", |list| list["policies"][0]["limit"] == 6);
    let after = http.check("a", r#"{"key":"k"}"#);
    assert_eq!((&after["allowed"], &after["remaining"]), (&Value::from(true), &Value::from(5)));
    assert!(after["resetAt"].as_u64().unwrap() < before + 2 * 3_600_000, "{before}: {after}");
}

#[test]
fn a_file_that_is_created_after_the_start_takes_effect() {
    let fixture = Fixture { server: crate::common::start(&["--durability", "memory"]), home: dir() };
    assert_eq!(Http::connect(&fixture.server).get("/limit").json()["policies"], serde_json::json!([]));
    write(fixture.server.dir(), ONE);
    until(&fixture, "a policy", |list| list["policies"][0]["name"] == "a");
}

#[test]
fn changes_under_load_lose_no_request() {
    let fixture = Fixture::with(ONE, &["--durability", "memory"]);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let mut http = Http::connect(&fixture.server);
            std::thread::spawn(move || {
                for m in 0..1500 {
                    http.check("a", &format!(r#"{{"key":"k{n}-{m}"}}"#));
                    pause(1);
                }
            })
        })
        .collect();
    for n in 3..7 {
        write(fixture.home.path(), &ONE.replace("limit = 2", &format!("limit = {n}")));
        until(&fixture, "the next limit", |list| list["policies"][0]["limit"] == n);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

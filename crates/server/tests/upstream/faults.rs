//! An upstream that is killed, stuck, or sends more than it may.

use std::time::Duration;

use keystead_core::Stopwatch;
use serde_json::json;

use crate::client::Http;
use crate::others::REDIS;
use crate::resp::until;
use crate::{direct, open, start};

#[test]
fn a_killed_upstream_is_an_error_at_once_and_works_again_after_its_restart() {
    let Some((mut redis, server, mut http)) = open() else { return };
    http.expect(&[(r#"["SET","k","v"]"#, r#"{"result":"OK"}"#)]);
    redis.kill();
    let watch = Stopwatch::start();
    until("the lost connection is noticed", || http.get("/get/k").status == 503);
    for (target, body) in [
        ("/", r#"["SET","k","w"]"#),
        ("/pipeline", r#"[["GET","k"],["SET","k","w"]]"#),
        ("/multi-exec", r#"[["SET","k","w"]]"#),
    ] {
        let response = http.post(target, body);
        assert_eq!(response.status, 503, "{target}");
        let error = response.error();
        assert!(error.starts_with("ERR upstream: cannot connect to 127.0.0.1:"), "{error}");
        assert!(!error.contains("unknown"), "nothing was sent: {error}");
    }
    // The deadline is 20 seconds.
    assert!(watch.elapsed() < Duration::from_secs(10), "{:?}", watch.elapsed());
    let health = http.get("/healthz").json();
    assert_eq!(health["status"], "degraded");
    assert!(health["reasons"][0].as_str().unwrap().starts_with("upstream: it (redis) does not reply"));
    assert!(http.get("/metrics").text().contains("keystead_upstream_broken{store=\"redis\"} 1"));
    assert!(!http.get("/metrics").text().contains("keystead_upstream_errors_total 0"));
    redis.restart();
    http.expect(&[(r#"["GET","k"]"#, r#"{"result":"v"}"#), (r#"["SET","k","w"]"#, r#"{"result":"OK"}"#)]);
    assert_eq!(http.get("/healthz").json()["status"], "ok");
    until("both are logged", || {
        server.logs().contains("does not reply") && server.logs().contains("replies again")
    });
}

#[test]
fn without_requests_health_says_whether_the_upstream_replies() {
    let Some((mut redis, _server, mut http)) = open() else { return };
    until("it is found", || http.get("/healthz").json()["status"] == "ok");
    redis.kill();
    until("it is missed", || http.get("/healthz").json()["status"] == "degraded");
    redis.restart();
    until("it is found again", || http.get("/healthz").json()["status"] == "ok");
}

#[test]
fn a_stuck_upstream_is_an_error_after_the_deadline_and_a_write_is_of_unknown_outcome() {
    let Some(redis) = REDIS.start() else { return };
    let (_server, mut http) = start(&redis.url_with("deadline=300ms"), &[]);
    http.expect(&[(r#"["SET","n",1]"#, r#"{"result":"OK"}"#)]);
    redis.pause();
    let watch = Stopwatch::start();
    let unknown = "it is unknown whether the command was applied";
    // The first connections are there, so commands are sent on them; a new one does not get as far.
    let mut unknown_count = 0;
    loop {
        let response = http.post("/", r#"["INCR","n"]"#);
        assert_eq!(response.status, 503);
        if !response.error().ends_with(unknown) {
            assert!(!response.error().contains("unknown"), "{response:?}");
            break;
        }
        unknown_count += 1;
    }
    assert!((1..=3).contains(&unknown_count), "{unknown_count} connections");
    assert!(watch.elapsed() < Duration::from_secs(10), "{:?}", watch.elapsed());
    redis.resume();
    until("it works again", || http.get("/get/n").status == 200);
    // What was of unknown outcome was applied or not; the last one was not.
    let n: u32 = http.get("/get/n").json()["result"].as_str().unwrap().parse().unwrap();
    assert!((1..=1 + unknown_count).contains(&n), "{n}");
}

#[test]
fn a_reply_over_the_bound_is_an_error_and_others_are_served() {
    let Some((redis, server, mut http)) = open() else { return };
    let mut direct = direct(redis.ports()[0]);
    assert_eq!(direct.ask("SETRANGE large 140000000 x"), ":140000001");
    let mut other = Http::connect(&server);
    let response = http.post("/", r#"["GET","large"]"#);
    assert_eq!(response.status, 413);
    let words = "ERR upstream: max response size exceeded. Limit: 134217728 bytes. ";
    assert!(response.error().starts_with(words), "{response:?}");
    assert_eq!(other.post("/", r#"["STRLEN","large"]"#).json(), json!({"result": 140_000_001}));
    http.expect(&[(r#"["GETRANGE","large",-1,-1]"#, r#"{"result":"x"}"#)]);
    // A list of many small elements takes more memory than bytes.
    let fill = "for i = 1, 400 do local t = {} for j = 1, 10000 do t[j] = '' end redis.call('RPUSH', KEYS[1], unpack(t, 1, 7000)) end";
    assert_eq!(direct.ask_words(&["EVAL", fill, "1", "many"]), "$-1");
    assert_eq!(http.post("/", r#"["LLEN","many"]"#).json(), json!({"result": 2_800_000}));
    assert_eq!(http.post("/", r#"["LRANGE","many",0,-1]"#).status, 413);
    assert_eq!(http.post("/", r#"["LRANGE","many",0,1]"#).json(), json!({"result": ["", ""]}));
}

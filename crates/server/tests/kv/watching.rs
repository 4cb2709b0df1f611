//! Waiting for the next change, and all changes as events that a client can resume.

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Events, Http};
use crate::common::{dir, signal, start_on};
use crate::memory;
use crate::resp::{Client, pause, until};

const STREAM: &str = "Accept: text/event-stream";

fn watch(server: &Server, target: &str, headers: &[&str]) -> Events {
    let mut http = Http::connect(server);
    http.send("GET", target, &[&[STREAM], headers].concat(), b"");
    http.events_begin()
}

/// The id, name and data of the next event.
#[track_caller]
fn next(events: &mut Events) -> (String, String, Value) {
    loop {
        let text = events.try_whole().unwrap().unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        // Heartbeats have no name.
        let (Some(id), Some(name)) = (field("id"), field("event")) else { continue };
        return (id.to_owned(), name.to_owned(), serde_json::from_str(field("data").unwrap()).unwrap());
    }
}

/// The name, value and version of the next event.
#[track_caller]
fn next_change(events: &mut Events) -> (String, Value, Value) {
    let (_, name, mut data) = next(events);
    (name, data["value"].take(), data["version"].take())
}

fn put(value: u64, version: u64) -> (String, Value, Value) {
    ("put".to_owned(), value.into(), version.into())
}

fn deleted() -> (String, Value, Value) {
    ("delete".to_owned(), Value::Null, Value::Null)
}

#[test]
fn a_wait_ends_with_the_next_change() {
    for shards in ["1", "4"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        http.put("/kv/a", "1");
        http.get("/kv/a?wait=30s").is(200, r#"{"key":"a","value":1,"version":1}"#);
        http.get("/kv/a?wait=30s&sinceVersion=7").is(200, r#"{"key":"a","value":1,"version":1}"#);
        let watch = Stopwatch::start();
        let response = http.get("/kv/a?wait=150ms&sinceVersion=1");
        assert_eq!((response.status, response.header("etag")), (304, Some("\"1\"")));
        assert!(watch.elapsed().as_millis() >= 140);
        http.get("/kv/none?wait=50ms").expect_error(404, "not_found");
        let waits: Vec<_> = (0..4)
            .map(|n| {
                let target = if n < 3 { "/kv/a?wait=30s&sinceVersion=1" } else { "/kv/new?wait=30s" };
                let mut http = Http::connect(&server);
                std::thread::spawn(move || http.get(target))
            })
            .collect();
        pause(100);
        Client::connect(&server).expect(&[("JSON.SET a $ 2", "+OK"), ("SET new x", "+OK")]);
        for (n, wait) in waits.into_iter().enumerate() {
            let expected = if n < 3 {
                r#"{"key":"a","value":2,"version":2}"#
            } else {
                r#"{"key":"new","value":"x","version":1}"#
            };
            wait.join().unwrap().is(200, expected);
        }
        let mut waits = Http::connect(&server);
        waits.send("GET", "/kv/a?wait=30s&sinceVersion=2", &[], b"");
        pause(50);
        http.delete("/kv/a");
        waits.try_receive("GET").unwrap().expect_error(404, "not_found");
        http.put("/kv/b?ttl=200ms", "1");
        http.get("/kv/b?wait=30s&sinceVersion=1").expect_error(404, "not_found");
    }
}

#[test]
fn nothing_is_left_of_a_client_that_disconnects_while_waiting() {
    let server = memory(&["--shards", "2"]);
    let mut redis = Client::connect(&server);
    let mut waiting = Vec::new();
    for n in 0..10 {
        let mut http = Http::connect(&server);
        http.send("GET", &format!("/kv/k{n}?wait=300s"), &[], b"");
        waiting.push(http);
    }
    let mut http = Http::connect(&server);
    let mut connections = || {
        let text = http.get("/metrics").text().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("keystead_http_connections ")).unwrap();
        line.parse::<u64>().unwrap()
    };
    until("all wait", || connections() == 11);
    drop(waiting);
    until("they are gone", || connections() == 1);
    redis.expect(&[("SET k1 x", "+OK")]);
    // A waiting client gets a response when the server stops.
    let mut server = server;
    let mut http = Http::connect(&server);
    http.send("GET", "/kv/k1?wait=300s&sinceVersion=1", &[], b"");
    pause(100);
    signal(&server, Signal::TERM);
    assert_eq!(http.try_receive("GET").unwrap().status, 304);
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.logs());
}

#[test]
fn a_watch_begins_with_the_current_document() {
    for (level, shards) in [("memory", "1"), ("memory", "4"), ("commit", "4")] {
        let home = dir();
        let server = match level {
            "memory" => memory(&["--shards", shards]),
            _ => start_on(home.path(), &["--durability", level, "--shards", shards]),
        };
        let mut http = Http::connect(&server);
        let mut events = watch(&server, "/kv/a", &[]);
        assert_eq!(next_change(&mut events), deleted());
        http.put("/kv/a", "1");
        assert_eq!(next_change(&mut events), put(1, 1));
        http.put("/kv/b", "7");
        http.put("/kv/aa", "7");
        http.patch("/kv/a", "application/json", "2");
        assert_eq!(next_change(&mut events), put(2, 2));
        let mut late = watch(&server, "/kv/a", &[]);
        assert_eq!(next_change(&mut late), put(2, 2));
        let mut redis = Client::connect(&server);
        redis.expect(&[("JSON.SET a $ 3", "+OK")]);
        for events in [&mut events, &mut late] {
            assert_eq!(next_change(events), put(3, 3));
        }
        redis.expect(&[("EXPIRE a 100", ":1")]);
        let (_, name, data) = next(&mut events);
        assert_eq!((name.as_str(), &data["version"]), ("change", &4.into()));
        http.delete("/kv/a");
        assert_eq!(next_change(&mut events), deleted());
        http.put("/kv/a?ttl=50ms", "5");
        let (_, name, data) = next(&mut events);
        assert!(name == "put" && data["expiresAt"].is_u64(), "{name} {data}");
        assert_eq!(next_change(&mut events), deleted(), "it expires");
    }
}

#[test]
fn events_resume_where_they_ended() {
    let home = dir();
    for shards in ["1", "4"] {
        let home = home.path().join(shards);
        let mut server = start_on(&home, &["--shards", shards]);
        let mut http = Http::connect(&server);
        let mut key = watch(&server, "/kv/p:1", &[]);
        next(&mut key);
        let mut prefix = watch(&server, "/kv?prefix=p:", &[]);
        assert!(prefix.try_whole().unwrap().unwrap().starts_with(": listening\nid: "));
        let mut ids = Vec::new();
        for n in 0..10 {
            http.put(&format!("/kv/p:{n}"), "0");
            http.put(&format!("/kv/q:{n}"), "0");
            let (id, name, data) = next(&mut prefix);
            assert_eq!((name.as_str(), data["key"].as_str()), ("put", Some(&*format!("p:{n}"))));
            ids.push(id);
        }
        let (key_id, ..) = next(&mut key);
        drop((key, prefix));
        for n in 0..10 {
            http.put(&format!("/kv/p:{n}"), "1");
        }
        http.ask("PUT", "/kv/q:0", &["Idempotency-Key: x"], b"1");
        for restart in [false, true] {
            if restart {
                server.kill().unwrap();
                server.restart().unwrap();
            }
            let mut prefix = watch(&server, "/kv?prefix=p:", &[&format!("Last-Event-ID: {}", ids[6])]);
            prefix.try_whole().unwrap();
            let mut seen: Vec<(String, u64)> = (0..13)
                .map(|_| {
                    let (_, _, data) = next(&mut prefix);
                    (data["key"].as_str().unwrap().to_owned(), data["version"].as_u64().unwrap())
                })
                .collect();
            seen.sort();
            let mut expected: Vec<_> = (7..10).map(|n| (format!("p:{n}"), 1)).collect();
            expected.extend((0..10).map(|n| (format!("p:{n}"), 2)));
            expected.sort();
            assert_eq!(seen, expected, "none missed, none twice");
            let mut key = watch(&server, "/kv/p:1", &[&format!("Last-Event-ID: {key_id}")]);
            assert_eq!(next_change(&mut key), put(1, 2));
        }
        let mut http = Http::connect(&server);
        for bad in ["x", "1-2-3", "", "1-1-1-1-1-1", "99999999"] {
            let response = http.ask("GET", "/kv/a", &[STREAM, &format!("Last-Event-ID: {bad}")], b"");
            response.expect_error(400, "bad_request");
        }
    }
}

#[test]
fn watchers_of_everything_receive_each_version_once_while_many_write() {
    for level in ["memory", "commit"] {
        let home = dir();
        let server = match level {
            "memory" => memory(&["--shards", "4"]),
            _ => start_on(home.path(), &["--durability", level, "--shards", "4"]),
        };
        let mut http = Http::connect(&server);
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let mut http = Http::connect(&server);
                std::thread::spawn(move || {
                    for n in 0..100 {
                        http.put(&format!("/kv/w{}", n % 3), "1");
                    }
                })
            })
            .collect();
        // A watcher that begins later receives the current document and each later version, once.
        let mut watchers: Vec<_> = (0..6)
            .map(|n| {
                pause(5);
                watch(&server, &format!("/kv/w{}", n % 3), &[])
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        for (n, events) in watchers.iter_mut().enumerate() {
            let last = http.version(&format!("/kv/w{}", n % 3));
            let mut version = next(events).2["version"].as_u64().unwrap_or(0);
            while version < last {
                let heard = next(events).2["version"].as_u64().unwrap();
                assert_eq!(heard, version + 1, "{level}");
                version = heard;
            }
        }
    }
}

#[test]
fn a_flush_is_an_event() {
    let server = memory(&["--shards", "2"]);
    Http::connect(&server).put("/kv/a", "1");
    let mut events = watch(&server, "/kv/a", &[]);
    assert_eq!(next_change(&mut events), put(1, 1));
    Client::connect(&server).expect(&[("FLUSHALL", "+OK")]);
    assert_eq!(next(&mut events).1, "flush");
}

#[test]
fn a_watcher_without_events_is_sent_its_position() {
    let home = dir();
    let server = start_on(home.path(), &["--durability", "commit", "--shards", "2"]);
    let mut http = Http::connect(&server);
    http.put("/kv/mine", "1");
    let mut events = watch(&server, "/kv?prefix=mine", &[]);
    let first = events.try_whole().unwrap().unwrap();
    let first = first.strip_prefix(": listening\nid: ").unwrap_or_else(|| panic!("{first}")).to_owned();
    let others = (0..3000).map(|n| format!(r#"["SET","k{n}","v"]"#)).collect::<Vec<_>>().join(",");
    assert_eq!(http.post("/pipeline", &format!("[{others}]")).status, 200);
    let text = events.try_whole().unwrap().unwrap();
    let id = text.strip_prefix("id: ").unwrap_or_else(|| panic!("{text}"));
    assert!(!id.contains('\n') && id.split('-').map(|id| id.parse::<u64>().unwrap()).sum::<u64>() >= 1000);
    let mut again = watch(&server, "/kv?prefix=mine", &[&format!("Last-Event-ID: {id}")]);
    http.put("/kv/mine", "2");
    assert_eq!(next_change(&mut again), put(2, 2));
    // Who was gone before the first event continues, too.
    let mut again = watch(&server, "/kv?prefix=mine", &[&format!("Last-Event-ID: {first}")]);
    assert_eq!(next_change(&mut again), put(2, 2));
}

#[test]
fn a_client_that_resumes_too_late_gets_410() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let mut events = watch(&server, "/kv/a", &[]);
    let (id, ..) = next(&mut events);
    let header = format!("Last-Event-ID: {id}");
    let mut again = watch(&server, "/kv/a", &[&header]);
    http.put("/kv/a", "1");
    assert_eq!((next_change(&mut events), next_change(&mut again)), (put(1, 1), put(1, 1)));
    // Without a journal past changes are not stored.
    for target in ["/kv/a", "/kv?prefix=a"] {
        http.ask("GET", target, &[STREAM, &header], b"").expect_error(410, "gone");
    }
}

//! Policies on the real servers of other projects: shared by several servers, killed, stuck, replaced by a reload.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use serde_json::json;

use crate::client::Http;
use crate::common::{dir, only_line, run_in};
use crate::file;
use crate::others::{ALL, REDIS, assert_no_password};
use crate::resp::{Client, PATIENCE, until};
use crate::{Fixture, write};

/// A policy of 50 a day on this store.
fn policy(name: &str, store: &str, fail: &str) -> String {
    format!("[limit.{name}]\nlimit = 50\nperiodMs = \"1d\"\nfail = \"{fail}\"\nstore = \"{store}\"\n")
}

fn start(policies: &str) -> (Fixture, Http) {
    let fixture = Fixture::with(policies, &["--durability", "memory", "--shards", "2"]);
    let http = Http::connect(&fixture.server);
    (fixture, http)
}

#[test]
fn two_servers_on_one_store_admit_exactly_fifty_of_two_hundred() {
    for kind in ALL {
        let Some(other) = kind.start() else { continue };
        let text = policy("a", &other.url(), "closed");
        let servers = [start(&text).0, start(&text).0];
        let gate = Arc::new(Barrier::new(200));
        let clients: Vec<_> = (0..200)
            .map(|n| {
                let (mut http, gate) = (Http::connect(&servers[n % 2].server), Arc::clone(&gate));
                std::thread::spawn(move || {
                    gate.wait();
                    http.check("a", r#"{"key":"k"}"#)["allowed"] == true
                })
            })
            .collect();
        let allowed = clients.into_iter().map(|client| client.join().unwrap()).filter(|yes| *yes).count();
        assert_eq!(allowed, 50, "{}", kind.kind.name);
        // Both servers know what the other has counted.
        for fixture in &servers {
            let mut http = Http::connect(&fixture.server);
            assert_eq!(http.get("/limit/a/k").json()["remaining"], 0);
            let many = http.post("/limit/a/check", r#"{"keys":[{"key":"k"},{"key":"x"}]}"#).json();
            assert_eq!(many["decisions"][0]["allowed"], false, "{many}");
        }
        let mut http = Http::connect(&servers[0].server);
        assert_eq!(http.ask("DELETE", "/limit/a/k", &[], b"").json(), json!({ "reset": true }));
        assert_eq!(Http::connect(&servers[1].server).get("/limit/a/k").json()["remaining"], 50);
    }
}

#[test]
fn leases_reservations_and_combinations_work_on_a_store() {
    for kind in ALL {
        let Some(other) = kind.start() else { continue };
        let url = other.url();
        let jobs = format!(
            "[limit.jobs]\nkind = \"concurrency\"\nlimit = 1\nleaseMs = \"1h\"\nfail = \"closed\"\nstore = \"{url}\"\n"
        );
        let text = policy("a", &url, "closed") + &jobs;
        let ((_one, mut http), (_two, mut second)) = (start(&text), start(&text));
        let lease = http.post("/limit/jobs/acquire", r#"{"key":"k"}"#).json()["leaseId"].clone();
        assert_eq!(second.post("/limit/jobs/acquire", r#"{"key":"k"}"#).json()["allowed"], false);
        let release = format!(r#"{{"key":"k","leaseId":{lease}}}"#);
        assert_eq!(second.post("/limit/jobs/release", &release).json(), json!({ "released": true }));
        let reserved = http.post("/limit/a/reserve", r#"{"key":"k","cost":40}"#).json();
        let settle = format!(r#"{{"key":"k","id":{},"cost":15}}"#, reserved["reservation"]["id"]);
        assert_eq!(second.post("/limit/a/settle", &settle).json()["remaining"], 35);
        let both = r#"{"checks":[{"policy":"a","key":"k","cost":5},{"policy":"jobs","key":"c"}]}"#;
        assert_eq!(second.post("/limit", both).json()["allowed"], true);
        assert_eq!(second.post("/limit", both).json()["allowed"], false, "the slot is taken");
        assert_eq!(http.get("/limit/a/k").json()["remaining"], 30, "what was consumed in vain is refunded");
        let idempotent = http.ask("POST", "/limit/a", &["Idempotency-Key: 1"], br#"{"key":"k"}"#);
        idempotent.is_error(400, "bad_request", "the store 'engine'");
    }
}

#[test]
fn a_killed_store_fails_open_or_closed_and_works_again_when_it_is_back() {
    for kind in ALL {
        let Some(mut other) = kind.start() else { continue };
        let url = other.url_with("deadline=2s");
        let text = policy("fair", &url, "open") + &policy("strict", &url, "closed");
        let (fixture, mut http) = start(&text);
        for name in ["fair", "strict"] {
            assert_eq!(http.check(name, r#"{"key":"k"}"#)["remaining"], 49);
        }
        other.kill();
        // A process of the server may live a moment longer than the others.
        until("it fails open", || {
            let passed = http.check("fair", r#"{"key":"k"}"#);
            assert_eq!(passed["allowed"], true);
            passed["failedOpen"] == true
        });
        http.post("/limit/strict", r#"{"key":"k"}"#).is_error(503, "store_unavailable", "");
        let store = shown(&url);
        let health = http.get("/healthz").json();
        let why = |name| format!("limit.{name}: its store ({store}) failed at the last check");
        assert_eq!(health["reasons"], json!([why("fair"), why("strict")]));
        let metrics = http.get("/metrics").text().to_owned();
        let line = format!("keystead_limit_store_broken{{policy=\"fair\",store=\"{store}\"}} 1");
        assert!(metrics.lines().any(|there| there == line), "{line}\n{metrics}");
        let list = http.get("/limit").text().to_owned();
        assert!(list.contains(&format!("\"store\":\"{store}\"")), "{list}");
        for text in [&metrics, &list, &health.to_string()] {
            assert_no_password(text);
        }
        other.restart();
        until("the store is used again", || http.post("/limit/strict", r#"{"key":"k"}"#).status == 200);
        let remaining = http.get("/limit/strict/k").json()["remaining"].as_u64().unwrap();
        assert_eq!(remaining, 48, "{}: what was counted before is still there", kind.kind.name);
        assert_eq!(http.check("fair", r#"{"key":"k"}"#)["failedOpen"], json!(null));
        assert_eq!(http.get("/healthz").json()["status"], "ok");
        assert_no_password(&fixture.server.logs());
        drop(fixture);
    }
}

/// The scheme of a URL.
fn shown(url: &str) -> &str {
    url.split_once(':').unwrap().0
}

/// Its connections stay open and nothing replies: every call ends at the deadline.
#[test]
fn a_store_that_is_stuck_does_not_hang_a_request() {
    let Some(other) = REDIS.start() else { return };
    let url = other.url_with("deadline=4s");
    let text = policy("fair", &url, "open") + &policy("strict", &url, "closed");
    let (_fixture, mut http) = start(&text);
    http.check("strict", r#"{"key":"k"}"#);
    other.pause();
    until("the store is stuck", || http.check("fair", r#"{"key":"k"}"#)["failedOpen"] == true);
    http.post("/limit/strict", r#"{"key":"k"}"#).is_error(503, "store_unavailable", "");
    // Not a deadline for each of the keys.
    let keys: Vec<_> = (0..10_000).map(|n| json!({ "key": n.to_string() })).collect();
    let many = http.post("/limit/fair/check", &json!({ "keys": keys }).to_string()).json();
    let decisions = many["decisions"].as_array().unwrap();
    assert_eq!(decisions.iter().filter(|one| one["failedOpen"] == true).count(), 10_000);
}

#[test]
fn a_server_starts_without_its_store_and_uses_it_later() {
    let Some(mut other) = REDIS.start() else { return };
    let text = policy("fair", &other.url_with("deadline=1s"), "open")
        + &policy("strict", &other.url_with("deadline=2s"), "closed");
    other.kill();
    let (_fixture, mut http) = start(&text);
    assert_eq!(http.check("fair", r#"{"key":"k"}"#)["failedOpen"], true);
    http.post("/limit/strict", r#"{"key":"k"}"#).is_error(503, "store_unavailable", "");
    other.restart();
    assert_eq!(http.check("strict", r#"{"key":"k"}"#)["remaining"], 49);
    assert_eq!(http.check("fair", r#"{"key":"k"}"#)["remaining"], 49);
}

#[test]
fn a_reload_replaces_stores_and_fails_no_request() {
    let (Some(first), Some(second)) = (REDIS.start(), REDIS.start()) else { return };
    let (fixture, mut http) = start(&policy("a", &first.url(), "closed"));
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], 49);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|n| {
            let (mut http, stop) = (Http::connect(&fixture.server), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    http.check("a", &format!(r#"{{"key":"client {n}"}}"#));
                }
            })
        })
        .collect();
    write(fixture.home.path(), &policy("a", &second.url(), "closed"));
    until("the other store is used", || http.get("/limit/a/k").json()["remaining"] == 50);
    stop.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    drop(first);
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], 49, "the first one is not needed any longer");
    // Other parameters of the same server are another store, which needs no restart.
    write(fixture.home.path(), &policy("a", &second.url_with("atomic=cas&deadline=19s"), "open"));
    file::until(&fixture, "the other parameters", |list| list["policies"][0]["fail"] == "open");
    assert_eq!(http.check("a", r#"{"key":"k"}"#)["remaining"], 48, "on the same data");
}

#[test]
fn a_bad_url_is_one_line_with_policy_and_line_and_without_the_password() {
    for (store, words) in [
        ("redsi://u:secret-words@h", "there is no store 'redsi'"),
        ("redis://u:secret-words@h?atomic=maybe", "atomic"),
        ("redis://u:secret-words@h:port", "redis://"),
        ("postgres://u:secret-words@h/d?nosuch=1", "the parameter 'nosuch' is unknown"),
        ("postgres://u:secret-words@h/d?deadline=1d", "deadline"),
    ] {
        let home = dir();
        write(home.path(), &("\n".to_owned() + &policy("a", store, "open")));
        // Otherwise there would also be a warning.
        let file = home.path().join("keystead.toml");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let line = only_line(
            2,
            &run_in(home.path(), &["serve", "--durability", "memory", "--http", "127.0.0.1:0"], &[]),
        );
        assert!(line.contains("keystead.toml:2: limit.a: store: "), "{line}");
        assert!(line.contains(words) && !line.contains("secret-words"), "{line}");
    }
}

/// The connections of a store belong to no shard: a long script on one does not delay the checks on the others.
#[test]
fn a_busy_shard_does_not_delay_the_checks_of_others() {
    let Some(other) = REDIS.start() else { return };
    let (fixture, mut first) = start(&policy("a", &other.url(), "closed"));
    let mut admin = Client::connect(&fixture.server);
    // Otherwise the script would be stopped.
    assert_eq!(admin.ask("CONFIG SET busy-reply-threshold 0"), "+OK");
    // The store connects in the first check; then this connection's shard is kept busy.
    first.check("a", r#"{"key":"k"}"#);
    let mut others: Vec<Http> = (0..8).map(|_| Http::connect(&fixture.server)).collect();
    for http in &mut others {
        assert_eq!(http.get("/healthz").status, 200, "it has its shard");
    }
    first.send("POST", "/", &[], br#"["EVAL","while true do end","0"]"#);
    until("a shard is busy", || Http::connect(&fixture.server).get("/readyz").status == 503);
    let (send, receive) = std::sync::mpsc::channel();
    for mut http in others {
        let send = send.clone();
        std::thread::spawn(move || {
            http.send("POST", "/limit/a", &[], br#"{"key":"k"}"#);
            // Those on the busy shard wait until the script is killed.
            let _ = send.send(http.try_receive("POST").map(|response| response.status).unwrap_or(0));
        });
    }
    assert_eq!(receive.recv_timeout(PATIENCE), Ok(200));
    assert_eq!(Http::connect(&fixture.server).get("/readyz").status, 503, "it is still busy");
    until("the script is killed", || Client::connect(&fixture.server).ask("SCRIPT KILL") == "+OK");
}

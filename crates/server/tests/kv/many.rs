//! Many clients at once, on 1 and on 16 shards, at every level of durability.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_testkit::server::Server;
use tempfile::TempDir;

use crate::client::Http;
use crate::common::{dir, start_on};

/// Runs a case on servers with any number of shards and durability.
fn on_all_servers(case: fn(&Server)) {
    for shards in ["1", "16"] {
        for level in ["memory", "commit", "fsync"] {
            println!("{shards} shards, {level}");
            let (_home, server) = start(shards, level);
            case(&server);
        }
    }
}

fn start(shards: &str, level: &str) -> (TempDir, Server) {
    let home = dir();
    let server = start_on(home.path(), &["--shards", shards, "--durability", level]);
    (home, server)
}

/// Runs concurrent clients, and returns the result of each.
fn at_once<T: Send + 'static>(
    server: &Server,
    clients: usize,
    run: impl Fn(usize, &mut Http) -> T + Send + Sync + Clone + 'static,
) -> Vec<T> {
    let threads: Vec<_> = (0..clients)
        .map(|n| {
            let (mut http, run) = (Http::connect(server), run.clone());
            std::thread::spawn(move || run(n, &mut http))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn a_hundred_sets_end_at_version_100() {
    on_all_servers(|server| {
        let mut versions = at_once(server, 100, |n, http| {
            let response = http.put("/kv/a", &n.to_string());
            assert_eq!(response.status, if response.json()["version"] == 1 { 201 } else { 200 });
            response.json()["version"].as_u64().unwrap()
        });
        versions.sort_unstable();
        assert_eq!(versions, (1..=100).collect::<Vec<_>>());
        assert_eq!(Http::connect(server).version("/kv/a"), 100);
    });
}

#[test]
fn a_hundred_merges_of_a_key_that_exists_end_at_101() {
    on_all_servers(|server| {
        let mut http = Http::connect(server);
        http.put("/kv/a", "{}");
        at_once(server, 100, |n, http| {
            let body = format!(r#"{{"f{n}":{n}}}"#);
            assert_eq!(http.patch("/kv/a", "application/json", &body).status, 200);
        });
        let response = http.get("/kv/a").json();
        assert_eq!((&response["version"], response["value"].as_object().unwrap().len()), (&101.into(), 100));
        assert!((0..100).all(|n| response["value"][format!("f{n}")] == n));
    });
}

#[test]
fn of_ten_that_compare_and_set_one_wins() {
    on_all_servers(|server| {
        let mut http = Http::connect(server);
        http.put("/kv/a", "0");
        for round in 1..=5 {
            let response = at_once(server, 10, move |n, http| {
                let response = http.put(&format!("/kv/a?ifVersion={round}"), &n.to_string());
                if response.status == 409 {
                    assert_eq!(response.expect_error(409, "conflict")["current"], round + 1);
                }
                response.status
            });
            assert_eq!(response.iter().filter(|status| **status == 200).count(), 1, "{response:?}");
            assert_eq!(response.iter().filter(|status| **status == 409).count(), 9, "{response:?}");
            assert_eq!(http.version("/kv/a"), round + 1);
        }
    });
}

#[test]
fn fifty_readers_see_no_torn_document_of_fifty_writers() {
    on_all_servers(|server| {
        Http::connect(server).put("/kv/a", r#"{"x":0,"pad":"","y":0}"#);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let readers: Vec<_> = (0..50)
            .map(|_| {
                let (mut http, stop) = (Http::connect(server), Arc::clone(&stop));
                std::thread::spawn(move || {
                    let mut last = 0;
                    // At least once after the end, so that every reader has seen something.
                    loop {
                        let is_last = stop.load(Ordering::Acquire);
                        let response = http.get("/kv/a").json();
                        let value = &response["value"];
                        assert_eq!(value["x"], value["y"], "torn");
                        let long = value["x"].as_u64().unwrap() as usize % 50 * 20;
                        assert_eq!(value["pad"].as_str().unwrap().len(), long);
                        let version = response["version"].as_u64().unwrap();
                        assert!(version >= last, "a reader never goes back");
                        last = version;
                        if is_last {
                            return last;
                        }
                    }
                })
            })
            .collect();
        at_once(server, 50, |writer, http| {
            for n in 0..4 {
                let id = writer * 10 + n;
                let pad = "p".repeat(id % 50 * 20);
                let body = format!(r#"{{"x":{id},"pad":"{pad}","y":{id}}}"#);
                assert_eq!(http.put("/kv/a", &body).status, 200);
            }
        });
        flag.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 201);
        }
    });
}

#[test]
fn three_clients_that_try_again_count_to_exactly_300() {
    on_all_servers(|server| {
        let mut http = Http::connect(server);
        http.put("/kv/n", "0");
        at_once(server, 3, |_, http| {
            for _ in 0..100 {
                loop {
                    let was = http.get("/kv/n").json();
                    let (n, version) = (was["value"].as_u64().unwrap(), &was["version"]);
                    let response = http.put(&format!("/kv/n?ifVersion={version}"), &(n + 1).to_string());
                    match response.status {
                        200 => break,
                        409 => {}
                        other => panic!("{other}: {}", response.text()),
                    }
                }
            }
        });
        http.get("/kv/n").is(200, r#"{"key":"n","value":300,"version":301}"#);
    });
}

//! Many concurrent requests, and servers that are killed: never more than the limit is admitted.

use std::sync::Arc;
use std::sync::Barrier;

use serde_json::json;

use crate::Fixture;
use crate::client::Http;

/// Runs concurrent clients; returns how many were allowed.
fn admitted(fixture: &Fixture, clients: usize, target: &'static str, body: &'static str) -> usize {
    let gate = Arc::new(Barrier::new(clients));
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (mut http, gate) = (Http::connect(&fixture.server), Arc::clone(&gate));
            std::thread::spawn(move || {
                gate.wait();
                let response = http.post(target, body);
                assert_eq!(response.status, 200, "{}", response.text());
                response.json()["allowed"] == true
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).filter(|allowed| *allowed).count()
}

#[test]
fn two_hundred_at_once_admit_fifty_on_every_store() {
    for shards in ["1", "4"] {
        for level in ["memory", "commit", "fsync"] {
            let fixture = Fixture::with(crate::POLICIES, &["--shards", shards, "--durability", level]);
            for target in ["/limit/window", "/limit/memory", "/limit/aside"] {
                assert_eq!(
                    admitted(&fixture, 200, target, r#"{"key":"k"}"#),
                    50,
                    "{target}, {shards} shards, {level}"
                );
            }
        }
    }
}

#[test]
fn two_hundred_combinations_at_once_admit_fifty() {
    let (fixture, mut http) = Fixture::open(&["--shards", "4"]);
    let body = r#"{"checks":[{"policy":"window","key":"{t}k"},{"policy":"flow","key":"{t}k"}],"rule":"any",
                   "then":{"commands":[["INCR","{t}n"]]}}"#;
    let passed = admitted(&fixture, 200, "/limit", body);
    assert_eq!(
        http.get("/get/{t}n").json()["result"],
        passed.to_string(),
        "each that passed wrote, and no other"
    );
    let both = r#"{"checks":[{"policy":"window","key":"x"},{"policy":"memory","key":"x"}]}"#;
    assert!(admitted(&fixture, 200, "/limit", both) <= 50, "on two stores, asked in turn");
}

#[test]
fn never_more_leases_are_held_than_the_limit() {
    let (fixture, _) = Fixture::open(&[]);
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (mut http, inside) = (Http::connect(&fixture.server), Arc::clone(&inside));
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let response = http.post("/limit/jobs/acquire", r#"{"key":"k"}"#).json();
                    if response["allowed"] == true {
                        use std::sync::atomic::Ordering::SeqCst;
                        assert!(inside.fetch_add(1, SeqCst) < 2, "three are inside");
                        inside.fetch_sub(1, SeqCst);
                        let body = json!({ "key": "k", "leaseId": response["leaseId"] }).to_string();
                        assert_eq!(http.post("/limit/jobs/release", &body).json()["released"], true);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

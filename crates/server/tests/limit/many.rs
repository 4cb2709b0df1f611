//! Many concurrent requests, and servers that are killed: never more than the limit is admitted.

use std::sync::Arc;
use std::sync::Barrier;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use serde_json::json;

use crate::Fixture;
use crate::client::Http;
use crate::resp::pause;

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

/// The peak memory of the server, in bytes.
#[cfg(target_os = "linux")]
fn most_memory(fixture: &Fixture) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fixture.server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Each lease makes the state longer, and ten thousand versions of it would be more than a gigabyte.
#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_leases_of_one_key_in_one_request_use_the_memory_of_one_state() {
    const MEMORY_MAX: u64 = 128 << 20;
    let policy = "[limit.conc]\nkind = \"concurrency\"\nlimit = 15000\nleaseMs = \"1h\"\nfail = \"closed\"\n";
    for level in ["memory", "commit"] {
        let mut fixture = Fixture::with(policy, &["--durability", level]);
        let mut http = Http::connect(&fixture.server);
        let body = json!({ "keys": vec![json!({"key": "{c}"}); 10_000] }).to_string();
        for admitted in [10_000, 5_000] {
            let response = http.post("/limit/conc/check", &body);
            assert_eq!(response.status, 200, "{}", response.text());
            let decisions = response.json()["decisions"].as_array().unwrap().clone();
            assert_eq!(decisions.iter().filter(|decision| decision["allowed"] == true).count(), admitted);
            assert_eq!(decisions.len(), 10_000);
        }
        let most = most_memory(&fixture);
        assert!(most < MEMORY_MAX, "{most} bytes of memory at {level}");
        assert_eq!(http.post("/limit/conc", r#"{"key":"other"}"#).json()["allowed"], true);
        if level == "commit" {
            fixture.server.kill().unwrap();
            fixture.server.restart().unwrap();
            let mut http = Http::connect(&fixture.server);
            let full = http.post("/limit/conc", r#"{"key":"{c}"}"#).json();
            assert_eq!((&full["allowed"], &full["remaining"]), (&json!(false), &json!(0)));
        }
    }
}

#[test]
fn what_was_admitted_counts_after_a_kill() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut rng = Rng::new(seed);
    for level in ["commit", "fsync"] {
        let mut fixture = Fixture::with(crate::POLICIES, &["--durability", level]);
        let mut admitted = 0;
        for _ in 0..4 {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let mut http = Http::connect(&fixture.server);
                    std::thread::spawn(move || {
                        let mut admitted = 0;
                        for _ in 0..200 {
                            http.send("POST", "/limit/window", &[], br#"{"key":"k"}"#);
                            match http.try_receive("POST") {
                                Ok(response) if response.status == 200 => {
                                    admitted += u64::from(response.json()["allowed"] == true);
                                }
                                _ => break,
                            }
                        }
                        admitted
                    })
                })
                .collect();
            pause(5 + rng.below(20));
            fixture.server.kill().unwrap();
            admitted += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
            fixture.server.restart().unwrap();
            let stands = Http::connect(&fixture.server).get("/limit/window/k").json();
            let used = 50 - stands["remaining"].as_u64().unwrap();
            assert!(used >= admitted, "{admitted} were admitted and {used} are counted");
            assert!(admitted <= 50);
        }
    }
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

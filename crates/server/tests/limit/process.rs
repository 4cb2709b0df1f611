//! What is about the process of the server: kills, restarts, memory.

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use serde_json::json;

use crate::Fixture;
use crate::after::{acquire, left, release, settle};
use crate::client::Http;
use crate::idempotency::{self, NAME};
use crate::resp::pause;

#[test]
fn leases_survive_a_restart() {
    let mut fixture = Fixture::with(crate::POLICIES, &["--durability", "fsync"]);
    let mut http = Http::connect(&fixture.server);
    let lease = acquire(&mut http, r#"{"key":"export"}"#)["leaseId"].clone();
    acquire(&mut http, r#"{"key":"export"}"#);
    fixture.server.kill().unwrap();
    fixture.server.restart().unwrap();
    let mut http = Http::connect(&fixture.server);
    assert_eq!(acquire(&mut http, r#"{"key":"export"}"#)["allowed"], false);
    assert_eq!(release(&mut http, &lease), true);
    assert_eq!(acquire(&mut http, r#"{"key":"export"}"#)["allowed"], true);
}

#[test]
fn a_reservation_survives_a_kill() {
    let mut fixture = Fixture::with(crate::POLICIES, &["--durability", "commit", "--shards", "4"]);
    let mut http = Http::connect(&fixture.server);
    let response = http.post("/limit/window/reserve", r#"{"key":"ada","cost":40}"#).json();
    fixture.server.kill().unwrap();
    fixture.server.restart().unwrap();
    let mut http = Http::connect(&fixture.server);
    assert_eq!(left(&mut http, "window"), 10);
    assert_eq!(settle(&mut http, "window", &response["reservation"]["id"], 0).json()["remaining"], 50);
}

#[test]
fn a_repeat_after_a_kill_gets_the_same_response() {
    let mut fixture = Fixture::with(crate::POLICIES, &["--durability", "commit"]);
    let first = Http::connect(&fixture.server).ask("POST", "/limit/window", &NAME, br#"{"key":"k"}"#);
    fixture.server.kill().unwrap();
    fixture.server.restart().unwrap();
    let mut http = Http::connect(&fixture.server);
    let again = http.ask("POST", "/limit/window", &NAME, br#"{"key":"k"}"#);
    assert_eq!((again.text(), idempotency::left(&mut http, "window")), (first.text(), 49));
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

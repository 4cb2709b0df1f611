//! Killed with SIGKILL under writers of documents at fsync and commit: no acknowledged version is lost.
//!
//! Each writer increments one document, a version at a time; after the next start it has the last acknowledged version, or at most
//! the one change in flight beyond it.

use std::thread::JoinHandle;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::idempotency::{NAME, same};
use crate::resp::pause;

const KILLS: u64 = 4;
const WRITERS: usize = 6;

/// Increments by compare-and-set until the server is killed, and returns the last acknowledged version.
fn write(server: &Server, writer: usize, mut last: u64) -> JoinHandle<u64> {
    let mut http = Http::connect(server);
    std::thread::spawn(move || {
        loop {
            let (target, headers) = match last {
                0 => (format!("/kv/w{writer}"), &["If-None-Match: *"][..]),
                _ => (format!("/kv/w{writer}?ifVersion={last}"), &[][..]),
            };
            let method = if last.is_multiple_of(2) { "PUT" } else { "PATCH" };
            http.send(method, &target, headers, (last + 1).to_string().as_bytes());
            let Ok(response) = http.try_receive(method) else { return last };
            match response.status {
                200 | 201 => assert_eq!(response.json()["version"], last + 1),
                // A server that is being killed may still return an error.
                503 => return last,
                other => panic!("{other}: {}", response.text()),
            }
            last += 1;
        }
    })
}

fn no_acknowledged_version_is_lost(shards: &str, level: &str) {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}, {shards} shards, {level}");
    let (mut rng, home) = (Rng::new(seed), dir());
    let mut server = start_on(home.path(), &["--durability", level, "--shards", shards]);
    let mut last = [0; WRITERS];
    for _ in 0..KILLS {
        let writers: Vec<_> = (0..WRITERS).map(|writer| write(&server, writer, last[writer])).collect();
        pause(20 + rng.below(250));
        server.kill().unwrap();
        for (writer, thread) in writers.into_iter().enumerate() {
            last[writer] = thread.join().unwrap();
        }
        server.restart().unwrap();
        let mut http = Http::connect(&server);
        for (writer, last) in last.iter_mut().enumerate() {
            let response = http.get(&format!("/kv/w{writer}"));
            let found = if response.status == 404 { 0 } else { response.json()["version"].as_u64().unwrap() };
            assert!(
                found == *last || found == *last + 1,
                "seed {seed}: w{writer} has {found}, acknowledged {last}"
            );
            assert!(found == 0 || response.json()["value"] == found, "seed {seed}: {}", response.text());
            *last = found;
        }
    }
    assert!(last.iter().all(|last| *last > 0), "{last:?}: hardly anything was written");
    assert!(server.stop().unwrap().success());
}

#[test]
fn no_acknowledged_version_is_lost_on_1_shard_at_fsync() {
    no_acknowledged_version_is_lost("1", "fsync");
}

#[test]
fn no_acknowledged_version_is_lost_on_16_shards_at_fsync() {
    no_acknowledged_version_is_lost("16", "fsync");
}

#[test]
fn no_acknowledged_version_is_lost_on_1_shard_at_commit() {
    no_acknowledged_version_is_lost("1", "commit");
}

#[test]
fn no_acknowledged_version_is_lost_on_16_shards_at_commit() {
    no_acknowledged_version_is_lost("16", "commit");
}

#[test]
fn the_first_response_survives_a_restart_and_a_kill() {
    let home = dir();
    for shards in ["1", "4"] {
        let home = home.path().join(shards);
        let mut server = start_on(&home, &["--shards", shards]);
        let first = Http::connect(&server).ask("PUT", "/kv/a", &NAME, b"1");
        for kill in [true, false] {
            if kill {
                server.kill().unwrap();
            } else {
                assert!(server.stop().unwrap().success());
            }
            server.restart().unwrap();
            let mut http = Http::connect(&server);
            same(&first, &http.ask("PUT", "/kv/a", &NAME, b"1"));
            http.ask("PUT", "/kv/b", &NAME, b"1").expect_error(422, "unprocessable");
            assert_eq!((http.version("/kv/a"), http.version("/kv/b")), (1, 0));
        }
    }
}

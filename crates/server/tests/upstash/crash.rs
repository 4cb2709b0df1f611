//! Killed with SIGKILL under pipelines at fsync: every acknowledged write is stored after the next start.
//!
//! Each writer sets its own keys, one number after the other, in pipelines; the numbers up to the last response are
//! acknowledged, those of the pipeline in flight may be stored or not, and no later ones.

use std::thread::JoinHandle;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;
use serde_json::{Value, json};

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::resp::pause;

const KILLS: u64 = 5;
const WRITERS: usize = 6;
const PIPELINE: u64 = 30;
/// Keys of a writer: each number is set under the key of its remainder, and counted.
const KEYS: u64 = 10;

fn key(writer: usize, n: u64) -> String {
    format!("w{writer}:{}", n % KEYS)
}

/// Writes pipelines until the server is killed, and returns the last acknowledged number.
fn write(server: &Server, writer: usize, mut last: u64) -> JoinHandle<u64> {
    let mut http = Http::connect(server);
    std::thread::spawn(move || {
        loop {
            let numbers = last + 1..=last + PIPELINE;
            let commands: Vec<Value> = numbers.map(|n| json!(["SET", key(writer, n), n])).collect();
            http.send("POST", "/pipeline", &[], Value::from(commands).to_string().as_bytes());
            let Ok(response) = http.try_receive("POST") else { return last };
            let all_ok = Value::from(vec![json!({ "result": "OK" }); PIPELINE as usize]);
            // A server that is being killed may still return errors; what it acknowledges is done.
            if response.status != 200 || response.json() != all_ok {
                return last;
            }
            last += PIPELINE;
        }
    })
}

fn every_acknowledged_write_survives_kills(shards: &str) {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}, {shards} shards");
    let (mut rng, home) = (Rng::new(seed), dir());
    let mut server = start_on(home.path(), &["--durability", "fsync", "--shards", shards]);
    let mut last = [0; WRITERS];
    // The value of each key after a start: from then on it counts as acknowledged.
    let mut floors = [[0; KEYS as usize]; WRITERS];
    for _ in 0..KILLS {
        let begun = last;
        let writers: Vec<_> = (0..WRITERS).map(|writer| write(&server, writer, last[writer])).collect();
        pause(20 + rng.below(200));
        server.kill().unwrap();
        for (writer, thread) in writers.into_iter().enumerate() {
            last[writer] = thread.join().unwrap();
        }
        server.restart().unwrap();
        let mut http = Http::connect(&server);
        for writer in 0..WRITERS {
            let acknowledged = last[writer];
            for (n, floor) in (0..KEYS).zip(&mut floors[writer]) {
                if acknowledged > begun[writer] {
                    // The highest number of this key up to the last acknowledged one: a pipeline sets all keys.
                    *floor = acknowledged - (acknowledged - n) % KEYS;
                }
                let response = http.get(&format!("/get/{}", key(writer, n))).json();
                let found: u64 = response["result"].as_str().map_or(0, |text| text.parse().unwrap());
                let message =
                    format!("seed {seed}: {} has {found}, acknowledged {acknowledged}", key(writer, n));
                assert!(found >= *floor && found <= acknowledged + PIPELINE, "{message}, at least {floor}");
                assert!(found == 0 || found % KEYS == n, "{message}");
                *floor = found;
                last[writer] = last[writer].max(found);
            }
        }
    }
    assert!(last.iter().all(|last| *last > 0), "{last:?}: hardly anything was written");
    assert!(server.stop().unwrap().success());
}

#[test]
fn every_acknowledged_write_survives_kills_on_1_shard() {
    every_acknowledged_write_survives_kills("1");
}

#[test]
fn every_acknowledged_write_survives_kills_on_4_shards() {
    every_acknowledged_write_survives_kills("4");
}

//! Killed with SIGKILL under offline clients that send a request again until it has results: every mutation has its effect one time.
//!
//! The time of every mutation is a year ahead, so each counts as made when the server gets it: without the stored ids a mutation that
//! is sent again would be applied again, and the versions of the documents would show it.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;
use serde_json::{Value, json};

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::now_ms;
use crate::resp::pause;

const KILLS: u64 = 5;
const CLIENTS: usize = 4;
const DOCUMENTS: u64 = 7;
const CHUNK: u64 = 20;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// What a client knows: the chunk that has no results yet, and how many mutations of each document were applied.
#[derive(Default)]
struct Known {
    last: u64,
    pending: Vec<Value>,
    applied: BTreeMap<u64, u64>,
    again: u64,
}

impl Known {
    /// The documents are on different shards, so a kill may leave a part of a chunk.
    fn chunk(&mut self, client: usize) -> Vec<Value> {
        if self.pending.is_empty() {
            for _ in 0..CHUNK {
                self.last += 1;
                let (id, ts) = (self.last, now_ms() + YEAR_MS);
                let key = format!("c{client}:{}", id % DOCUMENTS);
                self.pending.push(json!({ "id": id, "key": key, "field": "n", "value": id, "ts": ts }));
            }
        }
        self.pending.clone()
    }

    /// Every mutation made the next version of its document: none was left out, none applied twice.
    fn settle(&mut self, response: &Value) {
        let pending = std::mem::take(&mut self.pending);
        for (item, result) in pending.iter().zip(response["results"].as_array().unwrap()) {
            assert_eq!((&result["status"], &result["id"]), (&json!("applied"), &item["id"]), "{result}");
            let applied = self.applied.entry(item["id"].as_u64().unwrap() % DOCUMENTS).or_default();
            *applied += 1;
            assert_eq!(result["version"], *applied, "{item} {result}");
            self.again += u64::from(result["again"] == true);
        }
    }
}

/// Sends chunks until the server is killed.
fn run(server: &Server, client: usize, mut known: Known) -> JoinHandle<Known> {
    let mut http = Http::connect(server);
    std::thread::spawn(move || {
        loop {
            let body = json!({ "client": format!("c{client}"), "items": known.chunk(client) }).to_string();
            http.send("POST", "/sync", &[], body.as_bytes());
            let Ok(response) = http.try_receive("POST") else { return known };
            match response.status {
                200 if response.json()["results"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|r| r["status"] != "retry") =>
                {
                    known.settle(&response.json());
                }
                // A server that is being killed.
                200 | 503 => return known,
                other => panic!("{other}: {}", response.text()),
            }
        }
    })
}

fn every_mutation_has_its_effect_one_time(shards: &str, level: &str) {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}, {shards} shards, {level}");
    let kills = std::env::var("KEYSTEAD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let (mut rng, home) = (Rng::new(seed), dir());
    let mut server = start_on(home.path(), &["--durability", level, "--shards", shards]);
    let mut known: Vec<Known> = (0..CLIENTS).map(|_| Known::default()).collect();
    for _ in 0..kills {
        let threads: Vec<_> =
            known.drain(..).enumerate().map(|(client, known)| run(&server, client, known)).collect();
        pause(20 + rng.below(200));
        server.kill().unwrap();
        known.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        server.restart().unwrap();
    }
    let (mut http, mut sent, mut again) = (Http::connect(&server), 0, 0);
    for (client, known) in known.iter_mut().enumerate() {
        let items = known.chunk(client);
        known.settle(&http.sync(&format!("c{client}"), &items));
        for (document, applied) in &known.applied {
            let response = http.get(&format!("/kv/c{client}:{document}"));
            assert_eq!(response.json()["version"], *applied, "seed {seed}: c{client}:{document}");
        }
        sent += known.last;
        again += known.again;
    }
    println!("{sent} mutations, {again} of them were settled by a request whose response was lost");
    assert!(sent > CHUNK * CLIENTS as u64, "hardly anything was sent");
    assert!(server.stop().unwrap().success());
}

#[test]
fn every_mutation_has_its_effect_one_time_on_1_shard_at_fsync() {
    every_mutation_has_its_effect_one_time("1", "fsync");
}

#[test]
fn every_mutation_has_its_effect_one_time_on_4_shards_at_fsync() {
    every_mutation_has_its_effect_one_time("4", "fsync");
}

#[test]
fn every_mutation_has_its_effect_one_time_on_4_shards_at_commit() {
    every_mutation_has_its_effect_one_time("4", "commit");
}

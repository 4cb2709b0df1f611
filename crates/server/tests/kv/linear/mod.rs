//! Recorded histories of concurrent GET, PUT, PATCH and DELETE with versions over HTTP, some with a kill -9 and restart in the
//! middle, checked for linearizability key by key. `KEYSTEAD_SEED` repeats the requests of a run, not their timing.

mod checker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checker::{Call, Doc, Event, Outcome, is_linearizable};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::{Http, Response};
use crate::common::{dir, start_on};
use crate::resp::pause;

const KEYS: usize = 4;
const CLIENTS: u64 = 8;

/// How a client is wrong on purpose, to show that the checker detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Not,
    /// It sometimes returns an earlier result of a read.
    StaleReads,
    /// It compares and sets in two requests.
    SplitSwaps,
}

/// The histories of all keys, and the time that orders them.
#[derive(Default)]
struct Record {
    time: AtomicU64,
    histories: [Mutex<Vec<Event>>; KEYS],
    is_over: AtomicBool,
}

struct Client {
    http: Option<Http>,
    rng: Rng,
    broken: Broken,
    /// Whether the last response was that the database is being loaded.
    was_loading: bool,
    /// The last outcome of each key.
    seen: [Option<Outcome>; KEYS],
}

impl Client {
    fn ask(&mut self, record: &Record, key: usize, call: Call) {
        let start = record.time.fetch_add(1, Ordering::SeqCst);
        let outcome = self.run_call(key, call);
        if self.was_loading {
            // The server rejected it before it had a database: nothing was applied, and nothing read.
            (self.was_loading, self.http) = (false, None);
            pause(5);
            return;
        }
        let end = if outcome.is_some() { record.time.fetch_add(1, Ordering::SeqCst) } else { u64::MAX };
        if outcome.is_some() {
            self.seen[key] = outcome;
        } else {
            self.http = None;
        }
        record.histories[key].lock().unwrap().push(Event { start, end, call, outcome });
    }

    fn run_call(&mut self, key: usize, call: Call) -> Option<Outcome> {
        match (self.broken, call) {
            (Broken::StaleReads, Call::Get) if self.rng.below(4) == 0 => {
                if let Some(Outcome::Is(doc)) = self.seen[key] {
                    return Some(Outcome::Is(doc));
                }
            }
            (Broken::SplitSwaps, Call::Put(id, Some(wanted))) => {
                let current = match self.send(key, Call::Get)? {
                    Outcome::Is(doc) => Some(doc.version),
                    _ => None,
                };
                if current != Some(wanted) {
                    return Some(Outcome::Conflict(current));
                }
                return self.send(key, Call::Put(id, None));
            }
            _ => {}
        }
        self.send(key, call)
    }

    fn send(&mut self, key: usize, call: Call) -> Option<Outcome> {
        let condition = |version: Option<u64>| version.map_or(String::new(), |n| format!("?ifVersion={n}"));
        let (method, query, body) = match call {
            Call::Get => ("GET", String::new(), String::new()),
            Call::Put(id, version) => ("PUT", condition(version), format!(r#"{{"a":{id}}}"#)),
            Call::Patch(id, version) => ("PATCH", condition(version), format!(r#"{{"b":{id}}}"#)),
            Call::Delete(version) => ("DELETE", condition(version), String::new()),
        };
        let http = self.http.as_mut()?;
        http.send(method, &format!("/kv/key{key}{query}"), &[], body.as_bytes());
        let response = http.try_receive(method).ok()?;
        self.was_loading = response.status == 503 && response.json()["error"]["code"] == "loading";
        outcome_of(&response)
    }

    /// A request whose condition often holds.
    fn choose(&mut self, key: usize, id: u64) -> Call {
        let version = match self.seen[key] {
            Some(Outcome::Is(doc)) => doc.version,
            Some(Outcome::Conflict(Some(version))) => version,
            _ => 1,
        };
        let condition = (self.rng.below(2) == 0).then_some(version);
        match self.rng.below(10) {
            0..4 => Call::Get,
            4..7 => Call::Put(id, condition),
            7..9 => Call::Patch(id, condition),
            _ => Call::Delete(condition),
        }
    }
}

/// The outcome in a response; nothing when it is unknown.
fn outcome_of(response: &Response) -> Option<Outcome> {
    Some(match response.status {
        200 | 201 => {
            let body = response.json();
            let member = |name: &str| body["value"].get(name).map_or(0, |value| value.as_u64().unwrap());
            Outcome::Is(Doc { version: body["version"].as_u64().unwrap(), a: member("a"), b: member("b") })
        }
        204 => Outcome::Deleted,
        404 => Outcome::Absent,
        409 => Outcome::Conflict(response.json()["error"]["current"].as_u64()),
        503 => return None,
        other => panic!("{other}: {}", response.text()),
    })
}

/// Runs clients that send so many requests each, and returns the histories.
fn run(server: &mut Server, seed: u64, asks: u64, kills: u64, broken: Broken) -> Vec<Vec<Event>> {
    let record = Arc::new(Record::default());
    let address = server.http().unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let record = Arc::clone(&record);
            std::thread::spawn(move || {
                let rng = Rng::new(seed.wrapping_mul(31).wrapping_add(n));
                let mut client = Client { http: None, rng, broken, was_loading: false, seen: [None; KEYS] };
                let mut asked = 0;
                while asked < asks || !record.is_over.load(Ordering::Relaxed) {
                    if client.http.is_none() {
                        // The server may be restarting.
                        client.http = Http::try_connect(address).ok();
                        if client.http.is_none() {
                            pause(5);
                            continue;
                        }
                    }
                    let key = client.rng.below(KEYS as u64) as usize;
                    let call = client.choose(key, asked * CLIENTS + n + 1);
                    client.ask(&record, key, call);
                    asked += 1;
                }
            })
        })
        .collect();
    let mut rng = Rng::new(seed);
    for _ in 0..kills {
        pause(30 + rng.below(120));
        server.kill().unwrap();
        server.restart().unwrap();
        assert_eq!(server.http().unwrap(), address, "clients look for it where it was");
    }
    record.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let record = Arc::into_inner(record).unwrap();
    record.histories.into_iter().map(|history| history.into_inner().unwrap()).collect()
}

fn seed() -> u64 {
    seed_from_env().unwrap_or_else(fresh_seed)
}

fn every_history_is_linearizable(shards: &str, level: &str, kills: u64) {
    let mut operations = 0;
    for round in 0..3 {
        let seed = seed().wrapping_add(round);
        println!("KEYSTEAD_SEED={seed}, {shards} shards, {level}, {kills} kills");
        let home = dir();
        let port = free_port();
        let http = format!("127.0.0.1:{port}");
        let arguments = ["--durability", level, "--shards", shards, "--http", &http];
        let mut server = start_on(home.path(), &arguments);
        for (key, history) in run(&mut server, seed, 100, kills, Broken::Not).iter().enumerate() {
            operations += history.len();
            assert!(is_linearizable(history), "seed {seed}: key{key} of {history:#?}");
        }
    }
    println!("{operations} operations");
    assert!(operations >= 2000, "{operations}");
}

/// A restarted server must have the same port.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn histories_are_linearizable_on_1_shard() {
    every_history_is_linearizable("1", "commit", 0);
}

#[test]
fn histories_are_linearizable_on_16_shards() {
    every_history_is_linearizable("16", "memory", 0);
}

#[test]
fn histories_with_kills_are_linearizable_at_fsync() {
    every_history_is_linearizable("4", "fsync", 3);
}

#[test]
fn histories_with_kills_are_linearizable_at_commit() {
    every_history_is_linearizable("1", "commit", 3);
}

#[test]
fn broken_clients_are_caught() {
    for broken in [Broken::StaleReads, Broken::SplitSwaps] {
        let server = crate::memory(&["--shards", "4"]);
        let mut server = server;
        let caught = (0..20).any(|round| {
            let seed = seed().wrapping_add(round);
            let mut http = Http::connect(&server);
            (0..KEYS).for_each(|key| drop(http.delete(&format!("/kv/key{key}"))));
            let histories = run(&mut server, seed, 100, 0, broken);
            histories.iter().any(|history| !is_linearizable(history))
        });
        assert!(caught, "{broken:?} went unseen");
    }
}

/// Histories of thousands of requests must be checked in reasonable time.
#[test]
fn a_long_history_is_checked_quickly() {
    let watch = keystead_core::Stopwatch::start();
    let mut server = crate::memory(&[]);
    let histories = run(&mut server, seed(), 500, 0, Broken::Not);
    assert!(histories.iter().map(Vec::len).sum::<usize>() >= 4000);
    assert!(histories.iter().all(|history| is_linearizable(history)));
    assert!(watch.elapsed() < Duration::from_secs(60), "{:?}", watch.elapsed());
}

//! Histories of documents in a cluster whose slots move, with kills in between, checked for linearizability key by key: by clients of the nodes,
//! and of a router, which is killed as well. `KEYSTEAD_KILLS` is ten times the number of histories.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use super::kills::{begin_to_move, is_moving};
use super::load::slots_of;
use crate::Nodes;
use crate::checker::{Call, Doc, Event, Outcome, is_linearizable};
use crate::client::{Http, Response};

const KEYS: usize = 8;
const CLIENTS: u64 = 6;

#[derive(Default)]
struct Record {
    time: AtomicU64,
    histories: [Mutex<Vec<Event>>; KEYS],
    is_over: AtomicBool,
}

struct Client {
    /// HTTP ports of all nodes, or of the router alone.
    ports: Vec<u16>,
    owners: [usize; KEYS],
    connections: HashMap<usize, Http>,
    rng: Rng,
    versions: [u64; KEYS],
}

/// What a node said.
enum Said {
    Outcome(Outcome),
    /// It was certainly not applied.
    NotApplied,
    /// Another node owns the key.
    Elsewhere(usize),
}

impl Client {
    /// `None`: nobody knows whether it was applied.
    fn said(&self, response: &Response) -> Option<Said> {
        let body = response.json();
        let member = |name: &str| body["value"].get(name).map_or(0, |value| value.as_u64().unwrap());
        let code = body["error"]["code"].as_str().unwrap_or_default();
        let is_router = self.ports.len() == 1;
        Some(Said::Outcome(match response.status {
            200 | 201 => Outcome::Is(Doc {
                version: body["version"].as_u64().unwrap(),
                a: member("a"),
                b: member("b"),
            }),
            404 => Outcome::Absent,
            409 => Outcome::Conflict(body["error"]["current"].as_u64()),
            421 if !is_router => {
                let owner = body["error"]["owner"].as_str().unwrap();
                let port: u16 = owner.rsplit_once(':').unwrap().1.parse().unwrap();
                return Some(Said::Elsewhere(self.ports.iter().position(|other| *other == port).unwrap()));
            }
            502 if is_router && code == "node_lost" => return None,
            504 if is_router && code == "node_timed_out" => return None,
            503 => {
                let of_node = ["loading", "try_again", "store_unavailable"].contains(&code);
                assert!(of_node || is_router && code == "node_unreachable", "{}", response.text());
                return Some(Said::NotApplied);
            }
            other => panic!("{other}: {}", response.text()),
        }))
    }

    /// `None`: nobody knows whether it was applied.
    fn ask(&mut self, key: usize, call: Call) -> Option<Said> {
        let condition = |version: Option<u64>| version.map_or(String::new(), |n| format!("?ifVersion={n}"));
        let (method, query, body) = match call {
            Call::Get => ("GET", String::new(), String::new()),
            Call::Put(id, version) => ("PUT", condition(version), format!(r#"{{"a":{id}}}"#)),
            Call::Patch(id, version) => ("PATCH", condition(version), format!(r#"{{"b":{id}}}"#)),
            Call::Delete(version) => ("DELETE", condition(version), String::new()),
        };
        let at = self.owners[key];
        if !self.connections.contains_key(&at) {
            match Http::try_connect(("127.0.0.1", self.ports[at])) {
                Ok(http) => drop(self.connections.insert(at, http)),
                // It may be restarting, or another one may own the key by now.
                Err(_) => {
                    self.owners[key] = self.rng.below(self.ports.len() as u64) as usize;
                    return Some(Said::NotApplied);
                }
            }
        }
        let http = self.connections.get_mut(&at)?;
        http.send(method, &format!("/kv/key{key}{query}"), &[], body.as_bytes());
        match http.try_receive(method) {
            Ok(response) if response.status == 204 => Some(Said::Outcome(Outcome::Deleted)),
            Ok(response) => self.said(&response),
            Err(_) => {
                self.connections.remove(&at);
                None
            }
        }
    }

    fn run(&mut self, record: &Record, client: u64) {
        let mut id = client + 1;
        while !record.is_over.load(Ordering::Relaxed) {
            let key = self.rng.below(KEYS as u64) as usize;
            id += CLIENTS;
            let condition = (self.rng.below(2) == 0).then_some(self.versions[key]);
            let call = match self.rng.below(10) {
                0..4 => Call::Get,
                4..7 => Call::Put(id, condition),
                7..9 => Call::Patch(id, condition),
                _ => Call::Delete(condition),
            };
            let start = record.time.fetch_add(1, Ordering::SeqCst);
            let outcome = loop {
                match self.ask(key, call) {
                    None => break None,
                    Some(Said::Outcome(outcome)) => break Some(outcome),
                    Some(Said::Elsewhere(at)) => self.owners[key] = at,
                    Some(Said::NotApplied) => crate::resp::pause(5),
                }
            };
            let end = if outcome.is_some() { record.time.fetch_add(1, Ordering::SeqCst) } else { u64::MAX };
            if let Some(Outcome::Is(Doc { version, .. }) | Outcome::Conflict(Some(version))) = outcome {
                self.versions[key] = version;
            }
            record.histories[key].lock().unwrap().push(Event { start, end, call, outcome });
            // So that a history is long in time and not in events, which the checker has to order.
            crate::resp::pause(5 + self.rng.below(20));
        }
    }
}

/// Kills a node, the router or the operator while slots move, and brings the move to its end. Returns who it was, if it was not over before.
fn kill_in_a_move(nodes: &mut Nodes, router: &mut Option<Server>, random: &mut Rng) -> Option<&'static str> {
    let joins = slots_of(nodes, "d") == 0;
    let mut operator = begin_to_move(nodes, joins, &[]);
    std::thread::park_timeout(Duration::from_millis(random.below(300)));
    let who = ["a", "b", "c", "d", "operator", "router"]
        [random.below(if router.is_some() { 6 } else { 5 }) as usize];
    let ends: Vec<usize> = ["a", "b", "c", "d"].iter().position(|id| *id == who).into_iter().collect();
    match (who, router) {
        ("router", Some(router)) => {
            router.kill().unwrap();
            router.restart().unwrap();
        }
        _ => ends.iter().for_each(|end| assert!(!nodes.servers[*end].kill().unwrap().success())),
    }
    if who == "operator" {
        operator.kill().unwrap();
    }
    let was_moving = is_moving(nodes, &ends);
    ends.iter().for_each(|end| nodes.servers[*end].restart().unwrap());
    operator.kill().unwrap();
    operator.wait().unwrap();
    let (code, _, stderr) = nodes.cluster(&["rebalance"]);
    assert_eq!(code, 0, "{stderr}");
    was_moving.then_some(who)
}

fn check_histories(is_through_router: bool) {
    let rounds: usize =
        std::env::var("KEYSTEAD_KILLS").map_or(1, |text| text.parse::<usize>().unwrap().div_ceil(10));
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    for _ in 0..rounds {
        let Some(mut nodes) = Nodes::start(&[]) else { return };
        nodes.add_node();
        let mut router = is_through_router.then(|| nodes.start_router());
        let record = Arc::new(Record::default());
        let ports: Vec<u16> = match &router {
            Some(router) => vec![router.http().unwrap().port()],
            None => nodes.ports.iter().skip(1).step_by(2).copied().collect(),
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (record, rng) = (Arc::clone(&record), Rng::new(random.below(u64::MAX)));
                let (ports, connections) = (ports.clone(), HashMap::new());
                let mut client = Client { ports, owners: [0; KEYS], connections, rng, versions: [1; KEYS] };
                std::thread::spawn(move || client.run(&record, number))
            })
            .collect();
        let mut killed = Vec::new();
        for tries in 1.. {
            killed.extend(kill_in_a_move(&mut nodes, &mut router, &mut random));
            if killed.len() == 2 {
                break;
            }
            assert!(tries < 8, "the moves were over before the kills");
        }
        record.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        let record = Arc::into_inner(record).unwrap();
        let histories: Vec<Vec<Event>> =
            record.histories.into_iter().map(|history| history.into_inner().unwrap()).collect();
        let events: usize = histories.iter().map(Vec::len).sum();
        let unknown = histories.iter().flatten().filter(|event| event.outcome.is_none()).count();
        println!("{killed:?} killed in moves, {events} requests, {unknown} of unknown outcome");
        assert!(events > 300, "{events}");
        for (key, history) in histories.iter().enumerate() {
            assert!(is_linearizable(history), "seed {seed}: key{key} of {history:#?}");
        }
    }
}

#[test]
fn histories_with_moves_and_kills_are_linearizable() {
    check_histories(false);
}

#[test]
fn histories_through_a_router_with_moves_and_kills_are_linearizable() {
    check_histories(true);
}

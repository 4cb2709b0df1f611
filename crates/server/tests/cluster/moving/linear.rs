//! Histories of documents through a cluster whose slots move, with kills in between, checked for linearizability key by key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keystead_cluster::{Edit, NodeId};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};

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
    /// HTTP ports of all nodes.
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
    fn said(&self, response: &Response) -> Said {
        let body = response.json();
        let member = |name: &str| body["value"].get(name).map_or(0, |value| value.as_u64().unwrap());
        Said::Outcome(match response.status {
            200 | 201 => Outcome::Is(Doc {
                version: body["version"].as_u64().unwrap(),
                a: member("a"),
                b: member("b"),
            }),
            404 => Outcome::Absent,
            409 => Outcome::Conflict(body["error"]["current"].as_u64()),
            421 => {
                let owner = body["error"]["owner"].as_str().unwrap();
                let port: u16 = owner.rsplit_once(':').unwrap().1.parse().unwrap();
                return Said::Elsewhere(self.ports.iter().position(|other| *other == port).unwrap());
            }
            503 => {
                let code = body["error"]["code"].as_str().unwrap();
                assert!(["loading", "try_again", "store_unavailable"].contains(&code), "{}", response.text());
                return Said::NotApplied;
            }
            other => panic!("{other}: {}", response.text()),
        })
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
            Ok(response) => Some(self.said(&response)),
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

#[test]
fn histories_with_moves_and_kills_are_linearizable() {
    let rounds: usize =
        std::env::var("KEYSTEAD_KILLS").map_or(1, |text| text.parse::<usize>().unwrap().div_ceil(10));
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    for _ in 0..rounds {
        let Some(mut nodes) = Nodes::start(&[]) else { return };
        nodes.add_node();
        let record = Arc::new(Record::default());
        let ports: Vec<u16> = nodes.ports.iter().skip(1).step_by(2).copied().collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (record, rng) = (Arc::clone(&record), Rng::new(random.below(u64::MAX)));
                let (ports, connections) = (ports.clone(), HashMap::new());
                let mut client = Client { ports, owners: [0; KEYS], connections, rng, versions: [1; KEYS] };
                std::thread::spawn(move || client.run(&record, number))
            })
            .collect();
        for step in 0..2 {
            let d = NodeId::new("d").unwrap();
            nodes.edit(if step % 2 == 1 { Edit::Leave(d) } else { Edit::Stay(d) });
            let mut operator = nodes.begin_cluster(&["rebalance"]);
            std::thread::park_timeout(Duration::from_millis(random.below(900)));
            let victim = random.below(4) as usize;
            nodes.servers[victim].kill().unwrap();
            nodes.servers[victim].restart().unwrap();
            operator.kill().unwrap();
            operator.wait().unwrap();
            let (code, _, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{stderr}");
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
        println!("{events} requests, {unknown} of unknown outcome");
        assert!(events > 300, "{events}");
        for (key, history) in histories.iter().enumerate() {
            assert!(is_linearizable(history), "seed {seed}: key{key} of {history:#?}");
        }
    }
}

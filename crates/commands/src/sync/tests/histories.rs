//! Random histories of three clients that edit the same members offline, with wrong clocks, over a network that loses requests and
//! responses, delivers late and twice. In the end everybody has the same documents, and nothing was applied twice or lost unreported.

use std::collections::{BTreeMap, HashMap};

use keystead_core::Millis;
use keystead_model::keyspace::Keyspace;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::merge::{Clocks, Merged};
use super::super::stamp::Stamp;
use super::super::{Edit, Mutation, Settled, Status};
use super::{NOW, mutation, read, send};
use crate::testing;

const CLIENTS: [&str; 3] = ["ada", "bob", "cyd"];
const KEYS: [&str; 2] = ["doc:1", "doc:2"];
const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1000;
const CHUNK: usize = 3;

#[derive(Clone, Debug)]
enum Event {
    Edit {
        client: usize,
        key: usize,
        edit: Edit,
    },
    /// The request arrives and so does its response, or it is lost, or the response is.
    Send {
        client: usize,
        fate: Fate,
    },
    /// A request that was thought to be lost arrives.
    Late(usize),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    RequestLate,
    ResponseLost,
    Twice,
}

fn events() -> impl Strategy<Value = Event> {
    let field = || prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
    let edit = prop_oneof![
        1 => (0..99u8).prop_map(|n| Edit::Put(json!({"a": n, "d": n}))),
        1 => Just(Edit::Delete),
        6 => (field(), 0..99u8).prop_map(|(field, n)| Edit::SetField(field, json!(n))),
        1 => field().prop_map(Edit::DeleteField),
    ];
    let fate = prop::sample::select(vec![Fate::Arrives, Fate::RequestLate, Fate::ResponseLost, Fate::Twice]);
    prop_oneof![
        6 => (0..3usize, 0..2usize, edit).prop_map(|(client, key, edit)| Event::Edit { client, key, edit }),
        4 => (0..3usize, fate).prop_map(|(client, fate)| Event::Send { client, fate }),
        1 => (0..9usize).prop_map(Event::Late),
        2 => (0..120_000u64).prop_map(Event::Wait),
    ]
}

#[derive(Default)]
struct Client {
    queue: Vec<Mutation>,
    last: u64,
    settled: BTreeMap<u64, Settled>,
}

struct World {
    keys: Keyspace,
    now: Millis,
    clients: [Client; 3],
    late: Vec<(usize, Vec<Mutation>)>,
    /// What became of a mutation when it was settled, and when that was.
    first: HashMap<(usize, u64), (Mutation, Settled)>,
}

impl World {
    fn new() -> World {
        let (clients, first) = (Default::default(), HashMap::new());
        World { keys: testing::keyspace(), now: NOW, clients, late: Vec::new(), first }
    }

    fn edit(&mut self, n: usize, key: usize, edit: Edit) {
        // One clock is right, one is a year ahead, one is an hour behind.
        let ts = self.now.0.saturating_add_signed([0, YEAR_MS, -3_600_000][n]);
        let client = &mut self.clients[n];
        // Gaps are allowed.
        client.last += 1 + client.last % 3;
        let mutation = mutation(client.last, KEYS[key], edit, ts);
        client.queue.push(mutation);
    }

    /// The server gets a request. Nothing of it changes anything that was settled before.
    fn deliver(&mut self, n: usize, chunk: &[Mutation]) -> Vec<Settled> {
        let revision = self.keys.revision();
        let outcomes = send(&mut self.keys, CLIENTS[n], chunk, self.now);
        assert_eq!(outcomes.len(), chunk.len());
        if outcomes.iter().all(|outcome| outcome.again) {
            assert_eq!(self.keys.revision(), revision, "a resend changes nothing");
        }
        for (mutation, outcome) in chunk.iter().zip(&outcomes) {
            let known = self.first.get(&(n, mutation.id));
            assert_eq!(outcome.again, known.is_some(), "{mutation:?}");
            match known {
                Some((_, settled)) => assert_eq!(*settled, outcome.settled),
                None => {
                    let settled = outcome.settled.clone();
                    self.first.insert((n, mutation.id), (mutation.clone(), settled));
                }
            }
            if outcome.settled.status == Status::Stale {
                let winner = outcome.winner.as_ref().expect("a loser is reported with what won");
                let own =
                    Stamp { ms: outcome.settled.ts.unwrap(), client: CLIENTS[n].into(), id: mutation.id };
                assert!(winner.stamp.as_ref().is_some_and(|stamp| *stamp > own), "{winner:?} {own:?}");
            }
        }
        outcomes.into_iter().map(|outcome| outcome.settled).collect()
    }

    fn send(&mut self, n: usize, fate: Fate) {
        let chunk: Vec<Mutation> = self.clients[n].queue.iter().take(CHUNK).cloned().collect();
        let settled = match fate {
            Fate::RequestLate => return self.late.push((n, chunk)),
            Fate::Arrives => self.deliver(n, &chunk),
            Fate::ResponseLost => return drop(self.deliver(n, &chunk)),
            Fate::Twice => {
                self.deliver(n, &chunk);
                self.deliver(n, &chunk)
            }
        };
        for (mutation, settled) in chunk.iter().zip(settled) {
            assert!(settled.is_final());
            self.clients[n].queue.retain(|other| other.id != mutation.id);
            self.clients[n].settled.insert(mutation.id, settled);
        }
    }

    fn run(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Edit { client, key, edit } => self.edit(client, key, edit),
                Event::Send { client, fate } => self.send(client, fate),
                Event::Late(n) if n < self.late.len() => {
                    let (client, chunk) = self.late.swap_remove(n);
                    self.deliver(client, &chunk);
                }
                Event::Late(_) => {}
                Event::Wait(ms) => self.now = self.now.plus_ms(ms),
            }
        }
        for n in 0..3 {
            while !self.clients[n].queue.is_empty() {
                self.send(n, Fate::ResponseLost);
                self.send(n, Fate::Arrives);
            }
        }
        for (client, chunk) in std::mem::take(&mut self.late) {
            self.deliver(client, &chunk);
        }
    }

    /// What the settled mutations make of a document, merged in an order of its own.
    fn expected(&self, key: &str) -> Option<Value> {
        let mut mine: Vec<(Stamp, &Edit)> = self
            .first
            .iter()
            .filter(|(_, (mutation, _))| mutation.key == *key.as_bytes())
            .map(|((n, id), (mutation, settled))| {
                assert!(matches!(settled.status, Status::Applied | Status::Stale));
                (Stamp { ms: settled.ts.unwrap(), client: CLIENTS[*n].into(), id: *id }, &mutation.edit)
            })
            .collect();
        mine.sort_by(|a, b| b.0.cmp(&a.0));
        let (mut document, mut clocks) = (None, Clocks::unknown(false));
        for (stamp, edit) in mine {
            if let Merged::Changed { document: changed, .. } =
                clocks.merge(document.clone(), edit.clone(), stamp)
            {
                document = changed;
            }
        }
        document
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn everybody_converges_and_every_mutation_is_settled_one_time(
        events in prop::collection::vec(events(), 1..60),
    ) {
        let mut world = World::new();
        world.run(events);
        for key in KEYS {
            let there = read(&mut world.keys, key, world.now);
            prop_assert_eq!(there, world.expected(key), "{}", key);
        }
        for (n, client) in world.clients.iter().enumerate() {
            for (id, settled) in &client.settled {
                prop_assert_eq!(settled, &world.first[&(n, *id)].1);
            }
        }
        let ahead = world.first.iter().filter(|((n, _), _)| *n == 1);
        for (_, (mutation, settled)) in ahead {
            prop_assert!(settled.clamped && settled.ts.unwrap() <= world.now.0, "{:?}", mutation);
        }
    }
}

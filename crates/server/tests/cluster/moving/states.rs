//! Source and target killed with `kill -9` in every state of a move, each held until it was seen: one owner, no orphan, every acknowledged
//! write is there. `KEYSTEAD_KILLS` is the number of times that all pairs of state and victim are run.

use std::path::PathBuf;

use keystead_cluster::{Edit, MigrationId};
use keystead_core::key::slot;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::client::counter;
use super::kills::while_clients_increment;
use crate::resp::until;
use crate::{IDS, Nodes, key_of};

/// What a move is doing when somebody is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The target has a part of the keys.
    Copying,
    /// It has all of them, and follows.
    Tailing,
    /// The source has sealed the slots, and that is not durable.
    Sealing,
    /// It is durable, and the target does not know.
    Frozen,
    /// The target has everything, and the table does not say yet that it owns the slots.
    Ready,
    /// The table says that, and neither node knows.
    Owned,
    /// The source knows that, and it is not durable.
    Moved,
    /// That is durable, and the source deletes.
    Cleaning,
    /// The table has ended the move without the target, and neither node knows.
    Aborted,
}

const STATES: [State; 9] = [
    State::Copying,
    State::Tailing,
    State::Sealing,
    State::Frozen,
    State::Ready,
    State::Owned,
    State::Moved,
    State::Cleaning,
    State::Aborted,
];

/// A move under way.
struct Scene<'a> {
    nodes: &'a mut Nodes,
    from: usize,
    to: usize,
    id: MigrationId,
}

impl Scene<'_> {
    fn signal(&self, at: usize, signal: Signal) {
        let pid = Pid::from_raw(self.nodes.servers[at].pid() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn file(&self, at: usize, name: &str) -> PathBuf {
        self.nodes.servers[at].dir().join("data").join(name)
    }

    /// A node cannot write its records while this is there.
    fn block(&self, at: usize) -> PathBuf {
        let path = self.file(at, "migrations.json.new");
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn until(&self, at: usize, name: &str, value: &serde_json::Value) {
        until(&format!("{name} is {value}"), || self.nodes.row(at, self.id)[name] == *value);
    }

    fn until_tailing(&self) {
        until("the target follows", || self.nodes.row(self.to, self.id)["progress"]["Tailing"].is_object());
    }

    /// Makes the target take nothing in, or everything.
    fn set_rate(&self, rate: u64) {
        let rate = format!("keystead-migration-rate: {rate}");
        let headers = ["keystead-cluster: test", &rate];
        assert_eq!(self.nodes.http(self.to).ask("GET", "/admin/cluster", &headers, b"").status, 200);
    }

    /// Brings the move to a state, kills, and lets what was held go on.
    fn kill_in(&mut self, state: State, victims: &[usize]) {
        if state == State::Copying {
            self.until(self.to, "progress", &json!("Copying"));
            self.kill(victims);
            self.restart(victims);
            return self.set_rate(0);
        }
        self.until_tailing();
        match state {
            State::Copying | State::Tailing => {
                self.kill(victims);
            }
            State::Sealing => {
                let block = self.block(self.from);
                self.nodes.hand_over(self.from, self.id);
                self.until(self.from, "phase", &json!("waiting"));
                self.kill(victims);
                std::fs::remove_dir(block).unwrap();
            }
            State::Frozen => {
                self.signal(self.to, Signal::STOP);
                self.nodes.hand_over(self.from, self.id);
                self.until(self.from, "phase", &json!("frozen"));
                self.kill(victims);
                self.go_on(self.to, victims);
            }
            State::Ready => {
                self.make_ready();
                self.kill(victims);
                self.nodes.store.resume();
            }
            State::Owned | State::Aborted => {
                self.make_ready();
                let both = [self.from, self.to];
                both.into_iter().for_each(|at| self.signal(at, Signal::STOP));
                self.nodes.store.resume();
                let edit = if state == State::Owned { Edit::Finish } else { Edit::Abort };
                // The target may have ordered it already.
                let _ = self.nodes.try_edit(edit(self.id));
                self.kill(victims);
                both.into_iter().for_each(|at| self.go_on(at, victims));
            }
            State::Moved => {
                self.make_ready();
                let block = self.block(self.from);
                self.nodes.store.resume();
                self.until(self.from, "phase", &json!("waiting"));
                self.kill(victims);
                std::fs::remove_dir(block).unwrap();
            }
            State::Cleaning => {
                self.nodes.hand_over(self.from, self.id);
                let file = self.file(self.from, "migrations.json");
                until("the source deletes", || {
                    let text = std::fs::read_to_string(&file).unwrap_or_default();
                    let is_over = || self.nodes.row(self.to, self.id).is_null();
                    text.contains("Cleaning") || is_over()
                });
                self.kill(victims);
            }
        }
        self.restart(victims);
    }

    /// The target has everything, and the store does not say that it owns it.
    fn make_ready(&self) {
        self.nodes.store.pause();
        self.nodes.hand_over(self.from, self.id);
        self.until(self.to, "progress", &json!("Ready"));
    }

    fn go_on(&self, at: usize, victims: &[usize]) {
        if !victims.contains(&at) {
            self.signal(at, Signal::CONT);
        }
    }

    fn kill(&mut self, victims: &[usize]) {
        for victim in victims {
            self.nodes.servers[*victim].kill().unwrap();
        }
    }

    fn restart(&mut self, victims: &[usize]) {
        for victim in victims {
            self.nodes.servers[*victim].restart().unwrap();
        }
    }
}

/// The slots of a node that clients write to, with other keys in them.
fn busy_slots(nodes: &Nodes, owner: usize) -> Vec<u16> {
    let slots = (0..2).flat_map(|client| (0..40).map(move |n| slot(counter(client, n).as_bytes())));
    let table = nodes.table();
    let is_own = |slot: &u16| table.owner(*slot).is_some_and(|node| node.id.as_str() == IDS[owner]);
    let mut slots: Vec<u16> = slots.filter(is_own).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Exactly one node accepts a slot.
fn check_owners(nodes: &Nodes, slots: &[u16]) {
    for slot in slots {
        let get = format!("GET {}", key_of(*slot));
        let accepts = (0..nodes.servers.len()).filter(|at| !nodes.resp(*at).ask(&get).starts_with("-MOVED"));
        assert_eq!(accepts.count(), 1, "slot {slot}");
    }
}

#[test]
fn kills_in_every_state_of_a_move_lose_nothing() {
    let times: usize = std::env::var("KEYSTEAD_KILLS").map_or(0, |text| text.parse::<usize>().unwrap() / 9);
    let Some(mut nodes) = Nodes::start(&[]) else { return };
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let mut random = Rng::new(seed);
    let victims: [&[usize]; 3] = [&[0], &[1], &[0, 1]];
    let mut rounds: Vec<(State, usize)> = Vec::new();
    for _ in 0..times {
        rounds.extend(STATES.iter().flat_map(|state| (0..3).map(move |victims| (*state, victims))));
    }
    if times == 0 {
        let first = random.below(3) as usize;
        rounds.extend(STATES.iter().enumerate().map(|(n, state)| (*state, (first + n) % 3)));
    }
    while_clients_increment(&mut nodes, 2, |nodes| {
        for (state, who) in rounds {
            let from = (0..3).max_by_key(|at| busy_slots(nodes, *at).len()).unwrap();
            let to = (from + 1 + random.below(2) as usize) % 3;
            let ends: Vec<usize> = victims[who].iter().map(|end| [from, to][*end]).collect();
            println!("{state:?}: {} of {} to {} killed", ends.len(), IDS[from], IDS[to]);
            let slots: Vec<u16> = busy_slots(nodes, from).into_iter().take(20).collect();
            let mut scene = Scene { nodes, from, to, id: MigrationId(0) };
            if state == State::Copying {
                scene.set_rate(1);
            }
            scene.id = scene.nodes.begin_moves(slots.iter().copied(), IDS[from], IDS[to]);
            scene.kill_in(state, &ends);
            let (code, _, stderr) = nodes.cluster(&["rebalance"]);
            assert_eq!(code, 0, "{state:?}: {stderr}");
            nodes.until_settled();
            check_owners(nodes, &slots);
        }
    });
}

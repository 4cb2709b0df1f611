//! A move that is brought to a state and held there, so that somebody can be killed in it: by a rate, by a file that cannot be written, by stopped
//! processes and by a store that does not answer. Touches processes and files of the nodes.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use keystead_cluster::{Edit, MigrationId};
use keystead_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::Nodes;
use crate::resp::until;

/// What a move is doing when somebody is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The target has a part of the keys.
    Copying,
    /// It has all of them, and follows.
    Tailing,
    /// The source has sealed the slots, and that is not durable.
    Sealing,
    /// It is durable, and the target does not know.
    Frozen,
    /// The target knows, has everything, and computes the digest.
    Comparing,
    /// The digests are equal, and that is not durable.
    Compared,
    /// It is durable, and the table does not say yet that the target owns the slots.
    Ready,
    /// The table says that, and neither node knows.
    Owned,
    /// The target knows that and serves, and that is not durable.
    Promoting,
    /// The source knows that, and it is not durable.
    Moved,
    /// That is durable, and the source deletes.
    Cleaning,
    /// The table has ended the move without the target, and neither node knows.
    Aborted,
}

pub(super) const STATES: [State; 12] = [
    State::Copying,
    State::Tailing,
    State::Sealing,
    State::Frozen,
    State::Comparing,
    State::Compared,
    State::Ready,
    State::Owned,
    State::Promoting,
    State::Moved,
    State::Cleaning,
    State::Aborted,
];

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Source,
    Target,
    Both,
    Router,
    Operator,
}

pub(super) const VICTIMS: [Victim; 5] =
    [Victim::Source, Victim::Target, Victim::Both, Victim::Router, Victim::Operator];

/// A move under way.
pub(super) struct Scene<'a> {
    pub(super) nodes: &'a mut Nodes,
    pub(super) router: &'a mut Server,
    /// The one that orders the hand over, if it is the victim; otherwise the test does.
    pub(super) operator: Option<Child>,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) id: MigrationId,
    pub(super) victim: Victim,
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

    /// Whether the target must not get everything before somebody is killed, or an operator has begun.
    pub(super) fn is_copy_held(&self, state: State) -> bool {
        state == State::Copying || state == State::Tailing && self.victim == Victim::Operator
    }

    /// Makes the target take nothing in, or everything.
    pub(super) fn set_rate(&self, rate: u64) {
        let rate = format!("keystead-migration-rate: {rate}");
        let headers = ["keystead-cluster: test", &rate];
        assert_eq!(self.nodes.http(self.to).ask("GET", "/admin/cluster", &headers, b"").status, 200);
    }

    /// An operator that knows of the move.
    fn start_operator(&mut self) {
        let mut command = self.nodes.command(&["rebalance", "--rate", "1b"]);
        let mut operator = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It prints what is under way when it has read the table.
        let mut line = String::new();
        BufReader::new(operator.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" slots "), "{line}");
        self.operator = Some(operator);
    }

    /// Hands over until the source has sealed the slots and cannot persist that. What is returned holds it there.
    fn seal(&mut self) -> PathBuf {
        let block = self.block(self.from);
        match self.victim {
            Victim::Operator => self.operator = Some(self.nodes.begin_cluster(&["rebalance"])),
            _ => self.nodes.hand_over(self.from, self.id),
        }
        self.until(self.from, "phase", &json!("waiting"));
        block
    }

    /// Brings the move to a state, kills, and lets what was held go on. Returns whether it was in that state when somebody was killed.
    pub(super) fn kill_in(&mut self, state: State) -> bool {
        if self.is_copy_held(state) {
            self.until(self.to, "progress", &json!("Copying"));
            if self.victim == Victim::Operator {
                self.start_operator();
            }
        }
        if state == State::Copying {
            self.kill();
            let is_copying = self.has_record(self.to, "Copying");
            self.revive();
            self.set_rate(0);
            return is_copying;
        }
        if let Some(operator) = &self.operator {
            // So that it does not hand over.
            kill_process(Pid::from_child(operator), Signal::STOP).unwrap();
            self.set_rate(0);
        }
        self.until_tailing();
        let mut was_in = true;
        match state {
            State::Copying => {}
            State::Tailing => {
                self.kill();
                was_in = self.has_record(self.to, "Tailing");
            }
            State::Sealing => {
                let block = self.seal();
                self.kill();
                std::fs::remove_dir(block).unwrap();
            }
            State::Frozen => {
                let block = self.seal();
                self.signal(self.to, Signal::STOP);
                std::fs::remove_dir(block).unwrap();
                self.until(self.from, "phase", &json!("frozen"));
                self.kill();
                self.go_on(self.to);
            }
            State::Comparing => {
                // What a process before it has staged, it must read to compute the digest.
                self.nodes.servers[self.to].kill().unwrap();
                self.nodes.servers[self.to].restart().unwrap();
                self.until_tailing();
                let block = self.seal();
                std::fs::remove_dir(block).unwrap();
                was_in = self.seen(self.to, "stage", "comparing");
                self.kill();
                was_in &= self.has_record(self.to, "Tailing");
            }
            State::Compared => {
                let block = self.seal();
                let other = self.block(self.to);
                std::fs::remove_dir(block).unwrap();
                self.until(self.from, "phase", &json!("frozen"));
                until("the target cannot persist that it is ready", || {
                    let row = self.nodes.row(self.to, self.id);
                    !row.is_null() && row["progress"].is_null()
                });
                self.kill();
                was_in = self.has_record(self.to, "Tailing");
                std::fs::remove_dir(other).unwrap();
            }
            State::Ready => {
                self.make_ready();
                self.kill();
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
                self.kill();
                both.into_iter().for_each(|at| self.go_on(at));
            }
            State::Promoting => {
                self.make_ready();
                let (block, epoch) = (self.block(self.to), self.nodes.report(self.to)["epoch"].clone());
                self.nodes.store.resume();
                until("the target knows that it is the owner", || {
                    self.nodes.report(self.to)["epoch"] != epoch
                });
                self.kill();
                was_in = self.has_record(self.to, "Ready");
                std::fs::remove_dir(block).unwrap();
            }
            State::Moved => {
                self.make_ready();
                let block = self.block(self.from);
                self.nodes.store.resume();
                self.until(self.from, "phase", &json!("waiting"));
                self.kill();
                was_in = self.has_record(self.from, "Frozen");
                std::fs::remove_dir(block).unwrap();
            }
            State::Cleaning => {
                let block = self.seal();
                std::fs::remove_dir(block).unwrap();
                was_in = self.seen(self.from, "phase", "cleaning");
                self.kill();
                was_in &= self.has_record(self.from, "Cleaning");
            }
        }
        self.revive();
        was_in
    }

    /// Waits until a node reports this of the move, and returns whether it did before it was over.
    fn seen(&self, at: usize, name: &str, value: &str) -> bool {
        let mut was_seen = false;
        until(&format!("{name} is {value}, or over"), || {
            let row = self.nodes.row(at, self.id);
            was_seen = row[name] == value;
            was_seen || row.is_null() || row["progress"] == "Ready"
        });
        was_seen
    }

    /// Whether a node's record of the move says this. It is on the disk, so it says that of a killed one too.
    fn has_record(&self, at: usize, stage: &str) -> bool {
        let text = std::fs::read_to_string(self.file(at, "migrations.json")).unwrap();
        let records: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = ["sources", "targets"].map(|role| records[role].as_array().unwrap().clone()).concat();
        let own = all.iter().find(|record| record["migration"]["id"] == self.id.0);
        own.is_some_and(|record| record["stage"] == stage || record["stage"][stage] != json!(null))
    }

    /// The target has everything, and the store does not say that it owns it.
    fn make_ready(&mut self) {
        let block = self.seal();
        self.nodes.store.pause();
        std::fs::remove_dir(block).unwrap();
        self.until(self.to, "progress", &json!("Ready"));
    }

    /// The nodes that are killed.
    fn ends(&self) -> Vec<usize> {
        match self.victim {
            Victim::Source => vec![self.from],
            Victim::Target => vec![self.to],
            Victim::Both => vec![self.from, self.to],
            Victim::Router | Victim::Operator => Vec::new(),
        }
    }

    fn go_on(&self, at: usize) {
        if !self.ends().contains(&at) {
            self.signal(at, Signal::CONT);
        }
    }

    fn kill(&mut self) {
        for end in self.ends() {
            self.nodes.servers[end].kill().unwrap();
        }
        if self.victim == Victim::Router {
            self.router.kill().unwrap();
        }
        if let Some(mut operator) = self.operator.take() {
            assert!(operator.try_wait().unwrap().is_none(), "the operator has ended");
            operator.kill().unwrap();
            operator.wait().unwrap();
        }
    }

    fn revive(&mut self) {
        for end in self.ends() {
            self.nodes.servers[end].restart().unwrap();
        }
        if self.victim == Victim::Router {
            self.router.restart().unwrap();
        }
    }
}

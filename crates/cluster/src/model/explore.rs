//! The search: breadth first, so that what it finds is as short as possible.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use foldhash::fast::FixedState;

use super::actions::Kind;
use super::{Model, World};

/// A search that visits more than this is a mistake in its bounds.
const STATES_MAX: usize = 8_000_000;

/// What a search has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Explored {
    pub(super) states: usize,
    /// States in which everything is done.
    pub(super) good: usize,
    /// The most writes that were acknowledged in one of them.
    pub(super) acknowledged: usize,
    /// The last epoch of one of them.
    pub(super) epoch: u64,
}

/// A state that must not be, and how to get there.
pub(super) struct Violation {
    pub(super) what: &'static str,
    pub(super) states: usize,
    path: Vec<&'static str>,
    world: Box<World>,
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} states): {:?}\n{:?}", self.what, self.states, self.path, self.world)
    }
}

/// The states of a search, by number.
#[derive(Default)]
struct Graph {
    numbers: HashMap<u128, u32, FixedState>,
    /// From which state each was reached first, and how.
    from: Vec<(u32, &'static str)>,
    /// Steps without a fault.
    steps: Vec<(u32, u32)>,
    good: Vec<u32>,
}

impl Graph {
    /// The number of a state, and whether it is new.
    fn number(&mut self, world: &World, from: u32, label: &'static str) -> (u32, bool) {
        let next = self.from.len() as u32;
        let number = *self.numbers.entry(world.fingerprint()).or_insert(next);
        if number == next {
            self.from.push((from, label));
        }
        (number, number == next)
    }

    fn path(&self, mut number: u32) -> Vec<&'static str> {
        let mut path = Vec::new();
        while number != 0 {
            let (from, label) = self.from[number as usize];
            path.push(label);
            number = from;
        }
        path.reverse();
        path
    }

    /// A state from which no good one can be reached without a fault.
    fn dead_end(mut self) -> Option<u32> {
        self.steps.sort_unstable_by_key(|(_, to)| *to);
        let mut reaches = vec![false; self.from.len()];
        let mut queue = std::mem::take(&mut self.good);
        queue.iter().for_each(|good| reaches[*good as usize] = true);
        while let Some(to) = queue.pop() {
            let first = self.steps.partition_point(|step| step.1 < to);
            for (from, _) in self.steps[first..].iter().take_while(|step| step.1 == to) {
                if !std::mem::replace(&mut reaches[*from as usize], true) {
                    queue.push(*from);
                }
            }
        }
        reaches.iter().position(|reaches| !reaches).map(|number| number as u32)
    }
}

impl Model {
    /// Visits all states, and checks that each can still reach a good end without another fault.
    pub(super) fn explore(&self) -> Result<Explored, Violation> {
        let mut graph = Graph::default();
        let mut explored = Explored { states: 0, good: 0, acknowledged: 0, epoch: 0 };
        graph.number(&self.first(), 0, "");
        let mut queue = VecDeque::from([(0, self.first())]);
        while let Some((number, world)) = queue.pop_front() {
            if let Some(what) = self.violation(&world) {
                let (states, path) = (graph.from.len(), graph.path(number));
                return Err(Violation { what, states, path, world: Box::new(world) });
            }
            if self.is_good(&world) {
                graph.good.push(number);
                explored.good += 1;
                explored.acknowledged = explored.acknowledged.max(world.acknowledged.len());
                explored.epoch = explored.epoch.max(self.table(world.store).epoch().0);
            }
            for (label, kind, next) in self.next(&world) {
                let (to, is_new) = graph.number(&next, number, label);
                if kind == Kind::Normal && to != number {
                    graph.steps.push((number, to));
                }
                if is_new {
                    queue.push_back((to, next));
                }
            }
            assert!(graph.from.len() < STATES_MAX, "more than {STATES_MAX} states");
        }
        explored.states = graph.from.len();
        let paths = graph.from.clone();
        match graph.dead_end() {
            None => Ok(explored),
            Some(number) => Err(self.describe_dead_end(&paths, number)),
        }
    }

    /// Walks to a state again.
    fn describe_dead_end(&self, from: &[(u32, &'static str)], number: u32) -> Violation {
        let graph = Graph { from: from.to_vec(), ..Graph::default() };
        let path = graph.path(number);
        Violation {
            what: "no good end can be reached",
            states: from.len(),
            path,
            world: Box::new(self.first()),
        }
    }
}

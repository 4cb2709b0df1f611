//! The leasing bound, exhaustively: a small breadth-first model checker that visits every interleaving of 2 to 4 nodes.
//!
//! The store runs the real [`Take`] step and the nodes the real [`Units`]; the model adds the environment: time passes, replies are
//! late or lost, nodes crash, and every node's clock is different. Time is counted in half milliseconds, because clocks that show
//! whole milliseconds do not tick at the same time. In no reachable state has a window admitted more than the limit, and each of the
//! deliberately broken nodes below is caught.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

use foldhash::fast::RandomState;
use keystead_core::{Change, Millis, Step};
use smallvec::SmallVec;

use super::units::Units;
use crate::strategy::{FixedWindow, Take};

const WINDOW_MS: u64 = 2;
const WINDOWS: usize = 2;
/// In half milliseconds.
const END: u64 = 2 * WINDOW_MS * WINDOWS as u64;

/// What a node does with granted units.
trait Node: Clone + Copy + Debug + Default + PartialEq + Eq + Hash {
    fn spend(&mut self, now: Millis) -> bool;
    fn receive(&mut self, sent_at: Millis, received_at: Millis, units: u64, good: Good);
    /// Reads the clock and spends nothing.
    fn look(&mut self, now: Millis);
    /// Whether there is nothing left to spend, so that it sends a request.
    fn is_empty(&self) -> bool;
}

impl Node for Units {
    fn spend(&mut self, now: Millis) -> bool {
        Units::spend(self, now, 1)
    }

    fn receive(&mut self, sent_at: Millis, _: Millis, units: u64, good: Good) {
        Units::receive(self, sent_at, units, good.ms, good.until);
    }

    fn look(&mut self, now: Millis) {
        Units::spend(self, now, 0);
    }

    fn is_empty(&self) -> bool {
        self.left() == 0
    }
}

/// How long granted units are valid: for so many milliseconds, which is until this time of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Good {
    ms: u64,
    until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// A reply in flight, or none. The time at which its request was sent is chosen when it runs: any earlier time is possible.
enum Line {
    Idle,
    Replied { sent_at: Millis, units: u64, good: Good, window: usize },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World<N> {
    time: u64,
    store: Option<(u64, u64)>,
    nodes: SmallVec<[(N, Line); 4]>,
    admitted: [u64; WINDOWS],
}

struct Model {
    limit: u64,
    want: u64,
    /// By how many half milliseconds the clock of each node is ahead.
    ahead: Vec<u64>,
}

impl Model {
    fn node_now(&self, node: usize, time: u64) -> Millis {
        Millis((time + self.ahead[node]) / 2)
    }

    fn window(&self, time: u64) -> usize {
        (time / (2 * WINDOW_MS)) as usize
    }

    /// Everything that can happen next.
    fn next<N: Node>(&self, world: &World<N>) -> Vec<World<N>> {
        let mut next = Vec::new();
        if world.time + 1 < END {
            next.push(World { time: world.time + 1, ..world.clone() });
        }
        for node in 0..world.nodes.len() {
            let (held, line) = world.nodes[node];
            if !held.is_empty() {
                next.push(self.spend(world, node));
                // It crashes and restarts without units; the reply to its request is lost.
                next.push(with(world, node, (N::default(), Line::Idle)));
            }
            match line {
                // Also with units left: a request may cost more than these.
                Line::Idle => next.extend((0..=world.time).map(|sent| self.run_take(world, node, sent))),
                // The reply arrives, or is lost with its units.
                Line::Replied { .. } => {
                    next.push(self.deliver(world, node));
                    next.push(with(world, node, (held, Line::Idle)));
                }
            }
        }
        for world in &mut next {
            self.look(world);
        }
        next
    }

    /// Every node reads its clock and spends nothing. That does not change its possible actions, and merges states that differ only in
    /// when a node last read its clock.
    fn look<N: Node>(&self, world: &mut World<N>) {
        for (node, (held, _)) in world.nodes.iter_mut().enumerate() {
            held.look(self.node_now(node, world.time));
        }
    }

    fn spend<N: Node>(&self, world: &World<N>, node: usize) -> World<N> {
        let (mut held, line) = world.nodes[node];
        let admits = held.spend(self.node_now(node, world.time));
        let mut world = with(world, node, (held, line));
        world.admitted[self.window(world.time)] += u64::from(admits);
        world
    }

    fn run_take<N: Node>(&self, world: &World<N>, node: usize, sent: u64) -> World<N> {
        let strategy = FixedWindow::new(self.limit, WINDOW_MS).unwrap();
        let take = Take { strategy, need: 1, want: self.want };
        let mut world = world.clone();
        // The store's clock also shows whole milliseconds.
        if let Change::Put(state, _, grant) = take.run(world.store.as_ref(), Millis(world.time / 2)) {
            world.store = Some(state);
            let (sent_at, window) = (self.node_now(node, sent), self.window(world.time));
            let good = Good { ms: grant.good_ms, until: grant.decision.reset_at };
            world.nodes[node].1 = Line::Replied { sent_at, units: grant.units, good, window };
        }
        world
    }

    /// One unit is for the check that sent the request: the store decided on it, in the window in which it ran.
    fn deliver<N: Node>(&self, world: &World<N>, node: usize) -> World<N> {
        let (mut held, line) = world.nodes[node];
        let Line::Replied { sent_at, units, good, window } = line else { return world.clone() };
        held.receive(sent_at, self.node_now(node, world.time), units - 1, good);
        let mut world = with(world, node, (held, Line::Idle));
        world.admitted[window] += 1;
        world
    }

    /// Visits all states. Returns their number and the most that a window admits, or a state that admits too much.
    fn explore<N: Node>(&self) -> Result<(usize, u64), Box<World<N>>> {
        let mut most = 0;
        let nodes = SmallVec::from_elem((N::default(), Line::Idle), self.ahead.len());
        let mut first = World { time: 0, store: None, nodes, admitted: [0; WINDOWS] };
        self.look(&mut first);
        let mut seen = HashSet::<World<N>, RandomState>::default();
        seen.insert(first.clone());
        let mut queue = VecDeque::from([first]);
        while let Some(world) = queue.pop_front() {
            for next in self.next(&world) {
                most = next.admitted.into_iter().fold(most, u64::max);
                if most > self.limit {
                    return Err(Box::new(next));
                }
                if !seen.contains(&next) {
                    seen.insert(next.clone());
                    queue.push_back(next);
                }
            }
        }
        Ok((seen.len(), most))
    }
}

fn with<N: Node>(world: &World<N>, node: usize, state: (N, Line)) -> World<N> {
    let mut world = world.clone();
    world.nodes[node] = state;
    world
}

fn models() -> Vec<Model> {
    vec![
        Model { limit: 2, want: 2, ahead: vec![0, 1] },
        Model { limit: 3, want: 2, ahead: vec![1, 5] },
        Model { limit: 2, want: 2, ahead: vec![0, 1, 7] },
        Model { limit: 3, want: 2, ahead: vec![0, 1, 6] },
        Model { limit: 2, want: 2, ahead: vec![0, 1, 2, 5] },
        Model { limit: 3, want: 2, ahead: vec![0, 1, 3, 6] },
    ]
}

#[test]
fn no_interleaving_of_two_to_four_nodes_admits_more_than_the_limit() {
    for model in models() {
        let nodes = model.ahead.len();
        match model.explore::<Units>() {
            Ok((states, most)) => {
                println!("{nodes} nodes, limit {}: {states} states", model.limit);
                assert!(states > 1000, "{nodes} nodes: only {states} states");
                // A limiter that admits nothing would also keep the bound.
                assert_eq!(most, model.limit, "{nodes} nodes: the limit is never reached");
            }
            Err(world) => panic!("{nodes} nodes: {world:#?}"),
        }
    }
}

/// Units without a window: what is left of one window is spent in the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Uncoupled(u64);

impl Node for Uncoupled {
    fn spend(&mut self, _: Millis) -> bool {
        self.0 = self.0.saturating_sub(1);
        true
    }

    fn receive(&mut self, _: Millis, _: Millis, units: u64, _: Good) {
        self.0 = units;
    }

    fn look(&mut self, _: Millis) {}

    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// Measures the validity of units from the arrival of the reply, which may be late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct FromTheReply(Units);

impl Node for FromTheReply {
    fn spend(&mut self, now: Millis) -> bool {
        self.0.spend(now, 1)
    }

    fn receive(&mut self, _: Millis, received_at: Millis, units: u64, good: Good) {
        self.0.receive(received_at, units, good.ms, good.until);
    }

    fn look(&mut self, now: Millis) {
        self.0.spend(now, 0);
    }

    fn is_empty(&self) -> bool {
        self.0.left() == 0
    }
}

/// Does not subtract a millisecond for clocks that show whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct WithoutMargin(Units);

impl Node for WithoutMargin {
    fn spend(&mut self, now: Millis) -> bool {
        self.0.spend(now, 1)
    }

    fn receive(&mut self, sent_at: Millis, _: Millis, units: u64, good: Good) {
        self.0.receive(sent_at, units, good.ms + 1, good.until);
    }

    fn look(&mut self, now: Millis) {
        self.0.spend(now, 0);
    }

    fn is_empty(&self) -> bool {
        self.0.left() == 0
    }
}

#[test]
fn broken_nodes_are_caught() {
    // Without the largest, which takes long and finds no more.
    for model in models().into_iter().filter(|model| model.limit * model.ahead.len() as u64 <= 9) {
        let nodes = model.ahead.len();
        assert!(model.explore::<Uncoupled>().is_err(), "{nodes} nodes: units without a window");
        assert!(model.explore::<FromTheReply>().is_err(), "{nodes} nodes: time counted from the reply");
        assert!(model.explore::<WithoutMargin>().is_err(), "{nodes} nodes: no margin");
    }
}

//! The move of a slot, exhaustively: a breadth-first model checker that visits every interleaving of a small cluster.
//!
//! | To find | open |
//! |---|---|
//! | a cluster of the real [`Member`]s, the real [`Coordinator`] and real tables; what must hold in every state | this file |
//! | everything that can happen next: messages, clients, crashes, losses, a store that answers late or never | [`actions`] |
//! | how it changes a state: outputs one by one, with a crash before each | [`execute`] |
//! | the search, and whether every state can still reach a good end | [`explore`] |
//! | what is explored, and the broken protocols that must be caught | [`tests`] |
//!
//! The data of the slot is a list of writes, and a revision is a length of it. The network is a set to which sending adds and from
//! which delivering takes nothing away: so every message may arrive at any later time, any number of times, in any order, or never.
//! All of it may be lost at any time. The same holds for changes of the table that were ordered: each may reach the store at any later
//! time, again, or never, and nobody learns the outcome except by reading the table. A node reads the table as it is or as it was.

mod actions;
mod execute;
mod explore;
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::{FixedState, FoldHasher};
use serde_json::json;

use crate::migration::source::SourcePhase;
use crate::migration::target::TargetStage;
use crate::migration::{
    Access, Body, Coordinator, Member, Message, Output, Recipient, Release, SourceRecord, TargetRecord,
};
use crate::table::{Edit, MigrationId, Move, SlotTable};
use crate::testing::{member, node};

/// The only slot that moves.
const SLOT: u16 = 0;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    writes: u8,
    /// Of nodes. The coordinator may crash at any time, because it has nothing to lose.
    crashes: u8,
    begins: u8,
    aborts: u8,
    /// A change that is lost inside the target's staging, as by a defect.
    damages: u8,
    /// A feed that no longer has what the target needs.
    discards: u8,
    /// Sealing that takes too long.
    give_ups: u8,
}

/// A protocol that is wrong in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// The source accepts writes after the hand over.
    ServesFrozen,
    /// The source serves again when requests have waited for long, without asking the table.
    ThawsAtDeadline,
    /// The source forgets in a crash that it is frozen.
    ForgetsFreeze,
    /// The source seals before the writes it has accepted are durable.
    SealsBeforeDurable,
    /// The source deletes when the target has everything, before it has seen the epoch.
    DeletesEarly,
    /// The source never deletes.
    NeverDeletes,
    /// The target serves when it is ready, before it is the owner.
    ServesReady,
    /// The target takes any digest for equal.
    NoDigest,
    /// What is staged is not durable.
    ForgetsStaging,
    /// The target leaves its staging behind after an abort.
    KeepsStaging,
    /// The target asks one time only.
    NeverAsksAgain,
    /// The coordinator finishes a migration whose target still follows.
    FinishesEarly,
    /// A change of the table names the slot and not the migration.
    FinishesAnything,
    /// A node takes an older table for a newer one.
    GoesBack,
}

struct Model {
    nodes: usize,
    budget: Budget,
    broken: Option<Broken>,
    tables: RefCell<Tables>,
}

/// Every table of the search, as a tree: each is made from one other.
struct Tables {
    list: Vec<Arc<SlotTable>>,
    before: Vec<usize>,
    made: HashMap<(usize, Op), Option<usize>>,
}

/// A change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Op {
    Begin(usize),
    Finish(MigrationId),
    Abort(MigrationId),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Envelope {
    /// `None`: the coordinator.
    to: Option<usize>,
    message: Message,
    /// The writes that travel with it.
    payload: Vec<u8>,
}

/// What survives a crash, besides the writes that were durable.
#[derive(Clone, Debug, Default, Hash)]
struct Disk {
    table: usize,
    sources: Vec<SourceRecord>,
    targets: Vec<TargetRecord>,
    staging: Vec<(MigrationId, Vec<u8>)>,
}

#[derive(Clone, Debug)]
struct Node {
    member: Member,
    known: usize,
    data: Vec<u8>,
    durable: usize,
    disk: Disk,
    parked: Vec<(MigrationId, u8)>,
}

#[derive(Clone, Debug)]
struct World {
    /// What the store has.
    store: usize,
    nodes: Vec<Node>,
    coordinator: Coordinator,
    coordinator_known: usize,
    net: BTreeSet<Envelope>,
    orders: BTreeSet<Op>,
    acknowledged: BTreeSet<u8>,
    written: u8,
    left: Budget,
}

impl Model {
    fn new(nodes: usize, budget: Budget) -> Model {
        let members: Vec<_> = NAMES[..nodes].iter().map(|id| member(id)).collect();
        let all_of_a = json!({
            "format": 1, "cluster": "test", "epoch": 1, "nodes": members, "slots": [[0, 16383, "a"]], "begun": 0, "migrations": []
        });
        let first = Arc::new(SlotTable::from_value(&all_of_a).unwrap());
        let tables = Tables { list: vec![first], before: vec![0], made: HashMap::new() };
        Model { nodes, budget, broken: None, tables: RefCell::new(tables) }
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn table(&self, number: usize) -> Arc<SlotTable> {
        Arc::clone(&self.tables.borrow().list[number])
    }

    /// The table that a change makes of another one, if it may.
    fn changed(&self, from: usize, op: Op) -> Option<usize> {
        if let Some(made) = self.tables.borrow().made.get(&(from, op)) {
            return *made;
        }
        let table = self.table(from);
        let owner = table.owner(SLOT).unwrap().id.clone();
        let under_way = table.migrations().next().map(|migration| migration.id);
        let edit = match op {
            Op::Begin(to) => {
                let slots = [SLOT].into_iter().collect();
                Edit::Begin(vec![Move { slots, from: owner, to: node(NAMES[to]) }])
            }
            Op::Finish(id) if self.is(Broken::FinishesAnything) => Edit::Finish(under_way.unwrap_or(id)),
            Op::Finish(id) => Edit::Finish(id),
            Op::Abort(id) => Edit::Abort(id),
        };
        let made = edit.apply(Some(&table)).ok().map(|table| {
            let mut tables = self.tables.borrow_mut();
            tables.list.push(Arc::new(table));
            tables.before.push(from);
            tables.list.len() - 1
        });
        self.tables.borrow_mut().made.insert((from, op), made);
        made
    }

    /// The tables that a reader who knows `known` may read next: the last one, and those in between.
    fn newer(&self, known: usize, last: usize) -> Vec<usize> {
        let before = &self.tables.borrow().before;
        std::iter::successors(Some(last), |at| Some(before[*at])).take_while(|at| *at != known).collect()
    }

    fn first(&self) -> World {
        let table = self.table(0);
        let start = |id: &&str| Node {
            member: Member::restart(node(id), Arc::clone(&table), Vec::new(), Vec::new(), &mut Vec::new()),
            known: 0,
            data: Vec::new(),
            durable: 0,
            disk: Disk::default(),
            parked: Vec::new(),
        };
        World {
            store: 0,
            nodes: NAMES[..self.nodes].iter().map(start).collect(),
            coordinator: Coordinator::new(Arc::clone(&table)),
            coordinator_known: 0,
            net: BTreeSet::new(),
            orders: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            written: 0,
            left: self.budget,
        }
    }

    /// Whether a node runs requests for the slot.
    fn serves(&self, node: &Node) -> bool {
        let is_frozen =
            node.member.sources().iter().any(|source| matches!(source.phase(), SourcePhase::Durable(_)));
        let is_ready = node.disk.targets.iter().any(|target| target.stage == TargetStage::Ready);
        match node.member.access(SLOT) {
            Access::Serve => true,
            Access::Park(_) => self.is(Broken::ServesFrozen) && is_frozen,
            Access::Moved(..) => self.is(Broken::ServesReady) && is_ready,
            Access::Down => false,
        }
    }

    /// What is wrong with a state.
    fn violation(&self, world: &World) -> Option<&'static str> {
        let serving: Vec<&Node> = world.nodes.iter().filter(|node| self.serves(node)).collect();
        if serving.len() > 1 {
            return Some("two nodes serve the slot");
        }
        let has_all = |node: &&Node| world.acknowledged.iter().all(|write| node.data.contains(write));
        if !serving.iter().all(has_all) {
            return Some("an acknowledged write is missing");
        }
        let is_doubled = |node: &Node| node.data.iter().collect::<BTreeSet<_>>().len() < node.data.len();
        if world.nodes.iter().any(is_doubled) {
            return Some("a write was applied twice");
        }
        if self.is_settled(world) && !self.is_clean(world) {
            return Some("something is left behind");
        }
        None
    }

    /// No migration is under way, everybody knows, and nobody has work left.
    fn is_settled(&self, world: &World) -> bool {
        let is_idle = |node: &Node| {
            node.known == world.store && node.member.sources().is_empty() && node.member.targets().is_empty()
        };
        self.table(world.store).migrations().len() == 0 && world.nodes.iter().all(is_idle)
    }

    /// One node serves, and the others have nothing of the slot.
    fn is_clean(&self, world: &World) -> bool {
        let owner = self.table(world.store).owner(SLOT).unwrap().id.clone();
        world.nodes.iter().all(|node| {
            let is_owner = *node.member.id() == owner;
            let disk = &node.disk;
            let is_empty = disk.sources.is_empty() && disk.targets.is_empty() && disk.staging.is_empty();
            is_empty && self.serves(node) == is_owner && (is_owner || node.data.is_empty())
        })
    }

    /// Where every run should end.
    fn is_good(&self, world: &World) -> bool {
        self.is_settled(world) && self.is_clean(world)
    }
}

impl World {
    /// 128 bits that stand for the state: two different states have the same ones with a probability of about 2^-80.
    fn fingerprint(&self) -> u128 {
        let mut hasher = Halves(
            FixedState::with_seed(0x6b65_7973).build_hasher(),
            FixedState::with_seed(0x7465_6164).build_hasher(),
        );
        for node in &self.nodes {
            (node.known, node.member.sources(), node.member.targets()).hash(&mut hasher);
            (&node.data, node.durable, &node.disk, &node.parked).hash(&mut hasher);
        }
        (self.store, self.coordinator_known, self.coordinator.unwanted()).hash(&mut hasher);
        (&self.net, &self.orders, &self.acknowledged, self.written, self.left).hash(&mut hasher);
        u128::from(hasher.0.finish()) << 64 | u128::from(hasher.1.finish())
    }
}

/// Two hashes of the same input.
struct Halves(FoldHasher<'static>, FoldHasher<'static>);

impl Hasher for Halves {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

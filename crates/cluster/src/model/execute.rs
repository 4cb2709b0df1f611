//! How what happens changes a state: outputs are executed one by one, and a node may crash before each.

use super::actions::{Kind, Next};
use super::*;
use crate::bounds::HAND_OVER_LAG_MAX;
use crate::migration::source::SourceStage;
use crate::migration::{Order, Progress, Sealed};

impl Model {
    /// A node does something: all of it, or with a crash before each of its outputs.
    pub(super) fn act(
        &self,
        world: &World,
        at: usize,
        payload: &[u8],
        label: &'static str,
        next: &mut Vec<Next>,
        input: impl FnOnce(&mut Member, &mut Vec<Output>),
    ) {
        let (before, mut member) = (&world.nodes[at].member, world.nodes[at].member.clone());
        let mut out = Vec::new();
        input(&mut member, &mut out);
        // Most messages arrive late, and most repetitions are in the network already.
        let is_repeated = |output: &Output| match output {
            Output::Send(to, message) if !has_payload(&message.body) => {
                let message = as_the_coordinator_reads_it(message);
                let envelope = |message| Envelope { to: index(to), message, payload: Vec::new() };
                message.is_none_or(|message| world.net.contains(&envelope(message)))
            }
            Output::Compare(_) => true,
            _ => false,
        };
        let is_same = (before.sources(), before.targets()) == (member.sources(), member.targets());
        if is_same && out.iter().all(is_repeated) {
            return;
        }
        let mut after = world.clone();
        after.nodes[at].member = member;
        if world.left.crashes > 0 {
            for done in 0..out.len() {
                let mut crashed = world.clone();
                out[..done].iter().for_each(|output| self.execute(&mut crashed, at, output, payload));
                self.crash(&mut crashed, at);
                next.push((label, Kind::Fault, crashed));
            }
        }
        for output in &out {
            self.execute(&mut after, at, output, payload);
        }
        next.push((label, Kind::Normal, after));
    }

    pub(super) fn coordinate(
        &self,
        world: &World,
        label: &'static str,
        next: &mut Vec<Next>,
        input: impl FnOnce(&mut Coordinator, &mut Vec<Order>),
    ) {
        let (before, mut coordinator) = (&world.coordinator, world.coordinator.clone());
        let mut out = Vec::new();
        input(&mut coordinator, &mut out);
        let is_same =
            before.unwanted() == coordinator.unwanted() && Arc::ptr_eq(before.table(), coordinator.table());
        if is_same && out.is_empty() {
            return;
        }
        let mut after = World { coordinator, ..world.clone() };
        for order in out {
            match order {
                Order::Change(Edit::Finish(id), _) => drop(after.orders.insert(Op::Finish(id))),
                Order::Change(Edit::Abort(id), _) => drop(after.orders.insert(Op::Abort(id))),
                Order::Change(edit, _) => panic!("the operator begins, not {edit:?}"),
                Order::Send(to, message) => {
                    if self.is(Broken::FinishesEarly) {
                        after.orders.insert(Op::Finish(message.id));
                    }
                    after.net.insert(Envelope { to: index(&to), message, payload: Vec::new() });
                }
            }
        }
        next.push((label, Kind::Normal, after));
    }

    fn execute(&self, world: &mut World, at: usize, output: &Output, payload: &[u8]) {
        let node = &mut world.nodes[at];
        let disk = &mut node.disk;
        match output {
            Output::PersistTable(table) => {
                let tables = self.tables.borrow();
                disk.table = tables.list.iter().position(|other| Arc::ptr_eq(other, table)).unwrap();
            }
            Output::PersistSource(record) => {
                disk.sources.retain(|other| other.migration.id != record.migration.id);
                if !(self.is(Broken::ForgetsFreeze) && matches!(record.stage, SourceStage::Frozen(_))) {
                    disk.sources.push(record.clone());
                }
            }
            Output::ForgetSource(id) => disk.sources.retain(|record| record.migration.id != *id),
            Output::PersistTarget(record) => {
                disk.targets.retain(|other| other.migration.id != record.migration.id);
                disk.targets.push(record.clone());
            }
            Output::ForgetTarget(id) => disk.targets.retain(|record| record.migration.id != *id),
            Output::ClearStaging(_) if self.is(Broken::KeepsStaging) => {}
            Output::ClearStaging(id) => disk.staging.retain(|staged| staged.0 != *id),
            Output::Stage(id) => stage(disk, *id, payload),
            Output::Send(to, message) => {
                let payload = match message.body {
                    Body::Snapshot { through } => node.data[..through.0 as usize].to_vec(),
                    // Where it begins, then the writes.
                    Body::Changes { after, through, .. } => {
                        let writes = &node.data[(after.0 as usize).min(node.data.len())
                            ..(through.0 as usize).min(node.data.len())];
                        std::iter::once(after.0 as u8 | CHANGES).chain(writes.iter().copied()).collect()
                    }
                    _ => Vec::new(),
                };
                if let Some(message) = as_the_coordinator_reads_it(message) {
                    world.net.insert(Envelope { to: index(to), message, payload });
                }
            }
            // The node does them later: see `local_work`.
            Output::Seal(..) | Output::Compare(_) | Output::Promote(_) | Output::Delete(_) => {}
            Output::Release(id, release) => {
                let (released, waiting) =
                    std::mem::take(&mut node.parked).into_iter().partition(|parked| parked.0 == *id);
                let released: Vec<(MigrationId, u8)> = released;
                node.parked = waiting;
                if *release == Release::Run {
                    node.data.extend(released.into_iter().map(|(_, write)| write));
                }
            }
        }
    }

    pub(super) fn crash(&self, world: &mut World, at: usize) {
        world.left.crashes -= 1;
        let node = &mut world.nodes[at];
        node.data.truncate(node.durable);
        if self.is(Broken::ForgetsStaging) {
            node.disk.staging.clear();
        }
        self.restart(world, at);
    }

    pub(super) fn restart(&self, world: &mut World, at: usize) {
        let node = &mut world.nodes[at];
        node.parked.clear();
        node.known = node.disk.table;
        let (sources, targets) = (node.disk.sources.clone(), node.disk.targets.clone());
        let mut out = Vec::new();
        node.member = Member::restart(
            node.member.id().clone(),
            self.table(node.disk.table),
            sources,
            targets,
            &mut out,
        );
        for output in &out {
            self.execute(world, at, output, &[]);
        }
    }
}

/// Without what makes no difference to it, which merges states. `None` for a message that it ignores.
fn as_the_coordinator_reads_it(message: &Message) -> Option<Message> {
    let body = match message.body {
        Body::Progress(Progress::Copying) => return None,
        Body::Progress(Progress::Tailing { lag }) if lag <= HAND_OVER_LAG_MAX => {
            Body::Progress(Progress::Tailing { lag: 0 })
        }
        body => body,
    };
    Some(Message { body, ..message.clone() })
}

/// Marks the first byte of the payload of `Changes`.
const CHANGES: u8 = 0x80;

/// Adds writes where they belong; what is there already stays the same.
fn stage(disk: &mut Disk, id: MigrationId, payload: &[u8]) {
    if !disk.staging.iter().any(|staged| staged.0 == id) {
        disk.staging.push((id, Vec::new()));
    }
    let staged = disk.staging.iter_mut().find(|staged| staged.0 == id).unwrap();
    let (from, writes) = match payload.split_first() {
        Some((first, writes)) if first & CHANGES != 0 => (usize::from(first & !CHANGES), writes),
        _ => (0, payload),
    };
    staged.1.truncate(from);
    staged.1.extend(writes);
}

pub(super) fn delete(node: &mut Node) {
    node.data.clear();
    node.durable = 0;
}

pub(super) fn seal_of_node(node: &Node) -> Option<Sealed> {
    node.member.sources().iter().find_map(|source| match source.phase() {
        SourcePhase::Durable(SourceStage::Frozen(sealed)) => Some(sealed),
        _ => None,
    })
}

pub(super) fn seal_of(world: &World, id: MigrationId) -> Option<Sealed> {
    let is_of = |node: &&Node| node.member.sources().iter().any(|source| source.migration().id == id);
    world.nodes.iter().find(is_of).and_then(seal_of_node)
}

fn index(to: &Recipient) -> Option<usize> {
    match to {
        Recipient::Node(id) => NAMES.iter().position(|name| *name == id.as_str()),
        Recipient::Coordinator => None,
    }
}

/// Whether writes travel with it.
fn has_payload(body: &Body) -> bool {
    matches!(body, Body::Snapshot { .. } | Body::Changes { .. })
}

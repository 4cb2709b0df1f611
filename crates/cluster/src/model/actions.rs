//! Everything that can happen next in a state.

use super::execute::{delete, seal_of, seal_of_node};
use super::*;
use crate::migration::source::{Feed, SourceStage};
use crate::migration::{Digest, Progress, Sealed};
use keystead_core::Revision;

/// What happened. Of a fault nobody may depend, so the way to a good end must do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Fault,
}

pub(super) type Next = (&'static str, Kind, World);

/// The digest of a list of writes.
fn digest(data: &[u8]) -> Digest {
    let record = |digest: Digest, (at, write): (usize, &u8)| digest.with(at as u64, &[*write]);
    data.iter().enumerate().fold(Digest::default(), record)
}

fn revision(data: &[u8]) -> Revision {
    Revision(data.len() as u64)
}

impl Model {
    pub(super) fn next(&self, world: &World) -> Vec<Next> {
        let mut next = Vec::new();
        self.deliveries(world, &mut next);
        self.store_and_operator(world, &mut next);
        for at in 0..self.nodes {
            self.clients(world, at, &mut next);
            self.local_work(world, at, &mut next);
            self.faults_of_node(world, at, &mut next);
        }
        if !world.net.is_empty() || !world.orders.is_empty() {
            let lost = World { net: BTreeSet::new(), orders: BTreeSet::new(), ..world.clone() };
            next.push(("all messages are lost", Kind::Fault, lost));
        }
        next.iter_mut().for_each(|(_, _, world)| self.drop_what_everybody_ignores(world));
        next
    }

    /// Removes messages and orders that can never again have an effect, which merges states: those of migrations that have ended for
    /// everybody, because roles follow the table and nobody's table goes back.
    fn drop_what_everybody_ignores(&self, world: &mut World) {
        if matches!(self.broken, Some(Broken::GoesBack | Broken::FinishesAnything)) {
            return;
        }
        let tables = world.nodes.iter().map(|node| node.known).chain([world.coordinator_known, world.store]);
        let tables: Vec<_> = tables.map(|number| self.table(number)).collect();
        let is_under_way = |id: MigrationId| tables.iter().any(|table| table.migration(id).is_some());
        // A migration that somebody has not heard of yet is not over for him.
        let is_news = |id: MigrationId| tables.iter().any(|table| table.begun() < id.0);
        let has_role = |id: MigrationId| {
            let roles = |node: &Node| {
                node.member.sources().iter().any(|source| source.migration().id == id)
                    || node.member.targets().iter().any(|target| target.migration().id == id)
            };
            world.nodes.iter().any(roles)
        };
        let matters = |id| is_under_way(id) || is_news(id) || has_role(id);
        world.net.retain(|envelope| matters(envelope.message.id));
        let store = self.table(world.store);
        world
            .orders
            .retain(|op| matches!(op, Op::Finish(id) | Op::Abort(id) if store.migration(*id).is_some()));
    }

    fn deliveries(&self, world: &World, next: &mut Vec<Next>) {
        for envelope in &world.net {
            let Some(at) = envelope.to else {
                self.coordinate(world, "coordinator receives", next, |coordinator, out| {
                    coordinator.receive(&envelope.message, out);
                });
                continue;
            };
            let body = envelope.message.body;
            let feed =
                Feed { oldest: Revision(0), through: Revision(world.nodes[at].durable as u64), lag: 0 };
            self.act(world, at, &envelope.payload, body_name(&body), next, |member, out| {
                member.receive(&envelope.message, feed, out);
            });
            if let (true, Body::Tail { after }, Some((.., last))) =
                (self.is(Broken::DeletesEarly), body, next.last_mut())
            {
                let has_all = |sealed: Sealed| sealed.revision == after;
                if seal_of_node(&last.nodes[at]).is_some_and(has_all) {
                    delete(&mut last.nodes[at]);
                }
            }
            if let Body::Tail { after } = body
                && feed.through > after.next()
            {
                let small = Feed { through: after.next(), ..feed };
                self.act(world, at, &[], "a small batch", next, |member, out| {
                    member.receive(&envelope.message, small, out);
                });
            }
            if matches!(body, Body::Tail { .. }) && world.left.discards > 0 {
                let mut fewer = world.clone();
                fewer.left.discards -= 1;
                let nothing = Feed { oldest: Revision(u64::MAX), ..feed };
                self.act(&fewer, at, &[], "the feed was discarded", next, |member, out| {
                    member.receive(&envelope.message, nothing, out);
                });
            }
        }
    }

    fn store_and_operator(&self, world: &World, next: &mut Vec<Next>) {
        let mut change = |op: Op, label: &'static str, left: Budget| {
            if let Some(store) = self.changed(world.store, op) {
                next.push((label, Kind::Normal, World { store, left, ..world.clone() }));
            }
        };
        for op in &world.orders {
            change(*op, if matches!(op, Op::Finish(_)) { "finish" } else { "abort" }, world.left);
        }
        if world.left.begins > 0 {
            let left = Budget { begins: world.left.begins - 1, ..world.left };
            (0..self.nodes).for_each(|to| change(Op::Begin(to), "begin", left));
        }
        for number in self.newer(world.coordinator_known, world.store) {
            let mut read = world.clone();
            read.coordinator_known = number;
            self.coordinate(&read, "coordinator reads the table", next, |coordinator, out| {
                coordinator.learn(self.table(number), out).unwrap();
            });
        }
        self.coordinate(world, "coordinator repeats", next, |coordinator, out| coordinator.tick(out));
        let known = self.table(world.coordinator_known);
        if let Some(migration) = known.migrations().next()
            && world.left.aborts > 0
        {
            let mut unwanted = world.clone();
            unwanted.left.aborts -= 1;
            let id = migration.id;
            self.coordinate(&unwanted, "operator aborts", next, |coordinator, out| {
                coordinator.abort(id, out);
            });
        }
        if !world.coordinator.unwanted().is_empty() {
            let restarted = World { coordinator: Coordinator::new(known), ..world.clone() };
            next.push(("coordinator crashes", Kind::Fault, restarted));
        }
    }

    fn clients(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        let node = &world.nodes[at];
        if world.left.writes > 0 {
            let mut written = world.clone();
            written.left.writes -= 1;
            written.written += 1;
            if self.serves(node) {
                written.nodes[at].data.push(written.written);
                next.push(("write", Kind::Normal, written));
            } else if let Access::Park(id) = node.member.access(SLOT)
                && written.nodes[at].member.park(id)
            {
                let write = written.written;
                written.nodes[at].parked.push((id, write));
                next.push(("write waits", Kind::Normal, written));
            }
        }
        if node.durable < node.data.len() {
            let mut durable = world.clone();
            durable.nodes[at].durable = node.data.len();
            durable.acknowledged.extend(&node.data);
            next.push(("writes are durable", Kind::Normal, durable));
        }
        if let Some((id, _)) = node.parked.first() {
            let mut expired = world.clone();
            expired.nodes[at].member.expired(*id, 1);
            expired.nodes[at].parked.remove(0);
            if self.is(Broken::ThawsAtDeadline) {
                expired.nodes[at].disk.sources.clear();
                self.restart(&mut expired, at);
            }
            next.push(("a waiting write is rejected", Kind::Normal, expired));
        }
    }

    /// What a node does by itself: it reads the table, asks again, and finishes what it has begun.
    fn local_work(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        let node = &world.nodes[at];
        for number in self.newer(node.known, world.store) {
            let mut read = world.clone();
            read.nodes[at].known = number;
            self.act(&read, at, &[], "node reads the table", next, |member, out| {
                member.learn(self.table(number), out).unwrap();
            });
        }
        if !self.is(Broken::NeverAsksAgain) {
            self.act(world, at, &[], "node asks again", next, |member, out| member.tick(out));
        }
        for source in node.member.sources() {
            let id = source.migration().id;
            match source.phase() {
                SourcePhase::Sealing => {
                    self.seal(world, at, id, next);
                }
                SourcePhase::Durable(SourceStage::Cleaning) => {
                    let mut deleted = world.clone();
                    if !self.is(Broken::NeverDeletes) {
                        delete(&mut deleted.nodes[at]);
                    }
                    self.act(&deleted, at, &[], "deleted", next, |member, out| member.deleted(id, out));
                }
                SourcePhase::Serving | SourcePhase::Durable(SourceStage::Frozen(_)) => {}
            }
        }
        for target in node.member.targets() {
            let id = target.migration().id;
            let staged = node.disk.staging.iter().find(|staged| staged.0 == id);
            if target.is_comparing() {
                let mut of = digest(staged.map_or(&[], |staged| &staged.1));
                if let (true, Some(sealed)) = (self.is(Broken::NoDigest), seal_of(world, id)) {
                    of = sealed.digest;
                }
                self.act(world, at, &[], "compared", next, |member, out| member.compared(id, of, out));
            }
            if target.is_promoting() {
                let mut promoted = world.clone();
                let node = &mut promoted.nodes[at];
                if let Some((_, staged)) = staged {
                    (node.data, node.durable) = (staged.clone(), staged.len());
                    node.disk.staging.retain(|staged| staged.0 != id);
                }
                self.act(&promoted, at, &[], "promoted", next, |member, out| member.promoted(id, out));
            }
        }
    }

    fn seal(&self, world: &World, at: usize, id: MigrationId, next: &mut Vec<Next>) {
        let node = &world.nodes[at];
        if node.durable == node.data.len() || self.is(Broken::SealsBeforeDurable) {
            let sealed =
                Sealed { revision: revision(&node.data), digest: digest(&node.data), compares_after_ms: 0 };
            self.act(world, at, &[], "sealed", next, |member, out| {
                // The only attempt under way is the last one.
                (1..=3).for_each(|attempt| member.sealed(id, attempt, sealed, out));
            });
        }
        if world.left.give_ups > 0 {
            let mut fewer = world.clone();
            fewer.left.give_ups -= 1;
            self.act(&fewer, at, &[], "sealing took too long", next, |member, out| {
                member.give_up_sealing(id, out);
            });
        }
    }

    fn faults_of_node(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        if world.left.crashes > 0 {
            let mut crashed = world.clone();
            self.crash(&mut crashed, at);
            next.push(("crash", Kind::Fault, crashed));
        }
        let staged = world.nodes[at].disk.staging.iter().position(|staged| !staged.1.is_empty());
        // Before the comparison: nothing protects data from a disk that changes it afterwards.
        let is_compared =
            world.nodes[at].disk.targets.iter().any(|target| target.stage == TargetStage::Ready);
        if let (true, Some(staged)) = (world.left.damages > 0 && !is_compared, staged) {
            let mut damaged = world.clone();
            damaged.left.damages -= 1;
            // The position stays: something else is there instead.
            damaged.nodes[at].disk.staging[staged].1[0] = u8::MAX;
            next.push(("staging is damaged", Kind::Fault, damaged));
        }
        if self.is(Broken::GoesBack) && world.nodes[at].known > 0 {
            let mut older = world.clone();
            let node = &mut older.nodes[at];
            (node.known, node.disk.table) = (0, 0);
            self.restart(&mut older, at);
            next.push(("an older table", Kind::Normal, older));
        }
    }
}

fn body_name(body: &Body) -> &'static str {
    match body {
        Body::Copy => "Copy",
        Body::Snapshot { .. } => "Snapshot",
        Body::Tail { .. } => "Tail",
        Body::Changes { .. } => "Changes",
        Body::Discarded => "Discarded",
        Body::Progress(Progress::Ready) => "Ready",
        Body::Progress(_) => "Progress",
        Body::HandOver => "HandOver",
    }
}

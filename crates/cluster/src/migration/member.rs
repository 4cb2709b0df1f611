//! A node's part of the protocol: its copy of the table, the migrations in which it takes part, and which requests it may serve.
//!
//! Its roles follow from the table alone, never from a message: a migration that the table has ended cannot begin again, whatever
//! arrives late. The copy of the table is durable before the node acts on it, and never goes back.

use std::sync::Arc;

use super::source::Feed;
use super::{Digest, Message, Output, Parked, Sealed, Source, SourceRecord, Target, TargetRecord};
use crate::node::NodeId;
use crate::table::{Epoch, Migration, MigrationId, SlotTable, Standing, TableError};

/// What a node does with a request for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It runs.
    Serve,
    /// It waits for this migration, if [`Member::park`] has room, and for a bounded time.
    Park(MigrationId),
    /// Another node owns the slot, as of an epoch: `MOVED` over RESP, 421 over HTTP.
    Moved(NodeId, Epoch),
    /// Nobody owns the slot, or its owner has not got its data: `CLUSTERDOWN`, 503.
    Down,
}

/// A node. See the [module](self).
#[derive(Clone, Debug)]
pub struct Member {
    id: NodeId,
    table: Arc<SlotTable>,
    sources: Vec<Source>,
    targets: Vec<Target>,
}

impl Member {
    /// A node that starts, from what it has persisted. `out` gets what there is to do.
    #[must_use]
    pub fn restart(
        id: NodeId,
        table: Arc<SlotTable>,
        sources: Vec<SourceRecord>,
        targets: Vec<TargetRecord>,
        out: &mut Vec<Output>,
    ) -> Member {
        let sources = sources.into_iter().map(|record| Source::restart(record, out)).collect();
        let targets = targets.into_iter().map(|record| Target::restart(record, out)).collect();
        let mut member = Member { id, table, sources, targets };
        member.reconcile(out);
        member.tick(out);
        member
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// Its copy of the table.
    #[must_use]
    pub fn table(&self) -> &Arc<SlotTable> {
        &self.table
    }

    /// The migrations from it.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The migrations to it.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// What to do with a request for a slot.
    #[must_use]
    pub fn access(&self, slot: u16) -> Access {
        let Some(owner) = self.table.owner(slot) else { return Access::Down };
        if owner.id != self.id {
            return Access::Moved(owner.id.clone(), self.table.epoch());
        }
        let is_of = |migration: &Migration| migration.slots.contains(slot);
        if let Some(source) = self.sources.iter().find(|source| is_of(source.migration()) && !source.serves())
        {
            return Access::Park(source.id());
        }
        match self.targets.iter().find(|target| is_of(target.migration())) {
            Some(target) if target.is_cheated() => Access::Down,
            Some(target) => Access::Park(target.id()),
            None => Access::Serve,
        }
    }

    /// Whether one more request may wait for a migration. If not, it is rejected, *not applied*.
    pub fn park(&mut self, id: MigrationId) -> bool {
        self.parked(id).is_some_and(Parked::add)
    }

    /// So many requests that waited for a migration were rejected, because their deadline has passed.
    pub fn expired(&mut self, id: MigrationId, count: usize) {
        if let Some(parked) = self.parked(id) {
            parked.expire(count);
        }
    }

    fn parked(&mut self, id: MigrationId) -> Option<&mut Parked> {
        let source =
            self.sources.iter_mut().find(|source| source.id() == id).map(|source| &mut source.parked);
        let mut targets = self.targets.iter_mut();
        source.or_else(|| targets.find(|target| target.id() == id).map(|target| &mut target.parked))
    }

    /// A table was read.
    ///
    /// # Errors
    /// `OtherCluster`, `OlderEpoch`: nothing has changed.
    pub fn learn(&mut self, table: Arc<SlotTable>, out: &mut Vec<Output>) -> Result<(), TableError> {
        self.table.may_be_followed_by(&table)?;
        if table.epoch() > self.table.epoch() {
            out.push(Output::PersistTable(Arc::clone(&table)));
            self.table = table;
            self.reconcile(out);
        }
        Ok(())
    }

    /// Sends again what has got no answer. Call it regularly.
    pub fn tick(&self, out: &mut Vec<Output>) {
        for source in &self.sources {
            source.tick(out);
        }
        for target in &self.targets {
            target.tick(out);
        }
    }

    /// A message. For `Copy` and `Tail` the feed says what can be sent.
    pub fn receive(&mut self, message: &Message, feed: Feed, out: &mut Vec<Output>) {
        if let Some(source) = self.source(message.id) {
            source.receive(&message.body, feed, out);
        } else if let Some(target) = self.target(message.id) {
            target.receive(&message.body, out);
        }
    }

    /// [`Output::Seal`] is done.
    pub fn sealed(&mut self, id: MigrationId, attempt: u32, sealed: Sealed, out: &mut Vec<Output>) {
        if let Some(source) = self.source(id) {
            source.sealed(attempt, sealed, out);
        }
    }

    /// [`Output::Seal`] takes too long.
    pub fn give_up_sealing(&mut self, id: MigrationId, out: &mut Vec<Output>) {
        if let Some(source) = self.source(id) {
            source.give_up_sealing(out);
        }
    }

    /// [`Output::Compare`] is done.
    pub fn compared(&mut self, id: MigrationId, digest: Digest, out: &mut Vec<Output>) {
        if let Some(target) = self.target(id) {
            target.compared(digest, out);
        }
    }

    /// [`Output::Promote`] is done.
    pub fn promoted(&mut self, id: MigrationId, out: &mut Vec<Output>) {
        if let Some(target) = self.target(id).filter(|target| target.is_promoting()) {
            target.promoted(out);
            self.targets.retain(|target| target.id() != id);
            // A migration on to another node waited for it.
            self.reconcile(out);
        }
    }

    /// [`Output::Delete`] is done.
    pub fn deleted(&mut self, id: MigrationId, out: &mut Vec<Output>) {
        let is_ended = |source: &Source| source.id() == id && self.table.migration(id).is_none();
        if self.sources.iter().any(is_ended) {
            out.push(Output::ForgetSource(id));
            self.sources.retain(|source| source.id() != id);
            // A migration back to this node waited for it.
            self.reconcile(out);
        }
    }

    fn source(&mut self, id: MigrationId) -> Option<&mut Source> {
        self.sources.iter_mut().find(|source| source.id() == id)
    }

    fn target(&mut self, id: MigrationId) -> Option<&mut Target> {
        self.targets.iter_mut().find(|target| target.id() == id)
    }

    /// Makes the roles those of the table.
    fn reconcile(&mut self, out: &mut Vec<Output>) {
        let (table, me) = (Arc::clone(&self.table), self.id.clone());
        self.sources.retain_mut(|source| match table.standing(source.migration()) {
            Standing::UnderWay => true,
            Standing::Ended(owner) if owner.as_ref() == Some(&me) => {
                source.aborted(out);
                false
            }
            Standing::Ended(_) => {
                source.moved(out);
                true
            }
        });
        self.targets.retain_mut(|target| match table.standing(target.migration()) {
            Standing::UnderWay => true,
            Standing::Ended(owner) if owner.as_ref() == Some(&me) => {
                target.owned(out);
                true
            }
            Standing::Ended(_) => {
                target.aborted(out);
                false
            }
        });
        for migration in table.migrations() {
            self.begin(migration, out);
        }
    }

    /// Takes a role in a migration, when an earlier role of this node with the same slots is over. What is still to be deleted must
    /// not delete what comes now, and what is still to become visible must not be missing from what goes now.
    fn begin(&mut self, migration: &Migration, out: &mut Vec<Output>) {
        let is_other = |other: &Migration| !other.slots.overlaps(&migration.slots);
        let is_free = self.sources.iter().all(|source| is_other(source.migration()))
            && self.targets.iter().all(|target| is_other(target.migration()));
        if migration.from == self.id && is_free {
            self.sources.push(Source::new(migration.clone()));
        } else if migration.to == self.id && is_free {
            let target = Target::start(migration.clone(), out);
            target.tick(out);
            self.targets.push(target);
        }
    }
}

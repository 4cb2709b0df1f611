//! Every change of the table, as a pure function from one table to the next. Each returns a table with the next epoch, or why not;
//! there is no other way to change one. A change that names a migration applies to that one only: repeated, or late, it is
//! `NoSuchMigration`.

use keystead_core::key::shard_of_slot;

use super::{Migration, MigrationId, NOBODY, SlotTable, TableError};
use crate::bounds::{MIGRATION_SLOTS_MAX, MIGRATIONS_MAX, NODES_MAX};
use crate::node::{Node, NodeId, NodeState};
use crate::ring::Ring;
use crate::slots::SlotSet;
use crate::table::Epoch;

/// Slots that should go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// What moves.
    pub slots: SlotSet,
    /// The owner.
    pub from: NodeId,
    /// The next owner.
    pub to: NodeId,
}

/// A change of the table as a value, for [`TableStep`](super::TableStep).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The first table: [`SlotTable::init`].
    Init {
        /// The name of the cluster.
        cluster: String,
        /// The nodes, among which the slots are shared out.
        nodes: Vec<Node>,
    },
    /// [`SlotTable::add`].
    Add(Node),
    /// [`SlotTable::update`].
    Update(Node),
    /// [`SlotTable::leave`].
    Leave(NodeId),
    /// [`SlotTable::stay`].
    Stay(NodeId),
    /// [`SlotTable::remove`].
    Remove(NodeId),
    /// [`SlotTable::assign`].
    Assign(SlotSet, NodeId),
    /// [`SlotTable::begin`].
    Begin(Vec<Move>),
    /// [`SlotTable::finish`].
    Finish(MigrationId),
    /// [`SlotTable::abort`].
    Abort(MigrationId),
}

impl Edit {
    /// The next table.
    ///
    /// # Errors
    /// Those of the function of the variant; `NoTable` where there is none yet, and `Exists` for a second first one.
    pub fn apply(&self, table: Option<&SlotTable>) -> Result<SlotTable, TableError> {
        let table = match (self, table) {
            (Edit::Init { cluster, nodes }, None) => return SlotTable::init(cluster, nodes.clone()),
            (Edit::Init { .. }, Some(table)) => return Err(TableError::Exists(table.epoch)),
            (_, None) => return Err(TableError::NoTable),
            (_, Some(table)) => table,
        };
        match self {
            Edit::Init { .. } => Err(TableError::Exists(table.epoch)),
            Edit::Add(node) => table.add(node.clone()),
            Edit::Update(node) => table.update(node.clone()),
            Edit::Leave(node) => table.leave(node),
            Edit::Stay(node) => table.stay(node),
            Edit::Remove(node) => table.remove(node),
            Edit::Assign(slots, node) => table.assign(slots, node),
            Edit::Begin(moves) => table.begin(moves),
            Edit::Finish(id) => table.finish(*id),
            Edit::Abort(id) => table.abort(*id),
        }
    }
}

impl SlotTable {
    /// The first table, with epoch 1: the slots are shared out by the ring. Without nodes all slots stay without an owner.
    ///
    /// # Errors
    /// When a name or a node is not valid.
    pub fn init(cluster: &str, nodes: Vec<Node>) -> Result<SlotTable, TableError> {
        let mut table = SlotTable::unassigned(Epoch(1), cluster.to_owned(), nodes)?;
        let plan = Ring::of(&table.nodes).plan(&table);
        for (slot, owner) in plan.owners().enumerate() {
            if let Some(at) = owner.and_then(|owner| table.position(owner)) {
                table.owners[slot] = at as u16;
            }
        }
        Ok(table)
    }

    /// Adds a node, which owns nothing yet.
    ///
    /// # Errors
    /// `DuplicateNode`, `TooManyNodes`, or that the node is not valid.
    pub fn add(&self, node: Node) -> Result<SlotTable, TableError> {
        node.validate()?;
        if self.nodes.len() >= NODES_MAX {
            return Err(TableError::TooManyNodes);
        }
        let Err(at) = self.nodes.binary_search_by(|other| other.id.cmp(&node.id)) else {
            return Err(TableError::DuplicateNode(node.id));
        };
        let mut next = self.next();
        next.nodes.insert(at, node);
        next.reindex(|owner| if owner >= at { owner + 1 } else { owner });
        Ok(next)
    }

    /// Changes addresses, weight or shards of a node. Whether it leaves stays as it is.
    ///
    /// # Errors
    /// `UnknownNode`; `NodeMigrates` when its shards change under a migration from it; or that the node is not valid.
    pub fn update(&self, node: Node) -> Result<SlotTable, TableError> {
        node.validate()?;
        let at = self.known(&node.id)?;
        if node.shards != self.nodes[at].shards {
            self.without_migrations(&node.id)?;
        }
        let mut next = self.next();
        next.nodes[at] = Node { state: self.nodes[at].state, ..node };
        Ok(next)
    }

    /// Marks a node as leaving: a plan then moves its slots to the others.
    ///
    /// # Errors
    /// `UnknownNode`, `NodeLeaves`, `LastNode`.
    pub fn leave(&self, id: &NodeId) -> Result<SlotTable, TableError> {
        let at = self.active(id)?;
        if self.nodes.iter().filter(|node| node.state == NodeState::Active).count() == 1 {
            return Err(TableError::LastNode(id.clone()));
        }
        let mut next = self.next();
        next.nodes[at].state = NodeState::Leaving;
        Ok(next)
    }

    /// Makes a leaving node stay.
    ///
    /// # Errors
    /// `UnknownNode`.
    pub fn stay(&self, id: &NodeId) -> Result<SlotTable, TableError> {
        let at = self.known(id)?;
        let mut next = self.next();
        next.nodes[at].state = NodeState::Active;
        Ok(next)
    }

    /// Removes a node that owns nothing and takes part in no migration.
    ///
    /// # Errors
    /// `UnknownNode`, `NodeOwnsSlots`, `NodeMigrates`.
    pub fn remove(&self, id: &NodeId) -> Result<SlotTable, TableError> {
        let at = self.known(id)?;
        self.without_migrations(id)?;
        match self.slots_owned(id) {
            0 => {}
            slots => return Err(TableError::NodeOwnsSlots { node: id.clone(), slots }),
        }
        let mut next = self.next();
        next.nodes.remove(at);
        next.reindex(|owner| if owner > at { owner - 1 } else { owner });
        Ok(next)
    }

    /// Gives slots that nobody owns to a node. They are empty.
    ///
    /// # Errors
    /// `UnknownNode`, `NodeLeaves`, `SlotAssigned`.
    pub fn assign(&self, slots: &SlotSet, id: &NodeId) -> Result<SlotTable, TableError> {
        let at = self.active(id)?;
        let mut next = self.next();
        for slot in slots.iter() {
            if let Some(owner) = self.owner(slot) {
                return Err(TableError::SlotAssigned { slot, node: owner.id.clone() });
            }
            next.owners[usize::from(slot)] = at as u16;
        }
        Ok(next)
    }

    /// Begins to move slots. Each move is a migration with a number of its own. The owners stay the same.
    ///
    /// # Errors
    /// `UnknownNode`, `NodeLeaves`, `NotOwner`, `SlotMigrates`, `MoveInvalid`, `SpansShards`, `TooManyMigrations`.
    pub fn begin(&self, moves: &[Move]) -> Result<SlotTable, TableError> {
        if moves.is_empty() {
            return Err(TableError::MoveInvalid("there is nothing to move"));
        }
        let mut next = self.next();
        for Move { slots, from, to } in moves {
            let id = MigrationId(next.begun + 1);
            next.insert(Migration { id, slots: slots.clone(), from: from.clone(), to: to.clone() })?;
            next.active(to)?;
            next.begun = id.0;
        }
        Ok(next)
    }

    /// The target owns the slots of a migration, which ends. This one change is what moves them: it may only be made when the
    /// source accepts no more writes and the target has everything, which is what `Ready` of the target means.
    ///
    /// # Errors
    /// `NoSuchMigration`.
    pub fn finish(&self, id: MigrationId) -> Result<SlotTable, TableError> {
        let mut next = self.next();
        let migration = next.migrations.remove(&id).ok_or(TableError::NoSuchMigration(id))?;
        let to = next.known(&migration.to)?;
        for slot in migration.slots.iter() {
            next.owners[usize::from(slot)] = to as u16;
        }
        Ok(next)
    }

    /// The slots of a migration stay where they are, and it ends.
    ///
    /// # Errors
    /// `NoSuchMigration`.
    pub fn abort(&self, id: MigrationId) -> Result<SlotTable, TableError> {
        let mut next = self.next();
        next.migrations.remove(&id).ok_or(TableError::NoSuchMigration(id))?;
        Ok(next)
    }

    fn next(&self) -> SlotTable {
        SlotTable { epoch: self.epoch.next(), ..self.clone() }
    }

    fn reindex(&mut self, position: impl Fn(usize) -> usize) {
        for owner in self.owners.iter_mut().filter(|owner| **owner != NOBODY) {
            *owner = position(usize::from(*owner)) as u16;
        }
    }

    fn active(&self, id: &NodeId) -> Result<usize, TableError> {
        let at = self.known(id)?;
        match self.nodes[at].state {
            NodeState::Active => Ok(at),
            NodeState::Leaving => Err(TableError::NodeLeaves(id.clone())),
        }
    }

    fn without_migrations(&self, id: &NodeId) -> Result<(), TableError> {
        match self.migrations.values().find(|migration| migration.from == *id || migration.to == *id) {
            Some(migration) => Err(TableError::NodeMigrates { node: id.clone(), id: migration.id }),
            None => Ok(()),
        }
    }

    /// Checks a migration and adds it. The target may be leaving by now, if the migration began before.
    pub(super) fn insert(&mut self, migration: Migration) -> Result<(), TableError> {
        let Migration { id, slots, from, to } = &migration;
        if slots.is_empty() || slots.len() > MIGRATION_SLOTS_MAX {
            return Err(TableError::MoveInvalid("it has no slots, or too many"));
        }
        if from == to {
            return Err(TableError::MoveInvalid("source and target are the same node"));
        }
        if self.migrations.len() >= MIGRATIONS_MAX {
            return Err(TableError::TooManyMigrations);
        }
        self.known(to)?;
        let (source, shards) = (self.known(from)?, self.nodes[self.known(from)?].shards);
        if let Some(slot) = slots.iter().find(|slot| usize::from(self.owners[usize::from(*slot)]) != source) {
            return Err(TableError::NotOwner { slot, node: from.clone() });
        }
        let shard_of = |slot| shard_of_slot(slot, usize::from(shards));
        let shard = slots.first().map(shard_of);
        if slots.iter().any(|slot| Some(shard_of(slot)) != shard) {
            return Err(TableError::SpansShards { node: from.clone(), shards });
        }
        for other in self.migrations.values() {
            if let Some(slot) = slots.iter().find(|slot| other.slots.contains(*slot)) {
                return Err(TableError::SlotMigrates { slot, id: other.id });
            }
        }
        self.migrations.insert(*id, migration);
        Ok(())
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;

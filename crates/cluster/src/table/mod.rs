//! The slot table: which node owns each slot, at which epoch, and which slots are moving.
//!
//! | To find | open |
//! |---|---|
//! | changes as pure functions, each with the next epoch | [`edit`] |
//! | the JSON form | [`json`] |
//! | a change as a step, for any store | [`step`] |
//! | why something is rejected | [`TableError`] |
//!
//! Every table that exists is valid: there is no way to make another one. Every slot has at most one owner, because it is one cell of
//! an array. Epochs only grow, because only [`edit`] makes a table from a table.

pub mod edit;
mod error;
pub mod json;
pub mod step;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use edit::{Edit, Move};
pub use error::TableError;
pub use step::{Stored, TableStep};

use crate::bounds::SLOTS;
use crate::node::{Node, NodeId};
use crate::slots::{SlotRange, SlotSet};

/// The version of the JSON form.
pub const FORMAT: u32 = 1;

/// The number of a table: the first is 1, and every change has the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a migration. The table gives them out, and never one twice, so what was said of one migration is never taken for
/// another of the same slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MigrationId(pub u64);

impl fmt::Display for MigrationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Slots that are moving. They belong to `from` until the migration has finished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// Its number.
    pub id: MigrationId,
    /// What moves, all together.
    pub slots: SlotSet,
    /// The owner.
    pub from: NodeId,
    /// The next owner.
    pub to: NodeId,
}

/// What a table says of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is in the table.
    UnderWay,
    /// It is not, and this node owns its slots.
    Ended(Option<NodeId>),
}

/// No owner.
const NOBODY: u16 = u16::MAX;

/// Which node owns each slot, at an epoch. See the [module](self).
#[derive(Clone, PartialEq, Eq)]
pub struct SlotTable {
    epoch: Epoch,
    /// The number of the last migration that began.
    begun: u64,
    cluster: String,
    migrations: BTreeMap<MigrationId, Migration>,
    /// Sorted by id.
    nodes: Vec<Node>,
    /// For each slot the position of its owner in `nodes`, or `NOBODY`.
    owners: Box<[u16]>,
}

impl SlotTable {
    /// Its epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The name of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The nodes, sorted by id.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|at| &self.nodes[at])
    }

    /// The owner of a slot. `None` for a slot that nobody owns, or that does not exist.
    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// The owner of a key.
    #[must_use]
    pub fn owner_of_key(&self, key: &[u8]) -> Option<&Node> {
        self.owner(keystead_core::key::slot(key))
    }

    /// How many migrations have begun since the first table. The last one has this number.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The migrations under way, by number.
    pub fn migrations(&self) -> impl ExactSizeIterator<Item = &Migration> {
        self.migrations.values()
    }

    /// A migration under way.
    #[must_use]
    pub fn migration(&self, id: MigrationId) -> Option<&Migration> {
        self.migrations.get(&id)
    }

    /// The migration under way that moves this slot.
    #[must_use]
    pub fn migration_of(&self, slot: u16) -> Option<&Migration> {
        self.migrations.values().find(|migration| migration.slots.contains(slot))
    }

    /// What became of a migration. Its slots may have moved on since it ended.
    #[must_use]
    pub fn standing(&self, migration: &Migration) -> Standing {
        match self.migrations.contains_key(&migration.id) {
            true => Standing::UnderWay,
            false => {
                let owner = migration.slots.first().and_then(|slot| self.owner(slot));
                Standing::Ended(owner.map(|node| node.id.clone()))
            }
        }
    }

    /// How many slots a node owns.
    #[must_use]
    pub fn slots_owned(&self, id: &NodeId) -> usize {
        let Some(at) = self.position(id) else { return 0 };
        self.owners.iter().filter(|owner| usize::from(**owner) == at).count()
    }

    /// The slots in order, as ranges of one owner each: what `CLUSTER SLOTS` lists.
    pub fn ranges(&self) -> impl Iterator<Item = (SlotRange, Option<&Node>)> {
        let mut first = 0;
        std::iter::from_fn(move || {
            let owner = *self.owners.get(first)?;
            let len = self.owners[first..].iter().take_while(|other| **other == owner).count();
            let range = SlotRange::new(first as u32, (first + len - 1) as u32).ok()?;
            first += len;
            Some((range, self.nodes.get(usize::from(owner))))
        })
    }

    /// Rejects a table that a node which has seen this one must not go back to.
    ///
    /// # Errors
    /// `OtherCluster`, `OlderEpoch`.
    pub fn may_be_followed_by(&self, other: &SlotTable) -> Result<(), TableError> {
        if self.cluster != other.cluster {
            return Err(TableError::OtherCluster {
                ours: self.cluster.clone(),
                theirs: other.cluster.clone(),
            });
        }
        match other.epoch >= self.epoch {
            true => Ok(()),
            false => Err(TableError::OlderEpoch { known: self.epoch, offered: other.epoch }),
        }
    }

    fn position(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.id.cmp(id)).ok()
    }

    fn known(&self, id: &NodeId) -> Result<usize, TableError> {
        self.position(id).ok_or_else(|| TableError::UnknownNode(id.clone()))
    }

    /// A table without owners.
    fn unassigned(epoch: Epoch, cluster: String, mut nodes: Vec<Node>) -> Result<SlotTable, TableError> {
        crate::node::check_name(&cluster)?;
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        if nodes.len() > crate::bounds::NODES_MAX {
            return Err(TableError::TooManyNodes);
        }
        for node in &nodes {
            node.validate()?;
        }
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(TableError::DuplicateNode(pair[0].id.clone()));
        }
        let owners = vec![NOBODY; usize::from(SLOTS)].into_boxed_slice();
        Ok(SlotTable { epoch, begun: 0, cluster, migrations: BTreeMap::new(), nodes, owners })
    }
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

//! Why a table, or a change of it, is rejected. Nothing has changed then.

use std::fmt;

use keystead_core::{Code, Error};

use super::{Epoch, FORMAT, MigrationId};
use crate::bounds::{
    MIGRATION_SLOTS_MAX, MIGRATIONS_MAX, NAME_BYTES_MAX, NODES_MAX, SHARDS_MAX, SLOTS, WEIGHT_MAX,
};
use crate::node::NodeId;

/// Why a table, or a change of it, is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are what the message of the variant says")]
pub enum TableError {
    /// The text is not a table.
    NotATable(String),
    /// A table of an older version of Keystead, which this one does not read.
    OlderFormat(u32),
    /// A table of a newer version of Keystead.
    NewerFormat(u32),
    /// A table of another cluster.
    OtherCluster { ours: String, theirs: String },
    /// A table that is older than one that was seen before.
    OlderEpoch { known: Epoch, offered: Epoch },
    /// There is no table yet.
    NoTable,
    /// There is a table already.
    Exists(Epoch),
    /// The change was planned on another table.
    EpochChanged { planned: Epoch, current: Epoch },
    /// The id of a node or the name of a cluster.
    NameInvalid(String),
    /// An address of a node.
    UrlInvalid { node: NodeId, url: String, expected: &'static str },
    /// The weight of a node.
    WeightInvalid { node: NodeId, weight: u16 },
    /// The number of shards of a node.
    ShardsInvalid { node: NodeId, shards: u16 },
    /// Two nodes with one id.
    DuplicateNode(NodeId),
    /// No such node.
    UnknownNode(NodeId),
    /// More than `NODES_MAX`.
    TooManyNodes,
    /// The last node that takes slots.
    LastNode(NodeId),
    /// A node that leaves gets no slots.
    NodeLeaves(NodeId),
    /// A node with slots cannot be removed.
    NodeOwnsSlots { node: NodeId, slots: usize },
    /// A node with migrations cannot be removed, and its shards cannot change.
    NodeMigrates { node: NodeId, id: MigrationId },
    /// No slot has this number.
    SlotOutOfRange(u32),
    /// A range that ends before it begins.
    RangeReversed { first: u16, last: u16 },
    /// A slot that is listed twice.
    SlotTwice(u16),
    /// A slot that is not listed. One without an owner is listed with `null`.
    SlotMissing(u16),
    /// A slot that has an owner cannot be assigned, only moved.
    SlotAssigned { slot: u16, node: NodeId },
    /// The source of a move does not own the slot.
    NotOwner { slot: u16, node: NodeId },
    /// The slot is moving already.
    SlotMigrates { slot: u16, id: MigrationId },
    /// A move without slots, of too many, or from a node to itself.
    MoveInvalid(&'static str),
    /// A move of slots of two shards of its source.
    SpansShards { node: NodeId, shards: u16 },
    /// More than `MIGRATIONS_MAX`.
    TooManyMigrations,
    /// No such migration is under way: it has finished, was aborted, or never began.
    NoSuchMigration(MigrationId),
    /// Two migrations with one id, or an id that was never given out.
    MigrationIdInvalid(MigrationId),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TableError as E;
        match self {
            E::NotATable(why) => write!(f, "this is not a slot table: {why}"),
            E::OlderFormat(found) => write!(
                f,
                "the slot table has format {found}, older than {FORMAT}: convert it with the version that wrote it"
            ),
            E::NewerFormat(found) => {
                write!(f, "the slot table has format {found}, this version reads {FORMAT}: update this node")
            }
            E::OtherCluster { ours, theirs } => {
                write!(f, "this is the slot table of cluster '{theirs}', and this node belongs to '{ours}'")
            }
            E::OlderEpoch { known, offered } => write!(
                f,
                "the slot table has epoch {offered}, and epoch {known} was seen before: was its store restored from a backup?"
            ),
            E::NoTable => write!(f, "there is no slot table yet: run `keystead cluster init`"),
            E::Exists(epoch) => write!(f, "there is a slot table already, of epoch {epoch}"),
            E::EpochChanged { planned, current } => {
                write!(f, "the slot table changed from epoch {planned} to {current} meanwhile: plan again")
            }
            E::NameInvalid(name) => write!(
                f,
                "'{}' is not a name: 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-'",
                name.escape_debug()
            ),
            E::UrlInvalid { node, url, expected } => write!(
                f,
                "node '{node}': '{}' is not an address like {expected}HOST:PORT",
                url.escape_debug()
            ),
            E::WeightInvalid { node, weight } => {
                write!(f, "node '{node}': a weight is 1 to {WEIGHT_MAX}, not {weight}")
            }
            E::ShardsInvalid { node, shards } => {
                write!(f, "node '{node}': a node has 1 to {SHARDS_MAX} shards, not {shards}")
            }
            E::DuplicateNode(node) => write!(f, "there are two nodes with the id '{node}'"),
            E::UnknownNode(node) => write!(f, "the cluster has no node '{node}'"),
            E::TooManyNodes => write!(f, "a cluster has at most {NODES_MAX} nodes"),
            E::LastNode(node) => write!(f, "node '{node}' is the last one that takes slots"),
            E::NodeLeaves(node) => write!(f, "node '{node}' is leaving and gets no slots"),
            E::NodeOwnsSlots { node, slots } => {
                write!(f, "node '{node}' still owns {slots} slots: move them first")
            }
            E::NodeMigrates { node, id } => {
                write!(f, "node '{node}' takes part in migration {id}: wait for its end, or abort it")
            }
            E::SlotOutOfRange(slot) => write!(f, "slot {slot} is out of range: slots are 0 to {}", SLOTS - 1),
            E::RangeReversed { first, last } => {
                write!(f, "the range of slots {first} to {last} ends before it begins")
            }
            E::SlotTwice(slot) => write!(f, "slot {slot} is listed twice"),
            E::SlotMissing(slot) => {
                write!(f, "slot {slot} is not listed; a slot without an owner is listed with null")
            }
            E::SlotAssigned { slot, node } => write!(f, "slot {slot} belongs to node '{node}': move it"),
            E::NotOwner { slot, node } => write!(f, "slot {slot} does not belong to node '{node}'"),
            E::SlotMigrates { slot, id } => write!(f, "slot {slot} is moving already, in migration {id}"),
            E::MoveInvalid(why) => write!(f, "this is not a move: {why}"),
            E::SpansShards { node, shards } => write!(
                f,
                "a move is of one shard of its source, and node '{node}' has {shards}: cut it with SlotSet::chunks"
            ),
            E::TooManyMigrations => write!(
                f,
                "at most {MIGRATIONS_MAX} migrations of at most {MIGRATION_SLOTS_MAX} slots are under way at a time"
            ),
            E::NoSuchMigration(id) => {
                write!(f, "migration {id} is not under way: it has ended or never began")
            }
            E::MigrationIdInvalid(id) => write!(f, "migration {id} is listed twice or was never begun"),
        }
    }
}

impl std::error::Error for TableError {}

impl From<TableError> for Error {
    fn from(error: TableError) -> Error {
        use TableError as E;
        let code = match &error {
            E::NotATable(_) | E::SlotTwice(_) | E::SlotMissing(_) | E::MigrationIdInvalid(_) => Code::Corrupt,
            E::OlderFormat(_) | E::NewerFormat(_) => Code::Unsupported,
            E::OtherCluster { .. } | E::OlderEpoch { .. } | E::NoTable => Code::ConfigInvalid,
            E::TooManyNodes | E::TooManyMigrations => Code::TooLarge,
            E::Exists(_)
            | E::EpochChanged { .. }
            | E::NodeOwnsSlots { .. }
            | E::NodeMigrates { .. }
            | E::SlotMigrates { .. }
            | E::NotOwner { .. }
            | E::SlotAssigned { .. }
            | E::NoSuchMigration(_) => Code::Conflict,
            _ => Code::BadRequest,
        };
        Error::new(code, error.to_string())
    }
}

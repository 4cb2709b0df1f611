//! Moving slots: copy, tail, hand over, own, clean up. State machines of source, target and coordinator, without data, sockets or time.
//!
//! | To find | open |
//! |---|---|
//! | the node that has the slots | [`source`] |
//! | the node that gets them | [`target`] |
//! | both roles of one node, its copy of the table, who may serve a slot | [`member`] |
//! | who begins, hands over, finishes and aborts | [`coordinator`] |
//! | what is compared before a slot changes hands | [`digest`] |
//!
//! ```text
//!   coordinator            table             source                    target
//!        | begin ----------> |                  |                         |
//!        |                   | (both read the table)                      |
//!        |                   |                  | <---------------- Copy  |  staging, keyed by the migration, invisible
//!        |                   |                  | Snapshot at R --------> |
//!        |                   |                  | <----------- Tail after |  repeated: also acknowledges
//!        |                   |                  | Changes --------------> |
//!        | <------------------------------------------- Progress: lag ----|
//!        | HandOver --------------------------> | parks requests,         |
//!        |                   |                  | writes down F, digest   |  frozen
//!        |                   |                  | Changes to F, sealed -> | compares, writes down: ready
//!        | <------------------------------------------- Progress: ready --|
//!        | finish ---------> | epoch + 1: the target owns                 |
//!        |                   | (both read the table)                      |
//!        |                   |                  | answers MOVED, deletes  | staging becomes visible, serves
//! ```
//!
//! Who embeds these machines executes their [`Output`]s in order, each one durable or done before the next one begins. It may crash
//! between any two: [`Member::restart`](member::Member::restart) continues from what was persisted. Messages may be lost, late,
//! repeated and out of order. Data travels with `Snapshot` and `Changes`; it is absolute (this key has this value, version and
//! expiry), so staging what was staged before changes nothing.
//!
//! Why no acknowledged write is lost and no two nodes serve a slot: `docs/adr/0026-slots-ring-and-moves.md`.

pub mod coordinator;
pub mod digest;
pub mod member;
pub mod source;
pub mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use keystead_core::Revision;
use serde::{Deserialize, Serialize};

pub use coordinator::{Coordinator, Order};
pub use digest::Digest;
pub use member::{Access, Member};
pub use source::{Source, SourceRecord};
pub use target::{Target, TargetRecord};

use crate::bounds::PARKED_MAX;
use crate::node::NodeId;
use crate::table::{MigrationId, SlotTable};

/// Everything that the source has of the slots, after which it accepts no write: the last revision, and a digest at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sealed {
    /// The last revision of the source's shard that may contain a change of the slots.
    pub revision: Revision,
    /// What the slots contain then, without what expires before `compares_after_ms`: each side removes that by its own clock.
    pub digest: Digest,
    /// That time.
    pub compares_after_ms: u64,
}

/// A message about one migration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Which migration.
    pub id: MigrationId,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Body {
    /// Target to source: send everything.
    Copy,
    /// Source to target: this was everything, as of a revision.
    Snapshot {
        /// That revision.
        through: Revision,
    },
    /// Target to source: send what changed after this revision, up to which everything is durable.
    Tail {
        /// That revision.
        after: Revision,
    },
    /// Source to target: what changed.
    Changes {
        /// After this revision,
        after: Revision,
        /// up to this one.
        through: Revision,
        /// How many keys have changed after the first revision, also those that did not fit.
        lag: u64,
        /// Where the changes end, when the source accepts no more.
        sealed: Option<Sealed>,
    },
    /// Source to target: the changes after that revision have been discarded. Copy again.
    Discarded,
    /// Target to coordinator: how far it is.
    Progress(Progress),
    /// Coordinator to source: stop accepting writes, and seal.
    HandOver,
}

/// How far a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Progress {
    /// It copies.
    Copying,
    /// It follows, and so many keys had changed when it asked last.
    Tailing {
        /// That number.
        lag: u64,
    },
    /// It has everything up to the seal, durable and compared. This stays true until the table ends the migration.
    Ready,
    /// The digests differ. Abort, and begin again.
    Differs,
}

/// To whom a message goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recipient {
    /// A node.
    Node(NodeId),
    /// Every coordinator that listens.
    Coordinator,
}

/// How requests that wait are answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// They run: this node owns the slots.
    Run,
    /// With `MOVED` (421 over HTTP): they were not applied.
    Moved,
}

/// What a node must do, in order: each is done, and what it persists is durable, before the next one.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Persist the table.
    PersistTable(Arc<SlotTable>),
    /// Persist this, in place of what was persisted of this migration.
    PersistSource(SourceRecord),
    /// Remove what was persisted of this migration.
    ForgetSource(MigrationId),
    /// Persist this, in place of what was persisted of this migration.
    PersistTarget(TargetRecord),
    /// Remove what was persisted of this migration.
    ForgetTarget(MigrationId),
    /// Remove all staged data of this migration.
    ClearStaging(MigrationId),
    /// Stage the data that came with the message.
    Stage(MigrationId),
    /// Send a message. With `Snapshot` and `Changes` go the durable data that they name.
    Send(Recipient, Message),
    /// Park requests for the slots, wait until every write before is durable, then call [`Member::sealed`](member::Member::sealed)
    /// with this attempt.
    Seal(MigrationId, u32),
    /// Compute the digest of the staged data, then call [`Member::compared`](member::Member::compared).
    Compare(MigrationId),
    /// Move the staged data to the slots, then call [`Member::promoted`](member::Member::promoted). It may be repeated after a crash:
    /// what was moved before stays, and where nothing is staged there is nothing to do.
    Promote(MigrationId),
    /// Delete the data of the slots, then call [`Member::deleted`](member::Member::deleted).
    Delete(MigrationId),
    /// Answer the requests that wait for this migration.
    Release(MigrationId, Release),
}

/// Requests that wait, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Parked(usize);

impl Parked {
    /// Whether there is room for one more, which then waits.
    pub(crate) fn add(&mut self) -> bool {
        let has_room = self.0 < PARKED_MAX;
        self.0 += usize::from(has_room);
        has_room
    }

    /// The deadline of so many has passed.
    pub(crate) fn expire(&mut self, count: usize) {
        self.0 = self.0.saturating_sub(count);
    }

    /// Answers all of them.
    pub(crate) fn release(&mut self, id: MigrationId, release: Release, out: &mut Vec<Output>) {
        if std::mem::take(&mut self.0) > 0 {
            out.push(Output::Release(id, release));
        }
    }
}

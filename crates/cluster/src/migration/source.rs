//! The node that has the slots. It serves them until the hand over, then nothing, until the table ends the migration.
//!
//! ```text
//! Serving --HandOver--> Sealing --sealed, written down--> Frozen --table: the target owns--> Cleaning --deleted--> (none)
//!    ^                     |                                 |
//!    +---deadline, crash---+                                 +--table: aborted--> (none), serves
//! ```
//!
//! Before `Frozen` is durable nobody knows of it, so a deadline or a crash may undo `Sealing`. After that only the table may: a
//! coordinator may have made the target the owner without this node knowing. So a deadline of parked requests ends the waiting of the
//! requests, never the freeze.

use keystead_core::Revision;
use serde::{Deserialize, Serialize};

use super::{Body, Message, Output, Parked, Recipient, Release, Sealed};
use crate::table::{Migration, MigrationId};

/// What is durable of a source: nothing while it serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The migration.
    pub migration: Migration,
    /// How far it is.
    pub stage: SourceStage,
}

/// How far a source is, of what is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SourceStage {
    /// No write is accepted.
    Frozen(Sealed),
    /// The target owns the slots; the data is deleted.
    Cleaning,
}

/// How far a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourcePhase {
    /// It serves the slots as if nothing were moving.
    Serving,
    /// Requests are parked; writes before them become durable.
    Sealing,
    /// As written down.
    Durable(SourceStage),
}

/// What a source can send of its change feed now: the changes after `oldest`, up to `through`, all of them durable. A batch may be
/// bounded by a smaller `through`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// The oldest revision after which the feed has everything.
    pub oldest: Revision,
    /// The last durable revision, or the last one that fits into a batch.
    pub through: Revision,
    /// How many keys have changed after what the target has. A source with a hundred other slots has many revisions and no lag.
    pub lag: u64,
}

/// The source of one migration. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    migration: Migration,
    phase: SourcePhase,
    /// Counts the times it began to seal, so that a late end of one is not taken for that of another.
    attempt: u32,
    pub(crate) parked: Parked,
}

impl Source {
    pub(crate) fn new(migration: Migration) -> Source {
        Source { migration, phase: SourcePhase::Serving, attempt: 0, parked: Parked::default() }
    }

    pub(crate) fn restart(record: SourceRecord, out: &mut Vec<Output>) -> Source {
        if record.stage == SourceStage::Cleaning {
            out.push(Output::Delete(record.migration.id));
        }
        Source { phase: SourcePhase::Durable(record.stage), ..Source::new(record.migration) }
    }

    /// The migration.
    #[must_use]
    pub fn migration(&self) -> &Migration {
        &self.migration
    }

    /// How far it is.
    #[must_use]
    pub fn phase(&self) -> SourcePhase {
        self.phase
    }

    pub(crate) fn id(&self) -> MigrationId {
        self.migration.id
    }

    pub(crate) fn serves(&self) -> bool {
        self.phase == SourcePhase::Serving
    }

    fn sealed_at(&self) -> Option<Sealed> {
        match self.phase {
            SourcePhase::Durable(SourceStage::Frozen(sealed)) => Some(sealed),
            _ => None,
        }
    }

    pub(crate) fn receive(&mut self, body: &Body, feed: Feed, out: &mut Vec<Output>) {
        if self.phase == SourcePhase::Durable(SourceStage::Cleaning) {
            return;
        }
        let sealed = self.sealed_at();
        // The shard's feed goes on with other slots; of these there is nothing after the seal.
        let through = sealed.map_or(feed.through, |sealed| feed.through.min(sealed.revision));
        match *body {
            Body::Copy => self.send(Body::Snapshot { through }, out),
            // After the seal there is nothing, so that a restarted source, which has no older changes either, can say that as well.
            Body::Tail { after } if sealed.is_some_and(|sealed| sealed.revision == after) => {
                self.send(Body::Changes { after, through: after, lag: 0, sealed }, out);
            }
            // A target that is ahead has what a crash has undone here: it begins again.
            Body::Tail { after } if after < feed.oldest || after > through => self.send(Body::Discarded, out),
            Body::Tail { after } => self.send(Body::Changes { after, through, lag: feed.lag, sealed }, out),
            Body::HandOver if self.phase == SourcePhase::Serving => {
                self.phase = SourcePhase::Sealing;
                self.attempt += 1;
                out.push(Output::Seal(self.id(), self.attempt));
            }
            _ => {}
        }
    }

    /// Every write before the parked requests is durable.
    pub(crate) fn sealed(&mut self, attempt: u32, sealed: Sealed, out: &mut Vec<Output>) {
        if self.phase == SourcePhase::Sealing && self.attempt == attempt {
            let stage = SourceStage::Frozen(sealed);
            self.phase = SourcePhase::Durable(stage);
            out.push(Output::PersistSource(SourceRecord { migration: self.migration.clone(), stage }));
        }
    }

    /// Sealing takes too long: the requests run. It may be begun again.
    pub(crate) fn give_up_sealing(&mut self, out: &mut Vec<Output>) {
        if self.phase == SourcePhase::Sealing {
            self.phase = SourcePhase::Serving;
            self.parked.release(self.migration.id, Release::Run, out);
        }
    }

    /// The table has ended the migration, and this node still owns the slots. Nothing is left of it.
    pub(crate) fn aborted(&mut self, out: &mut Vec<Output>) {
        if matches!(self.phase, SourcePhase::Durable(_)) {
            out.push(Output::ForgetSource(self.id()));
        }
        self.phase = SourcePhase::Serving;
        self.parked.release(self.migration.id, Release::Run, out);
    }

    /// Says again what is left to do: deleting may fail.
    pub(crate) fn tick(&self, out: &mut Vec<Output>) {
        if self.phase == SourcePhase::Durable(SourceStage::Cleaning) {
            out.push(Output::Delete(self.id()));
        }
    }

    /// The table has ended the migration, and another node owns the slots.
    pub(crate) fn moved(&mut self, out: &mut Vec<Output>) {
        let stage = SourceStage::Cleaning;
        if self.phase != SourcePhase::Durable(stage) {
            self.phase = SourcePhase::Durable(stage);
            out.push(Output::PersistSource(SourceRecord { migration: self.migration.clone(), stage }));
            self.parked.release(self.migration.id, Release::Moved, out);
            out.push(Output::Delete(self.id()));
        }
    }

    fn send(&self, body: Body, out: &mut Vec<Output>) {
        let to = Recipient::Node(self.migration.to.clone());
        out.push(Output::Send(to, Message { id: self.id(), body }));
    }
}

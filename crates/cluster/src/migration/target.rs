//! The node that gets the slots. It stages them, invisible, until the table makes it their owner.
//!
//! ```text
//! Copying --Snapshot--> Tailing --sealed, all there, digests equal--> Ready --table: this node owns--> Promoting --> (none), serves
//!    ^                     |
//!    +-----Discarded-------+          any of them --table: aborted--> (none), staging removed
//! ```
//!
//! `Ready` is stable: the source is frozen and the staging complete until the table ends the migration. So a coordinator may act on
//! that message however late it arrives.

use keystead_core::Revision;
use serde::{Deserialize, Serialize};

use super::{Body, Digest, Message, Output, Parked, Progress, Recipient, Release, Sealed};
use crate::table::{Migration, MigrationId};

/// What is durable of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The migration.
    pub migration: Migration,
    /// How far it is.
    pub stage: TargetStage,
}

/// How far a target is, of what is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TargetStage {
    /// It waits for the snapshot.
    Copying,
    /// Everything up to this revision of the source is staged.
    Tailing(Revision),
    /// Everything is staged, and was compared.
    Ready,
}

/// What a target knows beyond that, and learns again after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Note {
    None,
    /// Where the changes end.
    Ends(Sealed),
    /// The digests differ.
    Differs,
    /// The table has made this node the owner.
    Owner,
}

/// The target of one migration. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    migration: Migration,
    stage: TargetStage,
    note: Note,
    /// Keys that had changed when it asked last.
    lag: Option<u64>,
    pub(crate) parked: Parked,
}

impl Target {
    /// The record is durable before anything is staged, so nothing is ever staged that no record names.
    pub(crate) fn start(migration: Migration, out: &mut Vec<Output>) -> Target {
        let record = TargetRecord { migration, stage: TargetStage::Copying };
        out.push(Output::PersistTarget(record.clone()));
        Target::restart(record, out)
    }

    pub(crate) fn restart(record: TargetRecord, out: &mut Vec<Output>) -> Target {
        let TargetRecord { migration, stage } = record;
        let target = Target { migration, stage, note: Note::None, lag: None, parked: Parked::default() };
        if stage == TargetStage::Copying {
            out.push(Output::ClearStaging(target.id()));
        }
        target
    }

    /// The migration.
    #[must_use]
    pub fn migration(&self) -> &Migration {
        &self.migration
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> TargetStage {
        self.stage
    }

    /// Where the changes end, if the source has said so.
    #[must_use]
    pub fn sealed(&self) -> Option<Sealed> {
        match self.note {
            Note::Ends(sealed) => Some(sealed),
            _ => None,
        }
    }

    /// How far it is. `None`: it follows, and has not got a first batch.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        match self.stage {
            TargetStage::Copying => Some(Progress::Copying),
            TargetStage::Ready => Some(Progress::Ready),
            TargetStage::Tailing(_) if self.note == Note::Differs => Some(Progress::Differs),
            TargetStage::Tailing(_) => self.lag.map(|lag| Progress::Tailing { lag }),
        }
    }

    /// Whether everything is staged and only the comparison is left.
    #[must_use]
    pub fn is_comparing(&self) -> bool {
        matches!((self.stage, self.note), (TargetStage::Tailing(through), Note::Ends(sealed)) if through == sealed.revision)
    }

    /// Whether this node owns the slots and what is staged becomes visible.
    #[must_use]
    pub fn is_promoting(&self) -> bool {
        self.stage == TargetStage::Ready && self.note == Note::Owner
    }

    /// Whether the table has made this node the owner of slots that it does not have. Somebody changed the table who must not.
    #[must_use]
    pub fn is_cheated(&self) -> bool {
        self.stage != TargetStage::Ready && self.note == Note::Owner
    }

    pub(crate) fn id(&self) -> MigrationId {
        self.migration.id
    }

    /// Sends again what it waits for. Call it regularly: messages are lost.
    pub(crate) fn tick(&self, out: &mut Vec<Output>) {
        if self.note == Note::Owner {
            return;
        }
        let progress = match self.stage {
            TargetStage::Copying => {
                self.send(Body::Copy, out);
                Progress::Copying
            }
            TargetStage::Ready => Progress::Ready,
            TargetStage::Tailing(_) if self.note == Note::Differs => Progress::Differs,
            TargetStage::Tailing(_) if self.is_comparing() => return out.push(Output::Compare(self.id())),
            TargetStage::Tailing(through) => {
                self.send(Body::Tail { after: through }, out);
                match self.lag {
                    Some(lag) => Progress::Tailing { lag },
                    None => return,
                }
            }
        };
        self.report(progress, out);
    }

    pub(crate) fn receive(&mut self, body: &Body, out: &mut Vec<Output>) {
        match (self.stage, *body) {
            (TargetStage::Copying, Body::Snapshot { through }) => {
                out.push(Output::Stage(self.id()));
                self.persist(TargetStage::Tailing(through), out);
            }
            // Only what continues exactly where it is: others are late or repeated.
            (TargetStage::Tailing(at), Body::Changes { after, through, lag, sealed }) if at == after => {
                if through > after {
                    out.push(Output::Stage(self.id()));
                    self.persist(TargetStage::Tailing(through), out);
                }
                self.lag = Some(lag);
                if let (Some(sealed), Note::None) = (sealed, self.note) {
                    self.note = Note::Ends(sealed);
                }
            }
            (TargetStage::Tailing(_), Body::Discarded) if self.needs_changes() => {
                self.persist(TargetStage::Copying, out);
                out.push(Output::ClearStaging(self.id()));
                (self.lag, self.note) = (None, Note::None);
            }
            _ => return,
        }
        self.tick(out);
    }

    /// Whether it waits for changes, so that discarded ones matter.
    fn needs_changes(&self) -> bool {
        matches!(self.note, Note::None | Note::Ends(_)) && !self.is_comparing()
    }

    /// The digest of what is staged.
    pub(crate) fn compared(&mut self, digest: Digest, out: &mut Vec<Output>) {
        let Note::Ends(sealed) = self.note else { return };
        if !self.is_comparing() {
            return;
        }
        if digest == sealed.digest {
            self.persist(TargetStage::Ready, out);
            self.note = Note::None;
        } else {
            self.note = Note::Differs;
        }
        self.tick(out);
    }

    /// The table has made this node the owner.
    pub(crate) fn owned(&mut self, out: &mut Vec<Output>) {
        if self.note != Note::Owner {
            self.note = Note::Owner;
            if self.stage == TargetStage::Ready {
                out.push(Output::Promote(self.id()));
            }
        }
    }

    /// What was staged is visible: nothing is left of the migration.
    pub(crate) fn promoted(&mut self, out: &mut Vec<Output>) {
        out.push(Output::ForgetTarget(self.id()));
        self.parked.release(self.migration.id, Release::Run, out);
    }

    /// The table has ended the migration, and this node does not own the slots.
    pub(crate) fn aborted(&self, out: &mut Vec<Output>) {
        out.extend([Output::ClearStaging(self.id()), Output::ForgetTarget(self.id())]);
    }

    fn persist(&mut self, stage: TargetStage, out: &mut Vec<Output>) {
        self.stage = stage;
        out.push(Output::PersistTarget(TargetRecord { migration: self.migration.clone(), stage }));
    }

    fn send(&self, body: Body, out: &mut Vec<Output>) {
        let to = Recipient::Node(self.migration.from.clone());
        out.push(Output::Send(to, Message { id: self.id(), body }));
    }

    fn report(&self, progress: Progress, out: &mut Vec<Output>) {
        let message = Message { id: self.id(), body: Body::Progress(progress) };
        out.push(Output::Send(Recipient::Coordinator, message));
    }
}

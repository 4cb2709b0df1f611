//! The journal of a shard: an append-only sequence of records, one per batch, in segment files.
//!
//! | To find                                   | open       |
//! |-------------------------------------------|------------|
//! | the bytes of a record                     | [`record`] |
//! | one file: its header, its records         | [`segment`]|
//! | the segment files, spare ones             | [`segments`]|
//! | appending, rolling over, syncing          | [`writer`] |
//! | writing and syncing in groups, at `fsync` | [`group`]  |
//! | writing without group commit, at `commit` | [`inline`] |
//! | reading from a revision on                | [`reader`] |
//! | finding the end after a crash             | [`replay`] |
//! | copying its end to another database       | [`copy`]   |
//!
//! Invariants: revisions are consecutive over records and segments. A record that was acknowledged as durable is
//! complete on disk. Records that may never have been synced are only at the end.

pub(crate) mod copy;
pub(crate) mod group;
pub(crate) mod inline;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod segment;
pub(crate) mod segments;
pub(crate) mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use keystead_core::Revision;

/// How far a shard has progressed, shared by all threads that wait for it.
#[derive(Default)]
pub(crate) struct Progress {
    durable: AtomicU64,
    archived: AtomicU64,
    /// The first revision that the journal still has.
    oldest: AtomicU64,
    ended: AtomicBool,
}

impl Progress {
    pub(crate) fn starting_at(revision: Revision, archived: Revision, oldest: Revision) -> Self {
        Progress {
            durable: AtomicU64::new(revision.0),
            archived: AtomicU64::new(archived.0),
            oldest: AtomicU64::new(oldest.0),
            ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn durable(&self) -> Revision {
        Revision(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn set_durable(&self, revision: Revision) {
        self.durable.fetch_max(revision.0, Ordering::AcqRel);
    }

    pub(crate) fn archived(&self) -> Revision {
        Revision(self.archived.load(Ordering::Acquire))
    }

    pub(crate) fn set_archived(&self, revision: Revision) {
        self.archived.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Whether no more changes will follow.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn oldest(&self) -> Revision {
        Revision(self.oldest.load(Ordering::Acquire))
    }

    pub(crate) fn set_oldest(&self, revision: Revision) {
        self.oldest.fetch_max(revision.0, Ordering::AcqRel);
    }
}

//! Where a client is in the changes of a database: `DATABASE.REVISIONS`, or within a snapshot `DATABASE.REVISIONS.SHARD.POSITION`. Pure.
//!
//! It survives restarts, and is not valid for another database or a copy of this one: then the client begins anew with a snapshot.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use keystead_core::{Revision, ShardId};
use keystead_engine::Engine;

use super::super::kv::list::ScanPosition;
use super::super::kv::watch::EventId;

/// A position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Changes after these revisions of the shards are not known.
    pub(super) revisions: Vec<Revision>,
    /// Where the snapshot continues, if one is being read.
    pub(super) scan: Option<ScanPosition>,
}

/// Digits of the id of a database that are in a cursor: enough to distinguish it from others.
const ID_DIGITS: usize = 16;

/// How cursors of a database begin: with its id, which a copy of it does not have. Without files every start is another database.
pub(super) fn database(engine: &Engine) -> String {
    static START: LazyLock<String> =
        LazyLock::new(|| format!("{:016x}", RandomState::new().hash_one("start")));
    engine.id().map_or_else(|| START.clone(), |id| id.chars().take(ID_DIGITS).collect())
}

/// The beginning of the ids of events, which are cursors, too.
pub(super) fn event_id(engine: &Engine) -> EventId {
    EventId { node: None, database: Some(database(engine)), revisions: Vec::new() }
}

impl Cursor {
    /// The beginning of a snapshot. What changes from now on follows after it.
    pub(super) fn snapshot(engine: &Engine) -> Cursor {
        let revisions = engine.shard_ids().map(|shard| engine.revision(shard)).collect();
        Cursor { revisions, scan: Some(ScanPosition { shard: ShardId(0), cursor: 0 }) }
    }

    /// Reads a cursor of this database.
    pub(super) fn parse(text: &str, engine: &Engine) -> Option<Cursor> {
        let rest = text.strip_prefix(&database(engine))?.strip_prefix('.')?;
        let mut parts = rest.split('.');
        let revisions: Option<Vec<Revision>> =
            parts.next()?.split('-').map(|revision| revision.parse().ok().map(Revision)).collect();
        let revisions = revisions.filter(|revisions| revisions.len() == engine.shards())?;
        let scan = match (parts.next(), parts.next(), parts.next()) {
            (None, None, None) => None,
            (Some(shard), Some(cursor), None) => {
                let shard = shard.parse().ok().filter(|shard| *shard < engine.shards())?;
                Some(ScanPosition { shard: ShardId(shard), cursor: cursor.parse().ok()? })
            }
            _ => return None,
        };
        Some(Cursor { revisions, scan })
    }

    pub(super) fn text(&self, engine: &Engine) -> String {
        let id = EventId { revisions: self.revisions.clone(), ..event_id(engine) };
        match self.scan {
            Some(ScanPosition { shard, cursor }) => format!("{id}.{}.{cursor}", shard.0),
            None => id.to_string(),
        }
    }
}

//! Snapshots of all keys in an event log: after the mark `begin` or `gap`, page by page through the shards, until `complete`. Touches the shards.
//!
//! Changes go on being appended between the pages. Invariant: a row of a snapshot is after every event that it includes, and before every
//! later one of its key.

use keystead_core::{Clock, Result, ShardId, Stopwatch, SystemClock};
use keystead_model::Bytes;
use keystead_sinks::log::Kind;

use super::super::source;
use super::change;
use super::follower::LogFollower;
use super::queue::Queued;

/// A snapshot that is being appended.
pub(super) struct Snapshot {
    /// Its first batch.
    pub(super) first: u64,
    /// Where it is in the scan of a shard; nothing at the end.
    pub(super) scan: Option<(ShardId, u64)>,
    /// Keys that were found and not read yet.
    pub(super) left: Vec<(ShardId, Vec<Bytes>)>,
    /// Rows that are not in the target yet.
    pub(super) rows: usize,
}

impl LogFollower {
    /// Begins a snapshot of all keys.
    pub(super) fn begin(&mut self, kind: Kind, why: &str) {
        tracing::info!(
            sink = self.definition.name,
            why,
            "a snapshot of all keys is appended to the event log"
        );
        if kind == Kind::Gap {
            tracing::warn!(sink = self.definition.name, why, "the event log has a gap: changes are missing");
            self.shared.status().gaps += 1;
        }
        let is_gap = kind == Kind::Gap || self.marks.iter().any(|mark| mark.kind == Kind::Gap);
        let kind = if is_gap { Kind::Gap } else { kind };
        self.marks.clear();
        self.marks.push_back(change::mark(kind, Some(why), SystemClock.now()));
        // Those of a snapshot before this one are read again.
        self.shards.iter_mut().for_each(|followed| followed.queue.drop_snapshot());
        let first = self.next_batch();
        self.snapshot = Some(Snapshot { first, scan: Some((ShardId(0), 0)), left: Vec::new(), rows: 0 });
        self.shared.status().begin_resync(why);
    }

    /// Reads the next keys of the snapshot, and queues them where they belong.
    pub(super) async fn next_page(&mut self) -> Result<()> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        let Some((shard, keys)) = snapshot.left.pop() else {
            let Some((shard, cursor)) = snapshot.scan else {
                if snapshot.rows == 0 && self.marks.is_empty() {
                    self.marks.push_back(change::mark(Kind::Complete, None, SystemClock.now()));
                }
                return Ok(());
            };
            let prefix = &self.definition.layout.prefix;
            let (next, keys) = source::scan(&self.engine, shard, cursor, prefix).await?;
            snapshot.left.push((shard, keys));
            snapshot.scan = match next {
                0 if shard.0 + 1 < self.engine.shards() => Some((ShardId(shard.0 + 1), 0)),
                0 => None,
                next => Some((shard, next)),
            };
            return Ok(());
        };
        if keys.is_empty() {
            return Ok(());
        }
        let read = match source::read(&self.engine, shard, keys.clone()).await {
            Ok(read) => read,
            Err(error) => {
                snapshot.left.push((shard, keys));
                return Err(error);
            }
        };
        snapshot.left.push((shard, read.left));
        // What the keys include comes before them. Other changes up to there may not be durable yet.
        self.poll(Some((shard, read.at)))?;
        let followed = &mut self.shards[shard.0];
        let at = read.at.min(followed.read);
        let (now, time) = (Stopwatch::start(), SystemClock.now());
        let found = read.found.iter().filter_map(|found| found.effects.as_ref());
        let rows: Vec<Queued> = found
            .map(|effects| {
                let event = change::whole(effects, shard, at, time);
                Queued::new(event, at.next(), true, now)
            })
            .collect();
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.rows += rows.len();
        }
        followed.queue.insert(at, rows);
        Ok(())
    }
}

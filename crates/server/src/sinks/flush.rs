//! One batch of a sink: which keys are in it, and what becomes of rows that the target rejects. Touches the shards through turns, the target,
//! and files of the data directory.
//!
//! Invariant: a key whose row is left out of a batch is in the quarantine on disk before the position passes its change.

use std::cmp::Reverse;
use std::collections::HashSet;

use keystead_core::{Clock, Code, Error, Result, ShardId, Stopwatch, SystemClock};
use keystead_model::Bytes;
use keystead_sinks::{Batch, Position, Row, Written};

use super::file::Mode;
use super::follower::{Follower, InFlight, batch_file};
use super::pending::Dirty;
use super::resync::Resync;
use super::source;
use crate::bounds::{SINK_RETRIED_ROWS, SINK_SLICE_KEYS};
use crate::data_file;
use crate::written;

impl Follower {
    /// Writes the keys that have waited longest.
    pub(super) async fn flush(&mut self) -> Result<()> {
        let now = SystemClock.now();
        let retried = self.shared.quarantine().due(now, SINK_RETRIED_ROWS);
        let active = self.shards.iter().filter(|followed| followed.pending.len() > 0).count().max(1);
        let share = self.definition.flush_rows.div_ceil(active);
        let (mut taken, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
        for shard in self.engine.shard_ids() {
            let mut dirty = self.shards[shard.0].pending.take(share);
            {
                let mut quarantine = self.shared.quarantine();
                dirty.retain(|dirty| retried.contains(&dirty.key) || !quarantine.waits(&dirty.key, now));
            }
            let mut kept = Vec::new();
            while !dirty.is_empty() && bytes < self.definition.flush_bytes {
                let keys = dirty.iter().take(SINK_SLICE_KEYS).map(|dirty| dirty.key.clone()).collect();
                let read = match source::read(&self.engine, shard, keys).await {
                    Ok(read) => read,
                    Err(error) => {
                        // Nothing was sent: all of it is pending again.
                        self.shards[shard.0].pending.put_back(dirty);
                        taken.push((shard, kept));
                        self.put_back(taken);
                        return Err(error);
                    }
                };
                bytes += read.bytes;
                let fields = self.definition.mode == Mode::DirtyFields;
                let rest = dirty.split_off(read.found.len());
                for (found, dirty) in read.found.iter().zip(&dirty) {
                    let changed = dirty.changed.as_ref().filter(|_| fields && !retried.contains(&dirty.key));
                    rows.push((found.key.clone(), found.row(shard, changed.map(source::names))));
                }
                kept.append(&mut dirty);
                dirty = rest;
            }
            self.shards[shard.0].pending.put_back(dirty);
            taken.push((shard, kept));
        }
        let in_batch: HashSet<Bytes> = rows.iter().map(|(key, _)| key.clone()).collect();
        for key in retried.into_iter().filter(|key| !in_batch.contains(key)) {
            let shard = self.engine.shard_of(&key);
            match source::read(&self.engine, shard, vec![key]).await {
                Ok(read) => {
                    rows.extend(read.found.iter().map(|found| (found.key.clone(), found.row(shard, None))));
                }
                Err(error) => {
                    self.put_back(taken);
                    return Err(error);
                }
            }
        }
        self.write(rows, taken).await
    }

    /// Writes rows as one batch. Rows that cannot be written go to the quarantine.
    pub(super) async fn write(
        &mut self,
        rows: Vec<(Bytes, std::result::Result<Row, String>)>,
        taken: Vec<(ShardId, Vec<Dirty>)>,
    ) -> Result<()> {
        let took = Stopwatch::start();
        let number = self.next_batch();
        let next = Position {
            database: self.database.clone(),
            batch: number,
            revisions: self.reached(),
            resync: self.resync.as_ref().map(Resync::first),
        };
        self.in_flight = Some(InFlight { next: next.clone(), taken });
        let (mut keys, mut good, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
        for (key, row) in rows {
            match row {
                Ok(row) => {
                    keys.push(key);
                    good.push(row);
                }
                Err(reason) => rejected.push((key, reason)),
            }
        }
        self.quarantine(rejected)?;
        data_file::replace_unsynced(&self.dir, &batch_file(&self.definition.name), &number.to_string())?;
        self.last_batch = Some(number);
        let expected = self.position.as_ref().map(|position| (position.database.clone(), position.batch));
        let mut batch = Batch { expected, next, rows: good };
        loop {
            match self.sink.write(&batch).await? {
                Written::Done => break,
                Written::Fenced => {
                    return Err(Error::new(
                        Code::Conflict,
                        "the target is not where this sink has left it: another process writes to it, or it was restored",
                    ));
                }
                Written::Rejected(rejections) => {
                    let mut removed: Vec<(Bytes, String)> = Vec::new();
                    let mut places: Vec<(usize, String)> =
                        rejections.into_iter().map(|rejection| (rejection.row, rejection.reason)).collect();
                    places.sort_by_key(|(row, _)| Reverse(*row));
                    for (row, reason) in places {
                        batch.rows.remove(row);
                        removed.push((keys.remove(row), reason));
                    }
                    self.quarantine(removed)?;
                }
            }
        }
        // Counted before whoever waits for it goes on.
        self.shared.landed(batch.rows.len(), took.elapsed());
        self.landed(batch.next)?;
        // What was in quarantine and was taken now.
        self.shared.quarantine().remove(&keys)?;
        Ok(())
    }

    fn quarantine(&self, rejected: Vec<(Bytes, String)>) -> Result<()> {
        if rejected.is_empty() {
            return Ok(());
        }
        for (key, reason) in &rejected {
            let key = written::shown(key);
            tracing::warn!(sink = self.definition.name, key = %key, reason, "the target rejects a row: its key is in quarantine");
        }
        self.shared.quarantine().add(rejected, SystemClock.now())
    }
}

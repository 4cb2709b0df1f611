//! One batch of an event log, and what becomes of events that the target rejects. Touches the target, and files of the data directory.
//!
//! The row of a rejected event says so in its place, and the event waits in the quarantine: when the target takes it, it replaces that row.
//! Invariant: it is in the quarantine on disk before the position passes it, so there is no number without a row and no event is lost.

use keystead_core::{Clock, Code, Error, Result, Stopwatch, SystemClock};
use keystead_model::Bytes;
use keystead_sinks::log::{Event, Kind, Seq};
use keystead_sinks::{Batch, Change, Position, Rejection, Row, Written};

use super::super::follower::batch_file;
use super::change;
use super::follower::{InFlight, LogFollower};
use super::snapshot::Snapshot;
use crate::bounds::SINK_RETRIED_ROWS;
use crate::data_file;

impl LogFollower {
    /// Appends the events that have waited longest, and tries some in quarantine again.
    pub(super) async fn append(&mut self) -> Result<()> {
        let took = Stopwatch::start();
        let retried = self.shared.quarantine().due_events(SystemClock.now(), SINK_RETRIED_ROWS);
        let in_flight = self.take();
        let mut seq = self.last;
        let queued = in_flight.taken.iter().flat_map(|(_, taken)| taken).map(|queued| &queued.event);
        let mut rows: Vec<Row> = in_flight
            .marks
            .iter()
            .chain(queued)
            .map(|event| {
                seq = Seq(seq.0 + 1);
                Event { seq, ..event.clone() }.into_row()
            })
            .collect();
        rows.extend(retried.into_iter().map(Event::into_repair));
        let next = in_flight.next.clone();
        let expected = self.position.as_ref().map(|position| (position.database.clone(), position.batch));
        self.last_batch = Some(next.batch);
        self.in_flight = Some(InFlight { last: seq, ..in_flight });
        data_file::replace_unsynced(&self.dir, &batch_file(&self.definition.name), &next.batch.to_string())?;
        let mut batch = Batch { expected, next, rows };
        loop {
            match self.sink.write(&batch).await? {
                Written::Done => break,
                Written::Fenced => {
                    return Err(Error::new(
                        Code::Conflict,
                        "the target is not where this sink has left it: another process writes to it, or it was restored",
                    ));
                }
                Written::Rejected(rejections) => self.replace(&mut batch.rows, rejections)?,
            }
        }
        if let Some(in_flight) = self.in_flight.take() {
            self.landed(in_flight);
        }
        self.shared.landed(batch.rows.len(), took.elapsed());
        let repaired = batch.rows.iter().filter_map(|row| match &row.change {
            Change::Repair(event) => Some(name(event)),
            _ => None,
        });
        self.shared.quarantine().remove(&repaired.collect::<Vec<_>>())?;
        Ok(())
    }

    /// Takes the next batch.
    fn take(&mut self) -> InFlight {
        let marks: Vec<Event> = self.marks.drain(..).collect();
        let active = self.shards.iter().filter(|followed| followed.queue.len() > 0).count().max(1);
        let (share, most) = (self.definition.flush_rows.div_ceil(active), self.definition.flush_bytes);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for (shard, followed) in self.engine.shard_ids().zip(&mut self.shards) {
            let mut of_shard = Vec::new();
            while of_shard.len() < share
                && bytes < most
                && let Some(queued) = followed.queue.take()
            {
                bytes += queued.bytes;
                of_shard.push(queued);
            }
            taken.push((shard, of_shard));
        }
        let is_complete = marks.iter().any(|mark| mark.kind == Kind::Complete);
        let next = Position {
            database: self.database.clone(),
            batch: self.next_batch(),
            revisions: self.reached(),
            resync: self.snapshot.as_ref().filter(|_| !is_complete).map(|Snapshot { first, .. }| *first),
        };
        InFlight { next, marks, taken, last: self.last }
    }

    /// Puts the rows of rejected events in their place. What waits in quarantine already stays there.
    fn replace(&self, rows: &mut Vec<Row>, mut rejections: Vec<Rejection>) -> Result<()> {
        let now = SystemClock.now();
        rejections.sort_by_key(|rejection| std::cmp::Reverse(rejection.row));
        let mut quarantine = self.shared.quarantine();
        for Rejection { row, reason } in rejections {
            match rows.get(row).map(|row| row.change.clone()) {
                Some(Change::Repair(event)) => {
                    quarantine.note(name(&event), reason, now, Some(*event))?;
                    rows.remove(row);
                }
                Some(Change::Event(event)) if !event.kind.is_mark() && event.kind != Kind::Rejected => {
                    let name = name(&event);
                    let (sink, key) = (&self.definition.name, event.key.as_str());
                    tracing::warn!(sink, key, reason, "the target rejects an event: it is in quarantine");
                    rows[row] = change::rejected(&event, &reason).into_row();
                    quarantine.note(name, reason, now, Some(*event))?;
                }
                // Not even the key fits.
                Some(Change::Event(event)) if event.kind == Kind::Rejected && !event.key.is_empty() => {
                    rows[row] = Event { key: String::new(), of: None, ..*event }.into_row();
                }
                _ => {
                    let message = format!("the target rejects every row of the event log: {reason}");
                    return Err(Error::new(Code::StoreUnavailable, message));
                }
            }
        }
        quarantine.save()
    }
}

/// The name of an event in quarantine: a key may have several there.
fn name(event: &Event) -> Bytes {
    Bytes::from(format!("{}@{}", event.key, event.seq).as_bytes())
}

//! The pending changes of a stream, and its rows.
//!
//! It writes to the database it is given. Invariant: the same as that of [`absorb`](super), for a group as for a key:
//! deletions are written before anything is inserted.

use std::collections::{BTreeMap, BTreeSet};

use keystead_core::{Millis, Result};

use super::row::end;
use crate::Bytes;
use crate::effect::StreamFact;
use crate::sql::executor::{Param, Sql};
use crate::value::stream::{Fields, Meta, Pending, StreamId};

const PUT_STREAM: &str = "INSERT INTO streams
    (key_id, last_ms, last_seq, max_deleted_ms, max_deleted_seq, entries_added) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (key_id) DO UPDATE SET last_ms = excluded.last_ms, last_seq = excluded.last_seq,
    max_deleted_ms = excluded.max_deleted_ms, max_deleted_seq = excluded.max_deleted_seq,
    entries_added = excluded.entries_added";
const PUT_ENTRY_FIELD: &str =
    "INSERT INTO stream_entries (key_id, ms, seq, n, field, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const END_ENTRY: &str = "DELETE FROM stream_entries WHERE key_id = ?1 AND ms = ?2 AND seq = ?3";
const PUT_GROUP: &str = "INSERT INTO stream_groups (key_id, name, last_ms, last_seq, entries_read)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (key_id, name)
    DO UPDATE SET last_ms = excluded.last_ms, last_seq = excluded.last_seq, entries_read = excluded.entries_read";
const END_GROUP: &str = "DELETE FROM stream_groups WHERE key_id = ?1 AND name = ?2";
const END_GROUP_CONSUMERS: &str = "DELETE FROM stream_consumers WHERE key_id = ?1 AND group_name = ?2";
const END_GROUP_PENDING: &str = "DELETE FROM stream_pending WHERE key_id = ?1 AND group_name = ?2";
const PUT_CONSUMER: &str = "INSERT INTO stream_consumers (key_id, group_name, name, seen_at, active_at)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (key_id, group_name, name)
    DO UPDATE SET seen_at = excluded.seen_at, active_at = excluded.active_at";
const END_CONSUMER: &str = "DELETE FROM stream_consumers WHERE key_id = ?1 AND group_name = ?2 AND name = ?3";
const END_CONSUMER_PENDING: &str =
    "DELETE FROM stream_pending WHERE key_id = ?1 AND group_name = ?2 AND consumer = ?3";
const PUT_PENDING: &str = "INSERT INTO stream_pending
    (key_id, group_name, ms, seq, consumer, delivered_at, deliveries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (key_id, group_name, ms, seq) DO UPDATE SET consumer = excluded.consumer,
    delivered_at = excluded.delivered_at, deliveries = excluded.deliveries";
const END_PENDING: &str =
    "DELETE FROM stream_pending WHERE key_id = ?1 AND group_name = ?2 AND ms = ?3 AND seq = ?4";

/// Pending changes of a stream. `None` as the value of an element: it is deleted.
#[derive(Default)]
pub(super) struct StreamRows {
    meta: Option<Meta>,
    entries: BTreeMap<StreamId, Option<Fields>>,
    groups: BTreeMap<Bytes, GroupRows>,
}

#[derive(Default)]
struct GroupRows {
    /// All existing rows of the group are deleted first.
    ended: bool,
    read: Option<(StreamId, Option<u64>)>,
    consumers: BTreeMap<Bytes, Option<(Millis, Option<Millis>)>>,
    /// Existing pending rows of these consumers are deleted first.
    ended_consumers: BTreeSet<Bytes>,
    pending: BTreeMap<StreamId, Option<Pending>>,
}

impl StreamRows {
    pub(super) fn absorb(&mut self, fact: &StreamFact, fresh: bool) {
        match fact {
            StreamFact::Entry { id, fields } => {
                self.entries.insert(*id, Some(fields.clone()));
            }
            StreamFact::EntryDeleted(id) => end(&mut self.entries, id, fresh),
            StreamFact::Meta(meta) => self.meta = Some(*meta),
            StreamFact::Group { group, last_id, entries_read } => {
                self.group(group).read = Some((*last_id, *entries_read));
            }
            StreamFact::GroupDeleted(group) => {
                *self.group(group) = GroupRows { ended: true, ..GroupRows::default() };
            }
            StreamFact::Consumer(fact) => {
                let state = Some((fact.seen_at, fact.active_at));
                self.group(&fact.group).consumers.insert(fact.consumer.clone(), state);
            }
            StreamFact::ConsumerDeleted { group, consumer } => self.group(group).end_consumer(consumer),
            StreamFact::Pending(fact) => {
                let pending = Pending {
                    consumer: fact.consumer.clone(),
                    delivered_at: fact.delivered_at,
                    deliveries: fact.deliveries,
                };
                self.group(&fact.group).pending.insert(fact.id, Some(pending));
            }
            StreamFact::PendingDeleted { group, id } => {
                let group = self.group(group);
                end(&mut group.pending, id, fresh || group.ended);
            }
        }
    }

    fn group(&mut self, name: &Bytes) -> &mut GroupRows {
        self.groups.entry(name.clone()).or_default()
    }

    pub(super) fn write(&self, sql: &mut dyn Sql, key: Param<'_>) -> Result<()> {
        if let Some(meta) = &self.meta {
            let (last, deleted) = (meta.last_id, meta.max_deleted_id);
            let [last_ms, last_seq] = stream_id(last);
            let [deleted_ms, deleted_seq] = stream_id(deleted);
            let added = Param::uint(meta.entries_added);
            sql.run(PUT_STREAM, &[key, last_ms, last_seq, deleted_ms, deleted_seq, added])?;
        }
        for (id, new) in &self.entries {
            let [ms, seq] = stream_id(*id);
            sql.run(END_ENTRY, &[key, ms, seq])?;
            for (n, (field, value)) in new.iter().flatten().enumerate() {
                let n = Param::Int(n as i64);
                sql.run(PUT_ENTRY_FIELD, &[key, ms, seq, n, Param::Blob(field), Param::Blob(value)])?;
            }
        }
        self.groups.iter().try_for_each(|(name, group)| group.write(sql, key, Param::Blob(name)))
    }
}

impl GroupRows {
    fn end_consumer(&mut self, consumer: &Bytes) {
        self.consumers.insert(consumer.clone(), None);
        self.ended_consumers.insert(consumer.clone());
        for pending in self.pending.values_mut() {
            if pending.as_ref().is_some_and(|pending| pending.consumer == *consumer) {
                *pending = None;
            }
        }
    }

    fn write(&self, sql: &mut dyn Sql, key: Param<'_>, name: Param<'_>) -> Result<()> {
        if self.ended {
            for statement in [END_GROUP, END_GROUP_CONSUMERS, END_GROUP_PENDING] {
                sql.run(statement, &[key, name])?;
            }
        }
        if let Some((last_id, entries_read)) = self.read {
            let [ms, seq] = stream_id(last_id);
            sql.run(PUT_GROUP, &[key, name, ms, seq, entries_read.map_or(Param::Null, Param::uint)])?;
        }
        for consumer in &self.ended_consumers {
            sql.run(END_CONSUMER_PENDING, &[key, name, Param::Blob(consumer)])?;
        }
        for (consumer, new) in &self.consumers {
            let consumer = Param::Blob(consumer);
            match new {
                None => sql.run(END_CONSUMER, &[key, name, consumer])?,
                Some((seen_at, active_at)) => {
                    let active_at = active_at.map_or(Param::Null, |at| Param::uint(at.0));
                    sql.run(PUT_CONSUMER, &[key, name, consumer, Param::uint(seen_at.0), active_at])?
                }
            };
        }
        for (id, new) in &self.pending {
            let [ms, seq] = stream_id(*id);
            match new {
                None => sql.run(END_PENDING, &[key, name, ms, seq])?,
                Some(pending) => {
                    let consumer = Param::Blob(&pending.consumer);
                    let delivered_at = Param::uint(pending.delivered_at.0);
                    let deliveries = Param::uint(pending.deliveries);
                    sql.run(PUT_PENDING, &[key, name, ms, seq, consumer, delivered_at, deliveries])?
                }
            };
        }
        Ok(())
    }
}

fn stream_id(id: StreamId) -> [Param<'static>; 2] {
    [Param::uint(id.ms), Param::uint(id.seq)]
}

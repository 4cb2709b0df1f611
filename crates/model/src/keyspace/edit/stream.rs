//! Changes of a stream and its groups. It touches nothing but the keyspace.
//!
//! Invariant: a consumer with pending entries has a fact of its own, so no fact depends on how another is applied.

use keystead_core::Millis;

use super::super::facts::{each_group_fact, pending_fact};
use super::super::undo::Undo;
use super::StreamMut;
use crate::Bytes;
use crate::effect::{ConsumerFact, Fact, StreamFact};
use crate::value::stream::{Fields, Group, Meta, Pending, StreamId};

impl StreamMut<'_> {
    /// Adds an entry, which has at least one field.
    pub fn put(&mut self, id: StreamId, fields: &Fields) {
        debug_assert!(!fields.is_empty(), "an entry without a field has no row");
        let old = self.value.put(id, fields);
        self.record_stream(entry(id, fields), || match &old {
            Some(old) => entry(id, old),
            None => StreamFact::EntryDeleted(id),
        });
    }

    /// Removes an entry, and returns whether it existed.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let Some(old) = self.value.remove(id) else {
            return false;
        };
        self.record_stream(StreamFact::EntryDeleted(id), || entry(id, &old));
        true
    }

    /// Sets the metadata. Setting the same again changes nothing, except that it creates the key.
    pub fn set_meta(&mut self, meta: Meta) {
        let old = self.value.meta();
        if old != meta || !self.is_there() {
            self.value.set_meta(meta);
            self.record_stream(StreamFact::Meta(meta), || StreamFact::Meta(old));
        }
    }

    /// Adds a group, or sets how far it has read.
    pub fn put_group(&mut self, name: &Bytes, last_id: StreamId, entries_read: Option<u64>) {
        let old = self.value.group(name).map(|group| (group.last_delivered_id(), group.entries_read()));
        if old.is_none() {
            self.value.put_group(name, Group::new(last_id, entries_read));
        } else {
            self.value.update_group(name, |group| group.set_read(last_id, entries_read));
        }
        let fact = |(last_id, entries_read)| StreamFact::Group { group: name.clone(), last_id, entries_read };
        self.record_stream(fact((last_id, entries_read)), || match old {
            Some(old) => fact(old),
            None => StreamFact::GroupDeleted(name.clone()),
        });
    }

    /// Removes a group with its consumers and pending entries, and returns whether it existed.
    pub fn remove_group(&mut self, name: &Bytes) -> bool {
        let Some(old) = self.value.remove_group(name) else {
            return false;
        };
        self.record_many(StreamFact::GroupDeleted(name.clone()), || {
            let mut facts = Vec::new();
            each_group_fact(name, &old, &mut |fact| facts.push(fact));
            facts
        });
        true
    }

    /// Adds a consumer to a group, or sets when it was seen; returns whether it is new. Without the group nothing changes.
    pub fn put_consumer(
        &mut self,
        group: &Bytes,
        name: &Bytes,
        seen_at: Millis,
        active_at: Option<Millis>,
    ) -> bool {
        let Some(state) = self.value.group(group) else {
            return false;
        };
        let old = state.consumer(name).map(|consumer| (consumer.seen_at(), consumer.active_at()));
        if old == Some((seen_at, active_at)) {
            return false;
        }
        self.value.update_group(group, |state| state.put_consumer(name, seen_at, active_at));
        self.record_stream(consumer(group, name, seen_at, active_at), || match old {
            Some((seen_at, active_at)) => consumer(group, name, seen_at, active_at),
            None => StreamFact::ConsumerDeleted { group: group.clone(), consumer: name.clone() },
        });
        old.is_none()
    }

    /// Removes a consumer and returns how many entries were pending for it; `None` when it did not exist.
    pub fn remove_consumer(&mut self, group: &Bytes, name: &Bytes) -> Option<usize> {
        let state = self.value.group(group)?;
        let own = state.consumer(name)?;
        let (seen_at, active_at) = (own.seen_at(), own.active_at());
        let pending: Vec<(StreamId, Pending)> =
            own.pending(..).filter_map(|id| Some((*id, state.pending_entry(*id)?.clone()))).collect();
        self.value.update_group(group, |state| drop(state.remove_consumer(name)));
        let deleted = StreamFact::ConsumerDeleted { group: group.clone(), consumer: name.clone() };
        self.record_many(deleted, || {
            let mut facts = vec![consumer(group, name, seen_at, active_at)];
            facts.extend(pending.iter().map(|(id, pending)| pending_fact(group, *id, pending)));
            facts
        });
        Some(pending.len())
    }

    /// Makes an entry pending, or changes its consumer. Without the group nothing changes.
    pub fn put_pending(&mut self, group: &Bytes, id: StreamId, pending: &Pending) {
        let Some(state) = self.value.group(group) else {
            return;
        };
        if state.consumer(&pending.consumer).is_none() {
            self.put_consumer(group, &pending.consumer, pending.delivered_at, None);
        }
        let old = self.value.update_group(group, |state| state.put_pending(id, pending.clone())).flatten();
        self.record_stream(pending_fact(group, id, pending), || match &old {
            Some(old) => pending_fact(group, id, old),
            None => StreamFact::PendingDeleted { group: group.clone(), id },
        });
    }

    /// Removes a pending entry, which is acknowledged or deleted, and returns it.
    pub fn remove_pending(&mut self, group: &Bytes, id: StreamId) -> Option<Pending> {
        let old = self.value.update_group(group, |state| state.remove_pending(id)).flatten()?;
        self.record_stream(StreamFact::PendingDeleted { group: group.clone(), id }, || {
            pending_fact(group, id, &old)
        });
        Some(old)
    }

    fn record_stream(&mut self, fact: StreamFact, before: impl FnOnce() -> StreamFact) {
        self.record(Fact::Stream(fact), || Fact::Stream(before()));
    }

    /// Records a fact that several facts undo. They are applied in the order in which `before` returns them.
    fn record_many(&mut self, fact: StreamFact, before: impl FnOnce() -> Vec<StreamFact>) {
        let (id, version) = self.begin();
        if self.keyspace.savepoint.is_some() {
            let facts = before().into_iter().rev();
            self.keyspace.undo.extend(facts.map(|fact| Undo::Fact { id, fact: Fact::Stream(fact) }));
        }
        self.keyspace.record(id, version, Fact::Stream(fact));
    }
}

fn entry(id: StreamId, fields: &Fields) -> StreamFact {
    StreamFact::Entry { id, fields: fields.clone() }
}

fn consumer(group: &Bytes, name: &Bytes, seen_at: Millis, active_at: Option<Millis>) -> StreamFact {
    StreamFact::Consumer(Box::new(ConsumerFact {
        group: group.clone(),
        consumer: name.clone(),
        seen_at,
        active_at,
    }))
}

//! A consumer group of a stream: how far it has read, and which consumer has to acknowledge what. It touches nothing.
//!
//! Invariants: every pending entry belongs to exactly one consumer of the group, whose own list has it too;
//! `heap` is the heap bytes of consumers and pending entries. Every change is idempotent.

use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::ops::RangeBounds;

use keystead_core::Millis;

use super::StreamId;
use crate::bytes::Bytes;
use crate::value::heap::{btree_bytes, shared_bytes};

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    last_delivered_id: StreamId,
    entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Bytes, Consumer>,
    heap: usize,
}

/// An entry that was delivered and not yet acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer it was delivered to.
    pub consumer: Bytes,
    /// When it was delivered last.
    pub delivered_at: Millis,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    seen_at: Millis,
    active_at: Option<Millis>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// When it last sent a request.
    #[must_use]
    pub fn seen_at(&self) -> Millis {
        self.seen_at
    }

    /// When it last received an entry.
    #[must_use]
    pub fn active_at(&self) -> Option<Millis> {
        self.active_at
    }

    /// How many entries it has to acknowledge.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The entries it has to acknowledge.
    pub fn pending(&self, ids: impl RangeBounds<StreamId>) -> btree_set::Range<'_, StreamId> {
        self.pending.range(ids)
    }
}

const PENDING_BYTES: usize = btree_bytes::<StreamId, Pending>() + btree_bytes::<StreamId, ()>();
const CONSUMER_BYTES: usize = btree_bytes::<Bytes, Consumer>();

impl Group {
    /// A group that has read up to `last_delivered_id`.
    #[must_use]
    pub fn new(last_delivered_id: StreamId, entries_read: Option<u64>) -> Self {
        Group { last_delivered_id, entries_read, ..Group::default() }
    }

    /// The last entry that was delivered to any consumer.
    #[must_use]
    pub fn last_delivered_id(&self) -> StreamId {
        self.last_delivered_id
    }

    /// Number of entries of the stream's history that the group has read, if that is known.
    #[must_use]
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// Sets how far the group has read.
    pub fn set_read(&mut self, last_delivered_id: StreamId, entries_read: Option<u64>) {
        self.last_delivered_id = last_delivered_id;
        self.entries_read = entries_read;
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// All consumers by name.
    pub fn consumers(&self) -> btree_map::Iter<'_, Bytes, Consumer> {
        self.consumers.iter()
    }

    /// Adds a consumer or sets when it was seen; returns whether it is new.
    pub fn put_consumer(&mut self, name: &Bytes, seen_at: Millis, active_at: Option<Millis>) -> bool {
        let before = self.consumers.len();
        let consumer = self.consumer_mut(name, seen_at);
        consumer.seen_at = seen_at;
        consumer.active_at = active_at;
        self.consumers.len() > before
    }

    /// Removes a consumer and its pending entries; returns it.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<Consumer> {
        let (name, consumer) = self.consumers.remove_entry(name)?;
        self.heap -= CONSUMER_BYTES + shared_bytes(&name);
        for id in &consumer.pending {
            if let Some(pending) = self.pending.remove(id) {
                self.heap -= PENDING_BYTES + shared_bytes(&pending.consumer);
            }
        }
        Some(consumer)
    }

    /// How many entries are pending.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// A pending entry.
    #[must_use]
    pub fn pending_entry(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Pending entries in order, from either end.
    pub fn pending(&self, ids: impl RangeBounds<StreamId>) -> btree_map::Range<'_, StreamId, Pending> {
        self.pending.range(ids)
    }

    /// Makes an entry pending, or changes its consumer; returns the old pending entry.
    ///
    /// A consumer that the group does not have is added, seen when the entry was delivered.
    pub fn put_pending(&mut self, id: StreamId, pending: Pending) -> Option<Pending> {
        self.heap += PENDING_BYTES + shared_bytes(&pending.consumer);
        let (consumer, delivered_at) = (pending.consumer.clone(), pending.delivered_at);
        let old = self.pending.insert(id, pending);
        if let Some(old) = &old {
            self.forget(id, old);
        }
        self.consumer_mut(&consumer, delivered_at).pending.insert(id);
        old
    }

    /// Removes a pending entry, which is acknowledged or deleted; returns it.
    pub fn remove_pending(&mut self, id: StreamId) -> Option<Pending> {
        let old = self.pending.remove(&id)?;
        self.forget(id, &old);
        Some(old)
    }

    /// Heap bytes held.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        self.heap
    }

    fn forget(&mut self, id: StreamId, old: &Pending) {
        self.heap -= PENDING_BYTES + shared_bytes(&old.consumer);
        if let Some(consumer) = self.consumers.get_mut(old.consumer.as_slice()) {
            consumer.pending.remove(&id);
        }
    }

    fn consumer_mut(&mut self, name: &Bytes, seen_at: Millis) -> &mut Consumer {
        self.consumers.entry(name.clone()).or_insert_with(|| {
            self.heap += CONSUMER_BYTES + shared_bytes(name);
            Consumer { seen_at, ..Consumer::default() }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Deliver(u64, u8),
        Acknowledge(u64),
        Join(u8),
        Leave(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u64..30, 0u8..5).prop_map(|(id, consumer)| Op::Deliver(id, consumer)),
            4 => (0u64..30).prop_map(Op::Acknowledge),
            1 => (0u8..5).prop_map(Op::Join),
            1 => (0u8..5).prop_map(Op::Leave),
        ]
    }

    fn name(consumer: u8) -> Bytes {
        Bytes::from(vec![b'a' + consumer; 10 * usize::from(consumer)].as_slice())
    }

    fn run(group: &mut Group, op: &Op) {
        match *op {
            Op::Deliver(id, consumer) => {
                let pending = Pending { consumer: name(consumer), delivered_at: Millis(id), deliveries: 1 };
                group.put_pending(StreamId::new(id, 0), pending);
            }
            Op::Acknowledge(id) => drop(group.remove_pending(StreamId::new(id, 0))),
            Op::Join(consumer) => drop(group.put_consumer(&name(consumer), Millis(3), Some(Millis(2)))),
            Op::Leave(consumer) => drop(group.remove_consumer(&name(consumer))),
        }
    }

    proptest! {
        #[test]
        fn both_lists_agree_and_changes_are_idempotent(ops in prop::collection::vec(op(), 0..120)) {
            let (mut group, mut twice) = (Group::default(), Group::default());
            let mut model: BTreeMap<u64, u8> = BTreeMap::new();
            for op in &ops {
                run(&mut group, op);
                run(&mut twice, op);
                run(&mut twice, op);
                match *op {
                    Op::Deliver(id, consumer) => drop(model.insert(id, consumer)),
                    Op::Acknowledge(id) => drop(model.remove(&id)),
                    Op::Join(_) => {}
                    Op::Leave(consumer) => model.retain(|_, other| *other != consumer),
                }
            }
            prop_assert_eq!(&twice, &group);
            let pending = group.pending(..).map(|(id, pending)| (id.ms, pending.consumer.clone()));
            prop_assert!(pending.eq(model.iter().map(|(id, consumer)| (*id, name(*consumer)))));
            let mut heap = 0;
            for (consumer, state) in group.consumers() {
                let own = group.pending(..).filter(|(_, pending)| pending.consumer == *consumer);
                prop_assert!(own.map(|(id, _)| id).eq(state.pending(..)));
                heap += CONSUMER_BYTES + shared_bytes(consumer);
            }
            heap += group.pending(..).map(|(_, p)| PENDING_BYTES + shared_bytes(&p.consumer)).sum::<usize>();
            prop_assert_eq!(group.mem_bytes(), heap);
        }
    }
}

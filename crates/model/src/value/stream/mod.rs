//! A stream: entries in the order of their ids, and the groups that read them. It touches nothing.
//!
//! This is the data only; ids are assigned and reads are checked by the commands. Invariants: entries
//! are sorted by id; `heap` is the heap bytes of entries and groups beyond the sequence itself. Every change is idempotent.

mod fields;
mod group;
mod id;

use std::collections::{BTreeMap, btree_map};
use std::ops::{Bound, RangeBounds};

pub use self::fields::Fields;
pub use self::group::{Consumer, Group, Pending};
pub use self::id::StreamId;

use super::heap::{boxed_bytes, btree_bytes, shared_bytes};
use super::sorted::Sorted;
use crate::bytes::Bytes;

const GROUP_BYTES: usize = btree_bytes::<Bytes, Group>();

/// Entries, and the groups that read them.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    entries: Sorted<(StreamId, Fields)>,
    meta: Meta,
    groups: BTreeMap<Bytes, Group>,
    heap: usize,
}

/// The metadata of a stream, which outlives its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The highest id that was ever added.
    pub last_id: StreamId,
    /// The highest id that was ever deleted.
    pub max_deleted_id: StreamId,
    /// How many entries were ever added.
    pub entries_added: u64,
}

impl Stream {
    /// An empty stream.
    #[must_use]
    pub fn new() -> Self {
        Stream::default()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry. A stream without entries still exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// Sets its metadata.
    pub fn set_meta(&mut self, meta: Meta) {
        self.meta = meta;
    }

    /// The fields of an entry.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<&Fields> {
        let location = self.entries.find(|(other, _)| other.cmp(&id)).ok()?;
        self.entries.get(location).map(|(_, fields)| fields)
    }

    /// The entry with this index.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<(StreamId, &Fields)> {
        self.entries.nth(index).map(|(id, fields)| (*id, fields))
    }

    /// The entry with the lowest id.
    #[must_use]
    pub fn first(&self) -> Option<(StreamId, &Fields)> {
        self.entries.first().map(|(id, fields)| (*id, fields))
    }

    /// The entry with the highest id.
    #[must_use]
    pub fn last(&self) -> Option<(StreamId, &Fields)> {
        self.entries.last().map(|(id, fields)| (*id, fields))
    }

    /// How many entries have a lower id.
    #[must_use]
    pub fn count_below(&self, id: StreamId) -> usize {
        self.entries.partition(|(other, _)| *other < id)
    }

    /// Entries in order, from either end.
    pub fn range(
        &self,
        ids: impl RangeBounds<StreamId>,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &Fields)> {
        let start = match ids.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(&id) => self.count_below(id),
            Bound::Excluded(&id) => self.entries.partition(|(other, _)| *other <= id),
        };
        let end = match ids.end_bound() {
            Bound::Unbounded => self.len(),
            Bound::Included(&id) => self.entries.partition(|(other, _)| *other <= id),
            Bound::Excluded(&id) => self.count_below(id),
        };
        self.entries.range(start..end).map(|(id, fields)| (*id, fields))
    }

    /// Adds an entry and returns the fields it replaces. The metadata does not change.
    pub fn put(&mut self, id: StreamId, fields: &Fields) -> Option<Fields> {
        self.heap += shared_bytes(fields.as_bytes());
        if self.last().is_none_or(|(last, _)| last < id) {
            self.entries.push_back((id, fields.clone()));
            return None;
        }
        match self.entries.find(|(other, _)| other.cmp(&id)) {
            Ok(location) => {
                let (_, old) = self.entries.replace(location, (id, fields.clone()))?;
                self.heap -= shared_bytes(old.as_bytes());
                Some(old)
            }
            Err(location) => {
                self.entries.insert(location, (id, fields.clone()));
                None
            }
        }
    }

    /// Removes an entry and returns its fields. The metadata does not change.
    pub fn remove(&mut self, id: StreamId) -> Option<Fields> {
        let location = self.entries.find(|(other, _)| other.cmp(&id)).ok()?;
        let (_, fields) = self.entries.remove(location)?;
        self.heap -= shared_bytes(fields.as_bytes());
        Some(fields)
    }

    /// Removes all entries with a lower id, the lowest first.
    pub fn remove_below(&mut self, id: StreamId, mut removed: impl FnMut(StreamId, Fields)) {
        let count = self.count_below(id);
        self.entries.drain_front(count, |(id, fields)| {
            self.heap -= shared_bytes(fields.as_bytes());
            removed(id, fields);
        });
    }

    /// A group.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// All groups by name.
    pub fn groups(&self) -> btree_map::Iter<'_, Bytes, Group> {
        self.groups.iter()
    }

    /// Adds a group and returns the one it replaces.
    pub fn put_group(&mut self, name: &Bytes, group: Group) -> Option<Group> {
        self.heap += GROUP_BYTES + shared_bytes(name) + group.mem_bytes();
        let old = self.groups.insert(name.clone(), group)?;
        self.heap -= GROUP_BYTES + shared_bytes(name) + old.mem_bytes();
        Some(old)
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<Group> {
        let (name, group) = self.groups.remove_entry(name)?;
        self.heap -= GROUP_BYTES + shared_bytes(&name) + group.mem_bytes();
        Some(group)
    }

    /// Changes a group, if it exists.
    pub fn update_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        self.heap -= group.mem_bytes();
        let result = change(group);
        self.heap += group.mem_bytes();
        Some(result)
    }

    /// Heap bytes held, including the box of the stream itself.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        boxed_bytes::<Stream>() + self.entries.mem_bytes() + self.heap
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.meta == other.meta
            && self.groups == other.groups
            && self.len() == other.len()
            && self.range(..).eq(other.range(..))
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::Millis;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Put(u64, u8),
        Remove(u64),
        RemoveBelow(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            30 => (0u64..2000, any::<u8>()).prop_map(|(id, len)| Op::Put(id, len)),
            10 => (0u64..2000).prop_map(Op::Remove),
            1 => (0u64..400).prop_map(Op::RemoveBelow),
        ]
    }

    fn id(n: u64) -> StreamId {
        StreamId::new(n / 3, n % 3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_stream_is_a_sorted_map(ops in prop::collection::vec(op(), 0..1200), a in 0u64..2000, b in 0u64..2000) {
            let (mut stream, mut model) = (Stream::new(), BTreeMap::new());
            for op in ops {
                match op {
                    Op::Put(n, len) => {
                        let fields = Fields::new([(&b"f"[..], &vec![len; usize::from(len)][..])]);
                        prop_assert_eq!(stream.put(id(n), &fields), model.insert(id(n), fields));
                    }
                    Op::Remove(n) => prop_assert_eq!(stream.remove(id(n)), model.remove(&id(n))),
                    Op::RemoveBelow(n) => {
                        let kept = model.split_off(&id(n));
                        let mut removed = BTreeMap::new();
                        stream.remove_below(id(n), |id, fields| { removed.insert(id, fields); });
                        prop_assert_eq!(removed, std::mem::replace(&mut model, kept));
                    }
                }
            }
            prop_assert_eq!(stream.len(), model.len());
            prop_assert!(stream.range(..).eq(model.iter().map(|(id, fields)| (*id, fields))));
            prop_assert_eq!(stream.heap, model.values().map(|fields| shared_bytes(fields.as_bytes())).sum::<usize>());
            let (low, high) = (id(a.min(b)), id(a.max(b)));
            let expected: Vec<_> = model.range(low..=high).map(|(id, fields)| (*id, fields)).collect();
            prop_assert!(stream.range(low..=high).eq(expected.iter().copied()));
            prop_assert!(stream.range(low..=high).rev().eq(expected.into_iter().rev()));
            let inside = (Bound::Excluded(low), Bound::Excluded(high));
            prop_assert!(low == high || stream.range(inside).map(|e| e.0).eq(model.range(inside).map(|e| *e.0)));
            prop_assert_eq!(stream.get(low), model.get(&low));
            prop_assert_eq!(&stream.clone(), &stream);
        }
    }

    #[test]
    fn groups_are_counted_while_they_change() {
        let mut stream = Stream::new();
        let empty = stream.mem_bytes();
        let name = Bytes::from(&[b'g'; 40][..]);
        let consumer = Bytes::from(&[b'c'; 40][..]);
        assert_eq!(stream.put_group(&name, Group::new(StreamId::MIN, Some(0))), None);
        let with_group = stream.mem_bytes();
        let pending = Pending { consumer, delivered_at: Millis(1), deliveries: 1 };
        stream.update_group(&name, |group| group.put_pending(id(1), pending));
        assert!(stream.mem_bytes() > with_group && with_group > empty);
        let same = stream.group(&name).cloned().unwrap_or_default();
        assert_eq!(stream.put_group(&name, same.clone()), Some(same));
        assert!(stream.remove_group(&name).is_some() && stream.remove_group(&name).is_none());
        assert_eq!(stream.mem_bytes(), empty);
        assert_eq!(stream.update_group(&name, |_| ()), None);
    }
}

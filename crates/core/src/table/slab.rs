//! Entries in chunks that never move: growing allocates one chunk, whatever the number of entries.
//!
//! A chunk is allocated when its first slot is used, so entries that are restored with high ids (after a restart, when most
//! keys around them have been deleted) cost their own chunks and nothing between.

use std::ops::Range;

use super::Id;
use crate::bounds::TABLE_KEYS_MAX;

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;

/// Slots of a chunk that are aligned together.
const GROUP_BITS: u32 = 4;
const GROUP: usize = 1 << GROUP_BITS;

/// Aligned to a cache line, so that an entry of that size does not straddle two.
#[repr(align(64))]
struct Group<T>([Option<T>; GROUP]);

type Chunk<T> = Box<[Group<T>; CHUNK / GROUP]>;

pub(super) struct Slab<T> {
    chunks: Vec<Option<Chunk<T>>>,
    /// Ids that were freed.
    free: Vec<Id>,
    /// Ids below `slots` that were never used.
    gaps: Vec<Range<Id>>,
    slots: usize,
    /// Slots in allocated chunks.
    capacity: usize,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new(), gaps: Vec::new(), slots: 0, capacity: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        let chunk = self.chunks.get((id >> CHUNK_BITS) as usize)?.as_ref()?;
        let (group, at) = within(id);
        chunk[group].0[at].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?.as_mut()?;
        let (group, at) = within(id);
        chunk[group].0[at].as_mut()
    }

    pub(super) fn insert(&mut self, value: T) -> Id {
        let id = loop {
            match self.next_id() {
                // It may have been used by `insert_at` since it was freed.
                id if self.get(id).is_some() => {}
                id => break id,
            }
        };
        *self.slot(id) = Some(value);
        self.len += 1;
        id
    }

    pub(super) fn insert_at(&mut self, id: Id, value: T) -> Result<(), T> {
        if self.get(id).is_some() || id as usize >= TABLE_KEYS_MAX {
            return Err(value);
        }
        if id as usize >= self.slots {
            if id as usize > self.slots {
                self.gaps.push(self.slots as Id..id);
            }
            self.slots = id as usize + 1;
        }
        *self.slot(id) = Some(value);
        self.len += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?.as_mut()?;
        let (group, at) = within(id);
        let value = chunk[group].0[at].take()?;
        self.len -= 1;
        self.free.push(id);
        Some(value)
    }

    pub(super) fn iter_from(&self, from: Id) -> impl Iterator<Item = (Id, &T)> {
        let first = (from >> CHUNK_BITS) as usize;
        let chunks = self.chunks.iter().enumerate().skip(first);
        let taken = chunks.filter_map(|(index, chunk)| Some((index, chunk.as_ref()?)));
        taken
            .flat_map(|(index, chunk)| {
                let start = (index << CHUNK_BITS) as Id;
                let slots = chunk.iter().flat_map(|group| &group.0);
                slots.enumerate().filter_map(move |(at, entry)| Some((start + at as Id, entry.as_ref()?)))
            })
            .skip_while(move |(id, _)| *id < from)
    }

    /// The first id from `from` on that may be used: `from` itself, or the first of the next allocated chunk.
    pub(super) fn skip_empty(&self, from: Id) -> Id {
        let first = (from >> CHUNK_BITS) as usize;
        match self.chunks.get(first) {
            Some(None) => {
                let next = self.chunks[first..].iter().position(Option::is_some);
                next.map_or(self.slots as Id, |ahead| ((first + ahead) << CHUNK_BITS) as Id)
            }
            _ => from,
        }
    }

    fn next_id(&mut self) -> Id {
        if let Some(id) = self.free.pop() {
            return id;
        }
        while let Some(gap) = self.gaps.last_mut() {
            if let Some(id) = gap.next() {
                return id;
            }
            self.gaps.pop();
        }
        assert!(self.slots < TABLE_KEYS_MAX, "a table holds at most {TABLE_KEYS_MAX} keys");
        self.slots += 1;
        (self.slots - 1) as Id
    }

    fn slot(&mut self, id: Id) -> &mut Option<T> {
        let index = (id >> CHUNK_BITS) as usize;
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        let capacity = &mut self.capacity;
        let chunk = self.chunks[index].get_or_insert_with(|| {
            *capacity += CHUNK;
            // Built through a vector, because an array would be built on the stack.
            let empty: Box<[Group<T>]> = (0..CHUNK / GROUP).map(|_| Group([const { None }; GROUP])).collect();
            empty.try_into().unwrap_or_else(|_| unreachable!("the length of a chunk"))
        });
        let (group, at) = within(id);
        &mut chunk[group].0[at]
    }
}

/// The group in its chunk, and the slot in the group.
#[inline]
fn within(id: Id) -> (usize, usize) {
    let at = id as usize & (CHUNK - 1);
    (at >> GROUP_BITS, at & (GROUP - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_ids_cost_their_own_chunks_only() {
        let mut slab = Slab::new();
        let far = [0, 5, 1 << 20, 4_000_000_000];
        for id in far {
            slab.insert_at(id, id).unwrap();
        }
        assert_eq!(slab.insert_at(5, 0), Err(0));
        assert_eq!(slab.insert_at(Id::MAX, 0), Err(0), "the last id means none");
        assert_eq!(slab.chunks.iter().flatten().count(), 3);
        assert_eq!(slab.iter_from(0).map(|(id, _)| id).collect::<Vec<_>>(), far);
        assert_eq!(slab.iter_from(6).map(|(id, _)| id).collect::<Vec<_>>(), far[2..]);
        for _ in 0..3000 {
            let id = slab.insert(7);
            assert!(!far.contains(&id), "{id} is taken");
        }
        assert_eq!(slab.len(), 3004);
    }
}

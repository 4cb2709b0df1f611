//! Entries in chunks that never move: growing allocates one chunk, whatever the number of entries.
//!
//! A chunk is allocated when its first slot is used, so entries that are restored with high ids (after a restart, when most
//! keys around them have been deleted) cost their own chunks and nothing between. It is freed with its last entry.

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

type Groups<T> = Box<[Group<T>; CHUNK / GROUP]>;

struct Chunk<T> {
    groups: Groups<T>,
    /// Slots that are in use.
    len: usize,
}

pub(super) struct Slab<T> {
    chunks: Vec<Option<Chunk<T>>>,
    /// Ids that were freed.
    free: Vec<Id>,
    /// Ids below `slots` that were never used.
    gaps: Vec<Range<Id>>,
    /// The chunk that was freed last: a slab that grows and shrinks by one entry need not allocate a chunk each time.
    spare: Option<Groups<T>>,
    slots: usize,
    /// Slots in allocated chunks.
    capacity: usize,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab {
            chunks: Vec::new(),
            free: Vec::new(),
            gaps: Vec::new(),
            spare: None,
            slots: 0,
            capacity: 0,
            len: 0,
        }
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
        chunk.groups[group].0[at].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?.as_mut()?;
        let (group, at) = within(id);
        chunk.groups[group].0[at].as_mut()
    }

    pub(super) fn insert(&mut self, value: T) -> Id {
        let id = loop {
            match self.next_id() {
                // It may have been used by `insert_at` since it was freed.
                id if self.get(id).is_some() => {}
                id => break id,
            }
        };
        self.put(id, value);
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
        self.put(id, value);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?.as_mut()?;
        let (group, at) = within(id);
        let value = chunk.groups[group].0[at].take()?;
        chunk.len -= 1;
        let is_empty = chunk.len == 0;
        self.len -= 1;
        self.free.push(id);
        if is_empty {
            self.free_chunk((id >> CHUNK_BITS) as usize);
        }
        Some(value)
    }

    /// Frees a chunk without entries.
    fn free_chunk(&mut self, index: usize) {
        self.spare = self.chunks[index].take().map(|chunk| chunk.groups);
        self.capacity -= CHUNK;
        if self.len == 0 {
            (self.free, self.gaps, self.chunks) = (Vec::new(), Vec::new(), Vec::new());
            self.slots = 0;
        }
    }

    pub(super) fn iter_from(&self, from: Id) -> impl Iterator<Item = (Id, &T)> {
        let first = (from >> CHUNK_BITS) as usize;
        let chunks = self.chunks.iter().enumerate().skip(first);
        let taken = chunks.filter_map(|(index, chunk)| Some((index, chunk.as_ref()?)));
        taken
            .flat_map(|(index, chunk)| {
                let start = (index << CHUNK_BITS) as Id;
                let slots = chunk.groups.iter().flat_map(|group| &group.0);
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

    /// Puts an entry into a free slot.
    fn put(&mut self, id: Id, value: T) {
        let index = (id >> CHUNK_BITS) as usize;
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        let (capacity, spare) = (&mut self.capacity, &mut self.spare);
        let chunk = self.chunks[index].get_or_insert_with(|| {
            *capacity += CHUNK;
            Chunk { groups: spare.take().unwrap_or_else(empty_groups), len: 0 }
        });
        let (group, at) = within(id);
        chunk.groups[group].0[at] = Some(value);
        chunk.len += 1;
        self.len += 1;
    }
}

fn empty_groups<T>() -> Groups<T> {
    // Built through a vector, because an array would be built on the stack.
    let empty: Box<[Group<T>]> = (0..CHUNK / GROUP).map(|_| Group([const { None }; GROUP])).collect();
    empty.try_into().unwrap_or_else(|_| unreachable!("the length of a chunk"))
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
    fn chunks_are_freed_with_their_last_entry() {
        let mut slab = Slab::new();
        let ids: Vec<Id> = (0..10 * CHUNK).map(|n| slab.insert(n)).collect();
        for id in &ids[CHUNK..9 * CHUNK] {
            slab.remove(*id).unwrap();
        }
        assert_eq!((slab.capacity(), slab.len()), (2 * CHUNK, 2 * CHUNK));
        assert!(slab.iter_from(0).map(|(_, n)| *n).eq((0..CHUNK).chain(9 * CHUNK..10 * CHUNK)));
        for n in 0..20 * CHUNK {
            slab.insert(n);
        }
        assert_eq!(
            (slab.len(), slab.slots()),
            (22 * CHUNK, 22 * CHUNK),
            "free ids are used first, each once"
        );
        (0..slab.slots() as Id).for_each(|id| assert!(slab.remove(id).is_some()));
        assert_eq!((slab.len(), slab.capacity(), slab.slots(), slab.chunks.len()), (0, 0, 0, 0));
    }

    /// Random inserts and removals, with ids of one's own as after a rollback, against a map.
    #[test]
    fn random_histories_agree_with_a_map() {
        let (mut slab, mut model, mut state) = (Slab::new(), std::collections::BTreeMap::new(), 7u64);
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..200_000 {
            // In waves, so that chunks fill up and become empty again.
            let grows = round % 40_000 < 20_000;
            match random(10) {
                0 => {
                    let id = random(6 * CHUNK) as Id;
                    assert_eq!(slab.insert_at(id, round).is_ok(), !model.contains_key(&id));
                    model.entry(id).or_insert(round);
                }
                1..7 if grows => assert_eq!(model.insert(slab.insert(round), round), None),
                _ => {
                    let id = random(slab.slots().max(1)) as Id;
                    assert_eq!(slab.remove(id), model.remove(&id));
                }
            }
            assert_eq!(slab.len(), model.len());
        }
        assert!(slab.iter_from(0).map(|(id, n)| (id, *n)).eq(model));
    }

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

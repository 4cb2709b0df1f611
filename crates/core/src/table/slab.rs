//! Entries in chunks that never move: growing allocates one chunk, whatever the number of entries.

use super::Id;
use crate::limits::TABLE_KEYS_MAX;

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;

pub(super) struct Slab<T> {
    chunks: Vec<Box<[Option<T>]>>,
    /// Free places below `slots`. The next free place is taken from here first, so that ids stay dense.
    free: Vec<Id>,
    slots: usize,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new(), slots: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.chunks.get((id >> CHUNK_BITS) as usize)?[id as usize & (CHUNK - 1)].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.chunks.get_mut((id >> CHUNK_BITS) as usize)?[id as usize & (CHUNK - 1)].as_mut()
    }

    pub(super) fn insert(&mut self, value: T) -> Id {
        let id = loop {
            match self.free.pop() {
                // A place may have been taken by `insert_at` since it was noted as free.
                Some(id) if self.get(id).is_some() => {}
                Some(id) => break id,
                None => {
                    assert!(self.slots < TABLE_KEYS_MAX, "a table holds at most {TABLE_KEYS_MAX} keys");
                    self.slots += 1;
                    break (self.slots - 1) as Id;
                }
            }
        };
        *self.place(id) = Some(value);
        self.len += 1;
        id
    }

    pub(super) fn insert_at(&mut self, id: Id, value: T) -> Result<(), T> {
        if self.get(id).is_some() {
            return Err(value);
        }
        if id as usize >= self.slots {
            // Largest first, so that the smallest is popped first.
            self.free.splice(0..0, (self.slots as Id..id).rev());
            self.slots = id as usize + 1;
        }
        *self.place(id) = Some(value);
        self.len += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let chunk = self.chunks.get_mut((id >> CHUNK_BITS) as usize)?;
        let value = chunk[id as usize & (CHUNK - 1)].take()?;
        self.len -= 1;
        self.free.push(id);
        Some(value)
    }

    pub(super) fn iter_from(&self, from: Id) -> impl Iterator<Item = (Id, &T)> {
        (from..self.slots as Id).filter_map(|id| Some((id, self.get(id)?)))
    }

    fn place(&mut self, id: Id) -> &mut Option<T> {
        let chunk = (id >> CHUNK_BITS) as usize;
        while self.chunks.len() <= chunk {
            self.chunks.push((0..CHUNK).map(|_| None).collect());
        }
        &mut self.chunks[chunk][id as usize & (CHUNK - 1)]
    }
}

//! The interned strings of a heap. It touches nothing.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::value::{Id, StrId};

/// A string, and its hash in tables.
#[derive(Debug, Default)]
struct Text {
    bytes: Box<[u8]>,
    /// The hash that determines the order of tables: Lua's own, which samples 32 bytes of a long string.
    hash: u32,
}

/// The strings.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    texts: Vec<Text>,
    free: Vec<Id>,
    /// Strings by their bytes. Its hash is keyed, so that scripts cannot construct collisions.
    by_bytes: HashTable<Id>,
    keyed: RandomState,
    /// Strings below it are from before the run.
    pub(crate) base: Id,
}

/// The size of a string without its bytes.
pub(crate) const STRING_BYTES: usize = size_of::<Text>() + 16 + size_of::<Id>() * 2;

/// Lua's hash of a string.
fn table_hash(bytes: &[u8]) -> u32 {
    let mut hash = bytes.len() as u32;
    let step = (bytes.len() >> 5) + 1;
    let mut at = bytes.len();
    while at >= step {
        let byte = u32::from(bytes[at - 1]);
        hash ^= (hash << 5).wrapping_add(hash >> 2).wrapping_add(byte);
        at -= step;
    }
    hash
}

impl Strings {
    /// An existing string.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<StrId> {
        let hash = self.keyed.hash_one(bytes);
        self.by_bytes.find(hash, |id| *self.texts[*id as usize].bytes == *bytes).copied().map(StrId)
    }

    /// Adds a new one.
    pub(crate) fn add(&mut self, bytes: Box<[u8]>) -> StrId {
        let hash = self.keyed.hash_one(&*bytes);
        let text = Text { hash: table_hash(&bytes), bytes };
        let id = match self.free.pop() {
            Some(id) => {
                self.texts[id as usize] = text;
                id
            }
            None => {
                self.texts.push(text);
                (self.texts.len() - 1) as Id
            }
        };
        let (texts, keyed) = (&self.texts, &self.keyed);
        self.by_bytes.insert_unique(hash, id, |id| keyed.hash_one(&*texts[*id as usize].bytes));
        StrId(id)
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn get(&self, id: StrId) -> &[u8] {
        &self.texts[id.0 as usize].bytes
    }

    /// Its hash in tables.
    #[inline]
    pub(crate) fn hash(&self, id: StrId) -> u32 {
        self.texts[id.0 as usize].hash
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.texts.len()
    }

    fn remove(&mut self, id: Id) -> usize {
        let text = std::mem::take(&mut self.texts[id as usize]);
        let hash = self.keyed.hash_one(&*text.bytes);
        if let Ok(entry) = self.by_bytes.find_entry(hash, |other| *other == id) {
            entry.remove();
            return text.bytes.len() + STRING_BYTES;
        }
        0
    }

    /// Frees all strings of a run that are not marked. Returns the bytes.
    pub(crate) fn sweep(&mut self, is_marked: impl Fn(Id) -> bool) -> usize {
        let mut freed = 0;
        self.free.clear();
        for id in (self.base..self.texts.len() as Id).rev() {
            if !is_marked(id) {
                freed += self.remove(id);
                self.free.push(id);
            }
        }
        freed
    }

    /// Removes all strings of a run.
    pub(crate) fn reset(&mut self) {
        for id in self.base..self.texts.len() as Id {
            self.remove(id);
        }
        self.texts.truncate(self.base as usize);
        self.free.clear();
    }

    /// Makes the current strings permanent.
    pub(crate) fn keep(&mut self) {
        self.base = self.texts.len() as Id;
        self.free.clear();
    }
}

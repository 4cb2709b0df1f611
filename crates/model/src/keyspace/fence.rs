//! Which slots of a cluster this keyspace serves. Without a cluster there is no fence, and a lookup pays one test for that.
//!
//! It touches nothing. Invariant: no lookup by name reaches a key of a closed slot, so whoever closes a slot between two jobs knows that
//! everything accepted has run, and that nothing follows, whatever path a request takes. Moving, expiring and archiving keys
//! go by id, or by [`export`](Keyspace::export) and [`import`](Keyspace::import), and are not stopped.

use keystead_core::table::Id;
use keystead_core::{Code, Error, Result, key};

use super::Keyspace;
use crate::Bytes;

/// Slots of a cluster.
const SLOTS: usize = 16_384;

/// What requests may do with the keys of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotAccess {
    /// Everything.
    Open,
    /// Nothing, but the keys are this node's: they are counted and listed.
    Closed,
    /// Nothing, and keys that are there are not this node's, or not yet.
    Foreign,
}

#[derive(Clone)]
struct SlotBits(Box<[u64]>);

impl SlotBits {
    fn new() -> SlotBits {
        SlotBits(vec![0; SLOTS / 64].into())
    }

    fn has(&self, slot: u16) -> bool {
        self.0.get(usize::from(slot) / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    fn set(&mut self, slot: u16, to: bool) {
        if let Some(bits) = self.0.get_mut(usize::from(slot) / 64) {
            let bit = 1 << (slot % 64);
            *bits = if to { *bits | bit } else { *bits & !bit };
        }
    }
}

pub(super) struct Fence {
    closed: SlotBits,
    foreign: SlotBits,
}

impl Keyspace {
    /// Sets what requests may do with slots. Call it between two jobs.
    pub fn set_slots(&mut self, slots: impl IntoIterator<Item = u16>, access: SlotAccess) {
        let fence = self
            .fence
            .get_or_insert_with(|| Box::new(Fence { closed: SlotBits::new(), foreign: SlotBits::new() }));
        for slot in slots {
            fence.closed.set(slot, access != SlotAccess::Open);
            fence.foreign.set(slot, access == SlotAccess::Foreign);
        }
    }

    /// An error for a key that requests may not reach.
    #[inline]
    pub(super) fn check_slot(&self, name: &[u8]) -> Result<()> {
        match &self.fence {
            None => Ok(()),
            Some(fence) if !fence.closed.has(key::slot(name)) => Ok(()),
            Some(_) => Err(moving()),
        }
    }

    /// Whether a key is one of this node.
    #[inline]
    pub(super) fn is_own(&self, name: &[u8]) -> bool {
        self.fence.as_ref().is_none_or(|fence| !fence.foreign.has(key::slot(name)))
    }

    /// Visits the names of keys at the next `count` ids from `cursor` (0 at first), also of keys that are expired or out of reach, and
    /// returns the next cursor (0 at the end). A key that exists from the first call to the last is visited exactly once.
    pub fn scan_all(&self, cursor: u64, count: usize, mut visit: impl FnMut(&Bytes)) -> u64 {
        self.see(self.revision);
        let slots = self.table.slots() as u64;
        let end = cursor.saturating_add(count as u64).min(slots);
        (cursor..end).filter_map(|id| self.table.key(id as Id)).for_each(&mut visit);
        if end < slots { end } else { 0 }
    }

    /// As [`scan_all`](Keyspace::scan_all), with two estimates: the bytes that each key uses without its value, and with what of its value
    /// is in memory.
    pub fn scan_sizes(&self, cursor: u64, count: usize, mut visit: impl FnMut(&Bytes, usize, usize)) -> u64 {
        self.see(self.revision);
        let slots = self.table.slots() as u64;
        let end = cursor.saturating_add(count as u64).min(slots);
        for id in cursor..end {
            if let (Some(name), Some(bytes)) = (self.table.key(id as Id), self.bytes_at(id as Id)) {
                visit(name, super::memory::entry_bytes(name), bytes);
            }
        }
        if end < slots { end } else { 0 }
    }

    /// How many keys are this node's. It goes through all of them, and is for a node that has others.
    #[must_use]
    pub fn count_own(&self) -> usize {
        self.see(self.revision);
        self.table.iter_from(0).filter(|(_, name, ..)| self.is_own(name)).count()
    }
}

#[cold]
fn moving() -> Error {
    Error::new(Code::TryAgain, "the slot of this key is being moved to another node: try again")
}

#[cfg(test)]
mod tests {
    use keystead_core::Millis;

    use super::*;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    #[test]
    fn keys_of_closed_slots_are_out_of_reach_and_others_are_not() {
        let mut keys = Keyspace::in_memory();
        for name in [b"a", b"b"] {
            keys.set_str(name, Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
        }
        let listed = |keys: &mut Keyspace| {
            let mut names = Vec::new();
            keys.scan(0, 10, NOW, |name, _| names.push(name.clone())).unwrap();
            names.len()
        };
        for (access, own) in [(SlotAccess::Closed, 2), (SlotAccess::Foreign, 1)] {
            keys.set_slots([key::slot(b"a")], access);
            for rejected in [
                keys.exists(b"a", NOW).map(drop),
                keys.set_str(b"a", Bytes::from(b"w"), Expire::Keep, NOW).map(drop),
                keys.set_str(b"{a}new", Bytes::from(b"w"), Expire::Keep, NOW).map(drop),
                keys.rename(b"b", b"a", true, NOW).map(drop),
                keys.delete(b"a", NOW).map(drop),
                keys.set_mut(b"a", NOW).map(drop).map_err(Error::from),
            ] {
                assert_eq!(rejected.unwrap_err().code(), Code::TryAgain);
            }
            assert_eq!(keys.str(b"b", NOW).unwrap().map(|value| value.len()), Some(1));
            assert_eq!((listed(&mut keys), keys.count_own()), (own, own));
            assert_ne!(keys.random_key(7, NOW).unwrap().as_deref(), (own == 1).then_some(&b"a"[..]));
        }
        let exported = keys.export(&Bytes::from(b"a")).unwrap();
        keys.import(&exported).unwrap();
        keys.set_slots([key::slot(b"a")], SlotAccess::Open);
        assert_eq!(keys.str(b"a", NOW).unwrap().map(|value| value.len()), Some(1));
        assert_eq!(keys.effects().len(), 4, "nothing but the first two changes and the import");
    }
}

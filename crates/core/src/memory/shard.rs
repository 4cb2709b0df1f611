//! One shard: its keys, behind one lock. Who holds the lock is the keys' one writer.

use foldhash::fast::RandomState;
use hipstr::HipByt;

use crate::clock::Millis;
use crate::erased::{AnyState, ErasedStep, Verdict};
use crate::error::Result;
use crate::table::{Id, Table};

/// Expired keys that an apply looks at on its way. More than one, so that reclaiming outruns inserting.
const RECLAIM_PER_APPLY: usize = 4;

/// Expired keys that a sweep looks at before it lets go of the lock.
const RECLAIM_PER_SLICE: usize = 256;

pub(super) struct Shard {
    /// Every entry holds a state; it is an `Option` because that is the slot a step runs on.
    table: Table<Option<AnyState>>,
    max_keys: usize,
}

impl Shard {
    pub(super) fn new(parts: usize, hasher: RandomState, max_keys: usize) -> Self {
        Shard { table: Table::with_state(parts, hasher), max_keys }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
    }

    #[inline]
    pub(super) fn apply(
        &mut self,
        hash: u64,
        key: &[u8],
        step: &mut dyn ErasedStep,
        now: Millis,
    ) -> Result<()> {
        if !self.table.is_idle_at(now) {
            self.reclaim(now, &mut { RECLAIM_PER_APPLY });
        }
        let Some(id) = self.table.find_hashed(hash, key) else {
            return self.apply_to_absent(hash, key, step, now);
        };
        let Some(mut entry) = self.table.live(id, now) else {
            return self.apply_to_expired(id, step, now);
        };
        match step.run(entry.value(), now)? {
            Verdict::Keep => {}
            Verdict::Put(ttl) => entry.set_expires_at(ttl.expires_at(now, entry.expires_at())),
            Verdict::Delete => drop(self.table.remove(id)),
        }
        Ok(())
    }

    // Out of line, here and below: what is rare must not make the common way longer.
    #[inline(never)]
    fn apply_to_absent(
        &mut self,
        hash: u64,
        key: &[u8],
        step: &mut dyn ErasedStep,
        now: Millis,
    ) -> Result<()> {
        let mut slot = None;
        if let Verdict::Put(ttl) = step.run(&mut slot, now)? {
            let id = self.insert(hash, key, slot, now);
            self.table.set_expires_at(id, ttl.expires_at(now, Millis::NEVER));
        }
        Ok(())
    }

    /// The step sees an absent key; only a put touches what is left of the old one.
    #[inline(never)]
    fn apply_to_expired(&mut self, id: Id, step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        let mut slot = None;
        if let Verdict::Put(ttl) = step.run(&mut slot, now)? {
            if let Some(place) = self.table.get_mut(id) {
                *place = slot;
            }
            self.table.set_expires_at(id, ttl.expires_at(now, Millis::NEVER));
        } else {
            self.table.remove(id);
        }
        Ok(())
    }

    pub(super) fn reset(&mut self, hash: u64, key: &[u8], now: Millis) -> bool {
        let Some(id) = self.table.find_hashed(hash, key) else {
            return false;
        };
        let live = self.table.live(id, now).is_some();
        self.table.remove(id);
        live
    }

    /// Reclaims some of what is due, and tells whether there may be more.
    pub(super) fn reclaim_slice(&mut self, now: Millis) -> bool {
        let mut budget = RECLAIM_PER_SLICE;
        self.reclaim(now, &mut budget);
        budget == 0
    }

    #[inline(never)]
    fn reclaim(&mut self, now: Millis, budget: &mut usize) {
        while let Some(id) = self.table.pop_expired(now, budget) {
            self.table.remove(id);
        }
    }

    fn insert(&mut self, hash: u64, key: &[u8], slot: Option<AnyState>, now: Millis) -> Id {
        if self.table.len() >= self.max_keys {
            self.reclaim(now, &mut { RECLAIM_PER_APPLY });
        }
        while self.table.len() >= self.max_keys {
            let Some(id) = self.table.evictable(|_, _| true) else {
                break;
            };
            self.table.remove(id);
        }
        self.table.insert_hashed(hash, HipByt::from(key), slot)
    }
}

//! One shard: its keys, behind one lock.

use foldhash::fast::RandomState;
use hipstr::HipByt;

use crate::clock::{Clock, Millis};
use crate::erased::{AnyState, ErasedStep, Verdict};
use crate::error::Result;
use crate::table::{Id, Live, Table};

/// Expired keys that an apply checks. More than one, so that reclaiming is faster than inserting.
const RECLAIM_PER_APPLY: usize = 4;

/// Expired keys that a sweep checks before it releases the lock.
const RECLAIM_PER_SLICE: usize = 256;

pub(super) struct Shard {
    /// Every entry holds a state; it is an `Option` because a step runs on such a slot.
    table: Table<Option<AnyState>>,
    max_keys: usize,
    /// Hash and id of the key that was found last. Repeated requests for one hot key skip the index.
    last: (u64, Id),
    /// The latest time of a step.
    newest: Millis,
}

impl Shard {
    pub(super) fn new(parts: usize, hasher: RandomState, max_keys: usize) -> Self {
        Shard { table: Table::with_state(parts, hasher), max_keys, last: (0, 0), newest: Millis(0) }
    }

    /// The time of the next step, given the clock's value from before the lock was taken. When another step was later meanwhile,
    /// the clock is read again: the steps of a key see time in their order, unless the clock itself jumps back.
    #[inline]
    pub(super) fn in_order(&mut self, now: Millis, clock: &dyn Clock) -> Millis {
        let now = if now < self.newest { clock.now() } else { now };
        self.newest = now;
        now
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
    }

    /// Always inlined, down to the step: where its type is known, it runs without a call and writes its reply directly to
    /// the caller's slot. So the step is called in one place only, and rare cases are out of line.
    #[inline(always)]
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
        let found = match self.last {
            (last, id) if last == hash && self.table.is_at(id, key) => Some(id),
            _ => self.find(hash, key),
        };
        let mut absent = None;
        let mut live = found.and_then(|id| self.table.live(id, now));
        let slot = live.as_mut().map_or(&mut absent, Live::value);
        let verdict = step.run(slot, now)?;
        match (live, verdict) {
            (Some(_), Verdict::Keep) => {}
            (Some(mut entry), Verdict::Put(ttl)) => {
                entry.set_expires_at(ttl.expires_at(now, entry.expires_at()));
            }
            (Some(_), Verdict::Delete) => self.remove(found),
            (None, verdict) => self.settle_absent(hash, key, found, (absent, verdict), now),
        }
        Ok(())
    }

    #[inline(never)]
    fn find(&mut self, hash: u64, key: &[u8]) -> Option<Id> {
        let id = self.table.find_hashed(hash, key)?;
        self.last = (hash, id);
        Some(id)
    }

    /// Carries out what a step on an absent key decided. `expired` is the entry of an expired key that was not reclaimed yet.
    #[inline(never)]
    fn settle_absent(
        &mut self,
        hash: u64,
        key: &[u8],
        expired: Option<Id>,
        (slot, verdict): (Option<AnyState>, Verdict),
        now: Millis,
    ) {
        let Verdict::Put(ttl) = verdict else {
            return self.remove(expired);
        };
        let id = match expired {
            Some(id) => {
                if let Some(stored) = self.table.get_mut(id) {
                    *stored = slot;
                }
                id
            }
            None => self.insert(hash, key, slot, now),
        };
        self.table.set_expires_at(id, ttl.expires_at(now, Millis::NEVER));
    }

    #[inline(never)]
    fn remove(&mut self, id: Option<Id>) {
        if let Some(id) = id {
            self.table.remove(id);
        }
    }

    pub(super) fn reset(&mut self, hash: u64, key: &[u8], now: Millis) -> bool {
        let Some(id) = self.table.find_hashed(hash, key) else {
            return false;
        };
        let live = self.table.live(id, now).is_some();
        self.table.remove(id);
        live
    }

    /// Reclaims some expired keys and returns whether there may be more.
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

//! Keys in memory: a table that finds an entry by its key, reclaims expired entries, and chooses entries to evict.
//!
//! [`Table`] combines three independent parts: a slab that never moves an entry, a hash index from
//! key to entry, and a timing [`Wheel`] over the entries that expire. No operation takes time proportional to the
//! number of keys (except when the clock jumps far back, see [`Wheel`]): growing adds a chunk to the slab and
//! rebuilds one small part of the index; reclaiming costs O(expired); evicting checks a bounded number of entries.
//!
//! Invariant: an entry keeps its [`Id`] until it is removed, so a scan over ids sees every key that exists throughout.

mod buckets;
mod due;
mod index;
mod slab;
mod wheel;

use std::hint::black_box;

use foldhash::fast::RandomState;
use hipstr::HipByt;

use crate::clock::Millis;

use due::Due;
use index::Index;
use slab::Slab;
pub use wheel::Wheel;

/// The number of an entry in a table. It is reused after its entry was removed.
pub type Id = u32;

/// How many entries the CLOCK hand checks before it evicts the one it points to.
const HAND_STEPS_MAX: usize = 64;

/// Most keys whose memory [`Table::prefetch`] waits for at the same time. A processor has about that many reads under way.
pub const PREFETCH_MAX: usize = 16;

/// Entries by key.
pub struct Table<V> {
    slab: Slab<Entry<V>>,
    index: Index,
    wheel: Wheel,
    hand: Id,
}

struct Entry<V> {
    key: HipByt<'static>,
    due: Due,
    value: V,
}

/// An entry that exists and is not expired.
pub struct Live<'a, V> {
    entry: &'a mut Entry<V>,
    wheel: &'a mut Wheel,
    id: Id,
}

impl<V> Live<'_, V> {
    /// Its value, mutable.
    #[inline]
    pub fn value(&mut self) -> &mut V {
        &mut self.entry.value
    }

    /// When it expires.
    #[inline]
    #[must_use]
    pub fn expires_at(&self) -> Millis {
        self.entry.due.expires_at()
    }

    /// Sets when it expires. A later expiry is free: the wheel checks again at the earlier time.
    #[inline]
    pub fn set_expires_at(&mut self, at: Millis) {
        let before = self.entry.due.expires_at();
        self.entry.due.set_expires_at(at);
        if at < before || at == Millis::NEVER {
            self.reschedule(before, at);
        }
    }

    #[inline(never)]
    fn reschedule(&mut self, before: Millis, at: Millis) {
        if at != Millis::NEVER {
            self.wheel.schedule(self.id, at);
        } else if before != Millis::NEVER {
            self.wheel.cancel(self.id);
        }
    }
}

impl<V> Table<V> {
    /// An empty table whose index has `parts` parts (a power of two). More parts make each step of growing smaller.
    #[must_use]
    pub fn new(parts: usize) -> Self {
        Table::with_state(parts, RandomState::default())
    }

    /// The same with a given hash seed, so that several tables and their owner can share the hash of a key.
    #[must_use]
    pub fn with_state(parts: usize, state: RandomState) -> Self {
        Table { slab: Slab::new(), index: Index::new(parts, state), wheel: Wheel::new(), hand: 0 }
    }

    /// The hash of a key in this table. Callers that need it more than once compute it once.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.index.hash(key)
    }

    /// Reserves space in the index for that many more keys, so that it need not grow step by step.
    pub fn reserve(&mut self, additional: usize) {
        self.index.reserve(additional);
    }

    /// Number of entries, including those that are expired but not yet reclaimed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Number of entries that expire.
    #[must_use]
    pub fn scheduled(&self) -> usize {
        self.wheel.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds a key, expired or not.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<Id> {
        self.find_hashed(self.hash(key), key)
    }

    /// Finds a key whose hash is known.
    #[inline(never)]
    #[must_use]
    pub fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<Id> {
        self.index.find(hash, |id| self.is_at(id, key))
    }

    /// Reads what finding these keys, and `read`ing their values, will read. The reads of different keys do not depend on each other,
    /// so the processor waits for the memory of all of them at once; finding one key after the other waits for each. It changes
    /// nothing, and keys beyond [`PREFETCH_MAX`] are ignored.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, read: impl Fn(&V) -> u8) {
        let (mut ids, mut len) = ([Id::MAX; PREFETCH_MAX], 0);
        for (id, key) in ids.iter_mut().zip(keys) {
            *id = self.index.likely(self.hash(key));
            len += 1;
        }
        let entries = || ids[..len].iter().filter_map(|id| self.slab.get(*id));
        black_box(entries().fold(0, |all, entry| all ^ entry.due.expires_at().0));
        black_box(entries().fold(0, |all, entry| all ^ read(&entry.value)));
    }

    /// Whether the entry with this id has this key.
    #[inline]
    #[must_use]
    pub fn is_at(&self, id: Id, key: &[u8]) -> bool {
        self.slab.get(id).is_some_and(|entry| same(entry.key.as_slice(), key))
    }

    /// Adds a key that does not exist yet. It does not expire.
    pub fn insert(&mut self, key: HipByt<'static>, value: V) -> Id {
        self.insert_hashed(self.hash(&key), key, value)
    }

    /// The same with a known hash.
    pub fn insert_hashed(&mut self, hash: u64, key: HipByt<'static>, value: V) -> Id {
        let id = self.slab.insert(Entry { key, due: Due::at(Millis::NEVER), value });
        self.index.insert(hash, id);
        id
    }

    /// Adds a key that does not exist yet with a given id, as it was before a restart.
    ///
    /// # Errors
    /// The value, when the id is in use.
    pub fn insert_at(&mut self, id: Id, key: HipByt<'static>, value: V) -> Result<(), V> {
        let hash = self.hash(&key);
        self.slab
            .insert_at(id, Entry { key, due: Due::at(Millis::NEVER), value })
            .map_err(|entry| entry.value)?;
        self.index.insert(hash, id);
        Ok(())
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: Id) -> Option<(HipByt<'static>, V)> {
        let entry = self.slab.remove(id)?;
        let hash = self.hash(&entry.key);
        self.index.remove(hash, id);
        if entry.due.expires_at() != Millis::NEVER {
            self.wheel.cancel(id);
        }
        if self.slab.len() == 0 {
            self.wheel.shrink();
            self.hand = 0;
        }
        Some((entry.key, entry.value))
    }

    /// The key of an entry.
    #[must_use]
    pub fn key(&self, id: Id) -> Option<&HipByt<'static>> {
        self.slab.get(id).map(|entry| &entry.key)
    }

    /// The value of an entry.
    #[inline]
    #[must_use]
    pub fn get(&self, id: Id) -> Option<&V> {
        self.slab.get(id).map(|entry| &entry.value)
    }

    /// The value of an entry, mutable.
    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut V> {
        self.slab.get_mut(id).map(|entry| &mut entry.value)
    }

    /// An entry that is not expired at `now`, mutable. Counts as a use.
    #[inline]
    pub fn live(&mut self, id: Id, now: Millis) -> Option<Live<'_, V>> {
        let entry = self.slab.get_mut(id)?;
        entry.due.set_used();
        (now < entry.due.expires_at()).then_some(Live { entry, wheel: &mut self.wheel, id })
    }

    /// Marks an entry as used, so that the CLOCK hand skips it once.
    pub fn touch(&mut self, id: Id) {
        if let Some(entry) = self.slab.get_mut(id) {
            entry.due.set_used();
        }
    }

    /// When an entry expires; [`Millis::NEVER`] when it does not or does not exist.
    #[must_use]
    pub fn expires_at(&self, id: Id) -> Millis {
        self.slab.get(id).map_or(Millis::NEVER, |entry| entry.due.expires_at())
    }

    /// Sets when an entry expires. A later expiry is free: the wheel checks again at the earlier time.
    #[inline]
    pub fn set_expires_at(&mut self, id: Id, at: Millis) {
        if let Some(entry) = self.slab.get_mut(id) {
            Live { entry, wheel: &mut self.wheel, id }.set_expires_at(at);
        }
    }

    /// Whether nothing can be expired at `now`, by one comparison; `false` means unknown.
    #[inline]
    #[must_use]
    pub fn is_idle_at(&self, now: Millis) -> bool {
        self.wheel.is_idle_at(now)
    }

    /// The next entry that is expired at `now`, still in the table. Each entry that is checked costs one of `budget`.
    ///
    /// Every entry is returned once; the caller removes it or sets another expiry.
    pub fn pop_expired(&mut self, now: Millis, budget: &mut usize) -> Option<Id> {
        let slab = &self.slab;
        self.wheel
            .pop_due(now, budget, |id| slab.get(id).map_or(Millis::NEVER, |entry| entry.due.expires_at()))
    }

    /// Chooses an entry to evict among those that `may_go`: the first from the CLOCK hand on that was not used since it passed.
    ///
    /// When all that are checked were used, it returns the last one that may go, so the cost is bounded.
    pub fn evictable(&mut self, mut may_go: impl FnMut(Id, &V) -> bool) -> Option<Id> {
        let mut fallback = None;
        let mut looked_at = 0;
        for _ in 0..self.slab.capacity() {
            let id = self.slab.skip_empty(self.hand);
            self.hand = if (id as usize) + 1 < self.slab.slots() { id + 1 } else { 0 };
            let Some(entry) = self.slab.get_mut(id) else {
                continue;
            };
            looked_at += 1;
            if may_go(id, &entry.value) {
                if !entry.due.take_used() {
                    return Some(id);
                }
                fallback = Some(id);
            }
            if looked_at >= HAND_STEPS_MAX {
                break;
            }
        }
        fallback
    }

    /// Iterates over the entries in the order of their ids, starting at `from`.
    pub fn iter_from(&self, from: Id) -> impl Iterator<Item = (Id, &HipByt<'static>, &V, Millis)> {
        self.slab.iter_from(from).map(|(id, entry)| (id, &entry.key, &entry.value, entry.due.expires_at()))
    }

    /// One more than the largest id that was ever in use.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slab.slots()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Table { slab: Slab::new(), index: self.index.emptied(), wheel: Wheel::new(), hand: 0 };
    }
}

/// Whether two keys are equal. The standard comparison is a function call; keys of the usual lengths avoid it by comparing their
/// first and last bytes, which overlap.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    a.len() == b.len()
        && match a.len() {
            8..=16 => ends::<8>(a, b),
            17..=32 => ends::<16>(a, b),
            _ => a == b,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> HipByt<'static> {
        HipByt::from(format!("key:{n}").into_bytes())
    }

    #[test]
    fn entries_are_found_by_key_and_keep_their_id() {
        let mut table = Table::new(4);
        let ids: Vec<Id> = (0..10_000).map(|n| table.insert(key(n), n)).collect();
        assert_eq!(table.len(), 10_000);
        for n in 0..10_000 {
            let id = table.find(&key(n)).unwrap();
            assert_eq!((id, table.get(id)), (ids[n as usize], Some(&n)));
        }
        assert_eq!(table.remove(ids[17]).unwrap().1, 17);
        assert_eq!(table.find(&key(17)), None);
        assert_eq!(table.insert(key(10_000), 10_000), ids[17], "a free id is reused");
        assert_eq!(table.iter_from(0).count(), 10_000);
    }

    #[test]
    fn keys_that_differ_in_one_byte_are_different_at_every_length() {
        for len in 1..70 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same(&a, &a.clone()));
            assert!(!same(&a, &a[1..]));
            for at in 0..len {
                let mut b = a.clone();
                b[usize::from(at)] ^= 0x80;
                assert!(!same(&a, &b), "byte {at} of {len}");
            }
        }
    }

    #[test]
    fn entries_can_be_restored_with_their_id() {
        let mut table = Table::new(1);
        table.insert_at(5000, key(1), 'a').unwrap();
        table.insert_at(3, key(2), 'b').unwrap();
        assert_eq!(table.insert_at(3, key(3), 'c'), Err('c'));
        assert_eq!(table.find(&key(1)), Some(5000));
        let new: Vec<Id> = (10..14).map(|n| table.insert(key(n), 'n')).collect();
        assert!(new.iter().all(|id| *id != 3 && *id != 5000), "{new:?}");
        assert_eq!(table.len(), 6);
    }

    #[test]
    fn what_is_prefetched_is_what_will_be_found() {
        let mut table = Table::new(4);
        (0..10_000_u32).for_each(|n| {
            table.insert(key(n), n);
        });
        let read = std::cell::RefCell::new(Vec::new());
        let prefetch = |table: &Table<u32>, keys: &[HipByt<'static>]| {
            table.prefetch(keys.iter().map(|key| key.as_slice()), |n| {
                read.borrow_mut().push(*n);
                0
            });
            read.take()
        };
        let mut found = 0;
        for n in 0..10_000 {
            let values = prefetch(&table, &[key(n)]);
            assert!(values.is_empty() || values == [n], "{n}: {values:?}");
            found += values.len();
        }
        // A key whose home line is full may be in the next one, and is left to the lookup.
        assert!(found > 8_000, "{found}");
        let many: Vec<_> = (0..100).map(key).collect();
        let values = prefetch(&table, &many);
        assert!(
            values.len() > PREFETCH_MAX / 2 && values.iter().all(|n| *n < PREFETCH_MAX as u32),
            "{values:?}"
        );
        assert!(prefetch(&table, &[key(10_000)]).is_empty());
        assert!(prefetch(&Table::new(1), &many).is_empty());
    }

    #[test]
    fn an_expired_entry_is_returned_once_and_only_when_due() {
        let mut table = Table::new(1);
        for n in 0..1000 {
            let id = table.insert(key(n), n);
            table.set_expires_at(id, Millis(1000 + u64::from(n) * 10));
        }
        let mut budget = usize::MAX;
        assert_eq!(table.pop_expired(Millis(900), &mut budget), None);
        let mut reclaimed = 0;
        while let Some(id) = table.pop_expired(Millis(6000), &mut budget) {
            assert!(table.expires_at(id) <= Millis(6000));
            table.remove(id);
            reclaimed += 1;
        }
        assert!((499..=501).contains(&reclaimed), "up to one tick late: {reclaimed}");
    }

    #[test]
    fn the_hand_skips_used_and_unevictable_entries() {
        let mut table = Table::new(1);
        let ids: Vec<Id> = (0..10).map(|n| table.insert(key(n), n)).collect();
        for id in &ids[..5] {
            table.touch(*id);
        }
        assert_eq!(table.evictable(|_, _| true), Some(ids[5]));
        assert_eq!(table.evictable(|_, n| *n != 6), Some(ids[7]));
        assert_eq!(table.evictable(|_, _| false), None);
    }

    #[test]
    fn the_hand_checks_a_bounded_number_of_used_entries() {
        let mut table = Table::new(1);
        for n in 0..100_000 {
            let id = table.insert(key(n), n);
            table.touch(id);
        }
        let mut checked = 0;
        assert!(
            table
                .evictable(|_, _| {
                    checked += 1;
                    true
                })
                .is_some()
        );
        assert_eq!(checked, HAND_STEPS_MAX);
    }
}

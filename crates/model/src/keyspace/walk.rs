//! Scanning keys: scans that tolerate changes, a random key, the number of keys.
//!
//! It touches nothing but the keyspace. Invariant: an entry never moves, so a scan by id returns every key that exists
//! throughout. The result of a scan depends on every earlier deletion, so it depends on the latest revision.

use keystead_core::table::Id;
use keystead_core::{Millis, Result};

use super::Keyspace;
use crate::Bytes;
use crate::value::Kind;

/// Ids that a scan checks for each requested key, so that a scan through gaps stays short too.
const CHECKS_PER_KEY: usize = 16;

/// Random ids that are tried before a random key is searched by a scan.
const RANDOM_TRIES: u64 = 64;

impl Keyspace {
    /// Number of keys in memory, including those that are expired but not yet reclaimed: all keys, unless they are read on demand.
    #[must_use]
    pub fn len(&self) -> usize {
        self.see(self.revision);
        self.table.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys, for monitoring: the result does not depend on any revision.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Number of keys with an expiry, for monitoring.
    #[must_use]
    pub fn count_that_expire(&self) -> usize {
        self.table.scheduled()
    }

    /// Visits about `count` keys from `cursor` (0 at first) and returns the next cursor (0 at the end).
    ///
    /// A key that exists from the first call to the last is visited exactly once.
    ///
    /// # Errors
    /// When fields of a hash may have expired and it cannot be loaded.
    pub fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(&Bytes, Kind),
    ) -> Result<u64> {
        self.see(self.revision);
        if self.on_demand.is_some() {
            return self.scan_rows(cursor, count, now, &mut visit);
        }
        let slots = self.table.slots() as u64;
        let end = cursor.saturating_add((count.max(1)).saturating_mul(CHECKS_PER_KEY) as u64).min(slots);
        let mut visited = 0;
        let mut next = cursor;
        while next < end && visited < count.max(1) {
            let id = next as Id;
            next += 1;
            if self.settle_fields(id, now)?
                && let (Some(key), Some(entry)) = (self.table.key(id), self.table.get(id))
                && self.is_own(key)
            {
                visit(key, entry.value.kind());
                visited += 1;
            }
        }
        Ok(if next < slots { next } else { 0 })
    }

    /// An existing key, chosen by `random`.
    ///
    /// # Errors
    /// As [`scan`](Keyspace::scan).
    pub fn random_key(&mut self, random: u64, now: Millis) -> Result<Option<Bytes>> {
        self.see(self.revision);
        if self.on_demand.is_some() {
            return self.random_row(random, now);
        }
        let slots = self.table.slots() as u64;
        if slots == 0 {
            return Ok(None);
        }
        // Steps of an odd constant are spread over all ids; where most of them are free, the scan finds a key.
        let jumps =
            (0..RANDOM_TRIES).map(|n| random.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % slots);
        let walk = (0..slots).map(|n| (random % slots + n) % slots);
        for id in jumps.chain(walk) {
            if self.settle_fields(id as Id, now)?
                && self.table.key(id as Id).is_some_and(|key| self.is_own(key))
            {
                return Ok(self.table.key(id as Id).cloned());
            }
        }
        Ok(None)
    }

    /// Whether there is a key at `id` that is not expired, after its expired fields are reclaimed.
    fn settle_fields(&mut self, id: Id, now: Millis) -> Result<bool> {
        if self.table.get(id).is_none() || !self.is_live(id, now) {
            return Ok(false);
        }
        if self.fields.is_due(id, now) {
            self.drop_fields(id, now)?;
        }
        Ok(self.table.get(id).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    #[test]
    fn a_scan_visits_every_key_that_stays_exactly_once() {
        let mut ks = Keyspace::in_memory();
        let key = |n: u32| format!("k{n}").into_bytes();
        for n in 0..3000 {
            ks.set_str(&key(n), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
        }
        let (mut seen, mut cursor, mut step) = (Vec::new(), 0, 0);
        loop {
            cursor = ks.scan(cursor, 10, NOW, |key, _| seen.push(key.clone())).unwrap();
            // Odd keys are added and deleted meanwhile, and leave gaps.
            ks.delete(&key(step * 2 + 1), NOW).unwrap();
            ks.set_str(&key(10_001 + step * 2), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
            step += 1;
            if cursor == 0 {
                break;
            }
        }
        let stayed: BTreeSet<Bytes> = (0..1500).map(|n| Bytes::from(key(n * 2))).collect();
        let of_those: Vec<&Bytes> = seen.iter().filter(|key| stayed.contains(*key)).collect();
        assert_eq!(of_those.len(), 1500);
        assert_eq!(of_those.into_iter().collect::<BTreeSet<_>>().len(), 1500);
    }

    #[test]
    fn expired_keys_are_not_scanned_and_a_random_key_exists() {
        let mut ks = Keyspace::in_memory();
        assert_eq!(ks.random_key(7, NOW).unwrap(), None);
        assert_eq!(ks.scan(0, 10, NOW, |_, _| {}).unwrap(), 0);
        for n in 0..100u32 {
            let expire = Expire::At(if n == 42 { Millis::NEVER } else { Millis(1500) });
            ks.set_str(format!("k{n}").as_bytes(), Bytes::from(b"v"), expire, NOW).unwrap();
        }
        for random in [0, 1, u64::MAX] {
            assert_eq!(ks.random_key(random, Millis(1500)).unwrap().as_deref(), Some(&b"k42"[..]));
        }
        let mut seen = 0;
        let mut cursor = 0;
        loop {
            cursor = ks
                .scan(cursor, 5, Millis(1500), |_, kind| {
                    assert_eq!(kind, Kind::Str);
                    seen += 1;
                })
                .unwrap();
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, 1);
    }
}

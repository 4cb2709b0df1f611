//! The last known value of busy keys, so that a change is one round trip. Bounded.
//!
//! Two generations: what is used moves to the young one, and when that is full the old one is dropped. A cached value may be stale. A
//! swap finds that out, and nothing else is decided by it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::Key;

use super::drive::Base;
use crate::bounds::{CACHED_BYTES_MAX, CACHED_KEYS_MAX};

#[derive(Default)]
pub(super) struct Cache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Key, Base>,
    young_bytes: usize,
    old: HashMap<Key, Base>,
}

impl Cache {
    /// Takes the value of a key out of the cache. The batch that takes it puts back what it knows afterwards.
    pub(super) fn take(&self, key: &Key) -> Option<Base> {
        let mut all = self.lock();
        if let Some(base) = all.young.remove(key) {
            all.young_bytes -= size(key, &base);
            return Some(base);
        }
        all.old.remove(key)
    }

    pub(super) fn put(&self, key: &Key, base: Base) {
        let bytes = size(key, &base);
        if bytes > CACHED_BYTES_MAX / 4 {
            return;
        }
        let mut all = self.lock();
        if all.young.len() >= CACHED_KEYS_MAX / 2 || all.young_bytes + bytes > CACHED_BYTES_MAX / 2 {
            all.old = std::mem::take(&mut all.young);
            all.young_bytes = 0;
        }
        all.young_bytes += bytes;
        if let Some(replaced) = all.young.insert(key.clone(), base) {
            all.young_bytes -= size(key, &replaced);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(key: &Key, base: &Base) -> usize {
    let state = base.record.as_ref().and_then(|record| record.state.as_ref());
    key.as_bytes().len() + state.map_or(0, String::len) + size_of::<(Key, Base)>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cas::record::Record;
    use keystead_core::Millis;

    fn base(len: usize) -> Base {
        let state = Some("x".repeat(len));
        let record = Record { version: 1, expires_at: Millis::NEVER, writers: Vec::new(), state };
        Base { token: None, record: Some(record), now: None }
    }

    fn key(i: usize) -> Key {
        Key::new(i.to_string()).unwrap()
    }

    #[test]
    fn the_latest_keys_stay_and_the_number_is_bounded() {
        let cache = Cache::default();
        for i in 0..3 * CACHED_KEYS_MAX {
            cache.put(&key(i), base(1));
        }
        let cached = (0..3 * CACHED_KEYS_MAX).filter(|i| cache.take(&key(*i)).is_some()).count();
        assert!((CACHED_KEYS_MAX / 2..=CACHED_KEYS_MAX).contains(&cached), "{cached}");
        assert_eq!(cache.lock().young_bytes, 0, "everything was taken out");
    }

    #[test]
    fn the_bytes_are_bounded() {
        let cache = Cache::default();
        for i in 0..100 {
            cache.put(&key(i), base(CACHED_BYTES_MAX / 10));
        }
        assert!(cache.lock().young_bytes <= CACHED_BYTES_MAX / 2);
        assert!((0..100).filter(|i| cache.take(&key(*i)).is_some()).count() <= 10);
        cache.put(&key(0), base(CACHED_BYTES_MAX));
        assert!(cache.take(&key(0)).is_none(), "one value does not displace all others");
    }
}

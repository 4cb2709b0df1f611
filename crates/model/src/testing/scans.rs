//! A scan visits every element that stays, also when the value is evicted and loaded, or rolled back, between its steps.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use keystead_core::{Millis, Revision};

use super::{SharedReader, Sqlite};
use crate::Bytes;
use crate::keyspace::Keyspace;
use crate::sql::{Pending, migrate};

const NOW: Millis = Millis(1000);
/// Large enough to be scanned in steps.
const LEN: u32 = 1000;
const KEYS: [&[u8]; 3] = [b"hash", b"set", b"zset"];

fn name(n: u32) -> Bytes {
    // The archive returns elements in another order than they were added in.
    Bytes::from(format!("{:08x}", n.wrapping_mul(0x9E37_79B1)).as_bytes())
}

/// One of each kind of collection, over an archive.
struct Scene {
    ks: Keyspace,
    db: Arc<Mutex<Sqlite>>,
    pending: Pending,
}

impl Scene {
    fn new() -> Self {
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        let db = Arc::new(Mutex::new(db));
        let ks = Keyspace::new(Box::new(SharedReader(Arc::clone(&db))));
        let mut scene = Scene { ks, db, pending: Pending::new(Revision::ZERO, Revision::ZERO) };
        (0..LEN).for_each(|n| scene.insert(n));
        scene
    }

    fn insert(&mut self, n: u32) {
        self.ks.hash_mut(b"hash", NOW).unwrap().set(&name(n), &Bytes::from(b"v"));
        self.ks.set_mut(b"set", NOW).unwrap().insert(&name(n));
        self.ks.zset_mut(b"zset", NOW).unwrap().insert(&name(n), f64::from(n));
    }

    fn remove(&mut self, n: u32) {
        self.ks.hash_mut(b"hash", NOW).unwrap().remove(&name(n));
        self.ks.set_mut(b"set", NOW).unwrap().remove(&name(n));
        self.ks.zset_mut(b"zset", NOW).unwrap().remove(&name(n));
    }

    /// Evicts all values.
    fn evict(&mut self) {
        let mut effects = Vec::new();
        self.ks.take_effects(&mut effects);
        effects.iter().for_each(|effect| self.pending.absorb(effect));
        self.pending.write(&mut *self.db.lock().unwrap()).unwrap();
        self.pending.clear();
        self.ks.set_archived(self.pending.revision());
        assert!(self.ks.evict(0) > 0);
    }

    fn step(&mut self, key: &[u8], cursor: u64, seen: &mut BTreeSet<Bytes>) -> u64 {
        let mut see = |name: &[u8]| {
            seen.insert(Bytes::from(name));
        };
        match key {
            b"hash" => self.ks.hash(key, NOW).unwrap().unwrap().scan(cursor, 10, |field, _| see(field)),
            b"set" => self.ks.set(key, NOW).unwrap().unwrap().scan(cursor, 10, see),
            _ => self.ks.zset(key, NOW).unwrap().unwrap().scan(cursor, 10, |member, _| see(member)),
        }
    }

    /// Scans a collection, calls `between` after each step, and checks that it visited all elements that stayed.
    fn scan(&mut self, key: &[u8], mut between: impl FnMut(&mut Scene, u32)) {
        let (mut seen, mut cursor, mut steps) = (BTreeSet::new(), 0, 0);
        loop {
            cursor = self.step(key, cursor, &mut seen);
            if cursor == 0 {
                break;
            }
            between(self, steps);
            steps += 1;
            assert!(steps < 2 * LEN, "the scan does not end");
        }
        let missing = (0..LEN).filter(|n| n % 2 == 0 && !seen.contains(&name(*n))).count();
        assert_eq!(missing, 0, "in a {}", key.escape_ascii());
    }
}

#[test]
fn a_value_may_be_evicted_once_or_always() {
    for key in KEYS {
        let mut scene = Scene::new();
        scene.scan(key, |scene, step| {
            if step == 30 {
                scene.evict();
            }
        });
        scene.scan(key, |scene, _| scene.evict());
    }
}

#[test]
fn a_value_may_change_and_be_evicted() {
    for key in KEYS {
        let mut scene = Scene::new();
        scene.scan(key, |scene, step| {
            scene.remove(step * 2 + 1);
            scene.insert(LEN + step);
            if step % 7 == 5 {
                scene.evict();
            }
        });
    }
}

#[test]
fn a_value_may_become_small_be_evicted_and_grow_again() {
    for key in KEYS {
        let mut scene = Scene::new();
        let mut seen = BTreeSet::new();
        // Half of those that stay are still to be visited.
        let cursor = (0..95).fold(0, |cursor, _| scene.step(key, cursor, &mut seen));
        (100..LEN).for_each(|n| scene.remove(n));
        scene.evict();
        (LEN..LEN + 200).for_each(|n| scene.insert(n));
        let mut cursor = scene.step(key, cursor, &mut seen);
        while cursor != 0 {
            cursor = scene.step(key, cursor, &mut seen);
        }
        assert!((0..100).all(|n| seen.contains(&name(n))), "in a {}", key.escape_ascii());
    }
}

#[test]
fn a_change_may_be_rolled_back() {
    for key in KEYS {
        let mut scene = Scene::new();
        scene.scan(key, |scene, step| {
            if step == 50 {
                scene.ks.savepoint();
                (0..LEN).filter(|n| n % 3 == 0).for_each(|n| scene.remove(n));
                scene.ks.rollback();
            }
        });
    }
}

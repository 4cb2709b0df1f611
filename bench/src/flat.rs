//! MemoryStore from 1 thousand to 10 million keys: an apply, an insert, reclaiming one expired key, evicting one.
//!
//! The peer is the same store at 1 thousand keys; a hash map of the same size shows the cache misses alone.

use std::collections::HashMap;
use std::time::Instant;

use keystead_core::{
    Change, Key, ManualClock, MemoryOptions, MemoryStore, Millis, Step, StoreExt, Ttl, step_fn,
};

use crate::report::Random;
use crate::step::gcra;

const LOOKS: usize = 1_000_000;

pub(crate) fn run() {
    println!(
        "{:>12} {:>10} {:>10} {:>14} {:>12} {:>12} {:>16} {:>14}",
        "keys",
        "apply ns",
        "HashMap ns",
        "insert ns",
        "worst us",
        "expire ns",
        "expire, 0 due ns",
        "evict ns"
    );
    for keys in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let (insert, worst_us, apply) = filled(keys);
        let (expire, none_due) = expiring(keys);
        println!(
            "{keys:>12} {apply:>10.1} {:>10.1} {insert:>14.1} {worst_us:>12.1} {expire:>12.1} {none_due:>16.1} {:>14.1}",
            hash_map(keys),
            evicting(keys)
        );
    }
}

fn name(n: usize) -> Key {
    Key::new(format!("user:{n:08}")).unwrap()
}

fn put(ttl: Ttl) -> impl Step<State = u64, Reply = ()> {
    step_fn(move |n: Option<&u64>, _| Change::Put(n.map_or(0, |n| n + 1), ttl, ()))
}

fn ns_each(count: usize, mut run: impl FnMut(usize)) -> f64 {
    let started = Instant::now();
    (0..count).for_each(&mut run);
    started.elapsed().as_nanos() as f64 / count as f64
}

/// ns per insert, the slowest single insert in us, ns per apply of existing keys.
fn filled(keys: usize) -> (f64, f64, f64) {
    let store = MemoryStore::new();
    let step = gcra();
    let mut worst = 0u128;
    let insert = ns_each(keys, |n| {
        let key = name(n);
        let started = Instant::now();
        store.apply_sync(&key, &step).unwrap();
        worst = worst.max(started.elapsed().as_nanos());
    });
    let mut random = Random(1);
    let apply = ns_each(LOOKS, |_| {
        store.apply_sync(&name(random.below(keys)), &step).unwrap();
    });
    (insert, worst as f64 / 1000.0, apply)
}

/// ns for each of up to 10 thousand keys that are due among `keys` that are not, and for a sweep that finds nothing.
fn expiring(keys: usize) -> (f64, f64) {
    let clock = ManualClock::at(Millis(1_000_000));
    let store = MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap();
    let (late, soon) = (put(Ttl::Ms(86_400_000)), put(Ttl::Ms(1000)));
    for n in 0..keys {
        store.apply_sync(&name(n), &late).unwrap();
    }
    let due = keys.min(10_000);
    for n in 0..due {
        store.apply_sync(&name(keys + n), &soon).unwrap();
    }
    clock.advance_ms(2000);
    let expire = ns_each(1, |_| store.sweep()) / due as f64;
    assert_eq!(store.len(), keys);
    let none_due = ns_each(100, |_| {
        clock.advance_ms(100);
        store.sweep();
    });
    (expire, none_due)
}

/// ns per insert into a store that is full, so that each one evicts another.
fn evicting(keys: usize) -> f64 {
    let store = MemoryStore::open(MemoryOptions::default().max_keys(keys)).unwrap();
    let step = put(Ttl::Never);
    for n in 0..keys {
        store.apply_sync(&name(n), &step).unwrap();
    }
    let evict = ns_each(LOOKS, |n| store.apply_sync(&name(keys + n), &step).unwrap());
    assert!(store.len() <= keys);
    evict
}

fn hash_map(keys: usize) -> f64 {
    let mut map: HashMap<Key, u64> = (0..keys).map(|n| (name(n), 0)).collect();
    let mut random = Random(1);
    ns_each(LOOKS, |_| *map.get_mut(&name(random.below(keys))).unwrap() += 1)
}

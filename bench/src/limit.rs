//! A whole check of keystead-limit (key built, policy chosen at run time, decision) on MemoryStore compared with governor's keyed
//! limiter, both on their default clock and on the same keys.
//!
//! The cost of an allowed check of an existing key: about 400 instructions (governor: about 370), no allocation
//! (`crates/limit/tests/allocations.rs`), one reading of the processor's cycle counter, one lock; with a million keys, cache misses.
//! A limit that is compiled with its store runs its step without an indirect call; the rows `run-time` have the store chosen at run
//! time (`Arc<dyn Store>`), the rows `prefix` concatenate the default prefix and the key, which governor does not need.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use keystead_core::{MemoryStore, Store};
use keystead_limit::{FailMode, Limiter, Policy};

use crate::report::{Random, beside, is_wanted, ns_per_operation};

const MILLION: usize = 1_000_000;

/// Limits that are never reached: every check writes, on both sides.
const POLICIES: [(&str, &str); 3] = [
    ("gcra", r#"{"kind":"gcra","limit":1000000000,"periodMs":"5200w","burst":300000000}"#),
    ("tokenBucket", r#"{"kind":"tokenBucket","capacity":1000000000,"refillPerSec":1000}"#),
    ("fixedWindow", r#"{"kind":"fixedWindow","limit":1000000000,"windowMs":"5200w"}"#),
];

pub(crate) fn run() {
    let names: Vec<String> = (0..MILLION).map(|n| format!("user:{n:08}")).collect();
    for (keys, what) in [(1, "1 hot key"), (MILLION, "1 million keys")] {
        for threads in [1, 2] {
            let names = &names[..keys];
            for (kind, policy) in POLICIES {
                let label = format!("{kind}, {what}, {threads} thread(s)");
                compare(&label, || limiter(policy, MemoryStore::new()).prefix(""), names, threads);
            }
            let label = format!("gcra, {what}, {threads} thread(s), run-time");
            let chosen = || Arc::new(MemoryStore::new()) as Arc<dyn Store>;
            compare(&label, || limiter(POLICIES[0].1, chosen()).prefix(""), names, threads);
            let label = format!("gcra, {what}, {threads} thread(s), prefix");
            compare(&label, || limiter(POLICIES[0].1, MemoryStore::new()), names, threads);
        }
    }
}

fn limiter<S: Store>(policy: &str, store: S) -> Limiter<S> {
    Limiter::new(Policy::from_json(policy).unwrap(), store, FailMode::Closed)
}

fn compare<S: Store>(label: &str, limiter: impl FnOnce() -> Limiter<S>, names: &[String], threads: usize) {
    if !is_wanted(label) {
        return;
    }
    let operations = if names.len() == 1 { 4_000_000 } else { 2_000_000 };
    let limiter = limiter();
    let governor: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(Quota::per_second(NonZeroU32::MAX));
    for name in names {
        assert!(limiter.check_sync(name, 1).unwrap().allowed);
        governor.check_key(name).unwrap();
    }
    beside(
        label,
        "governor",
        || {
            ns_per_operation(threads, operations, |thread, operations| {
                let mut random = Random(thread as u64);
                for _ in 0..operations {
                    assert!(limiter.check_sync(&names[random.below(names.len())], 1).unwrap().allowed);
                }
            })
        },
        || {
            ns_per_operation(threads, operations, |thread, operations| {
                let mut random = Random(thread as u64);
                for _ in 0..operations {
                    assert!(governor.check_key(&names[random.below(names.len())]).is_ok());
                }
            })
        },
    );
}

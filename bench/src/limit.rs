//! A whole check of keystead-limit (key made, policy chosen at run time, decision) on MemoryStore beside governor's keyed
//! limiter, both on their usual clock.

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use keystead_core::MemoryStore;
use keystead_limit::{Fail, Limiter, Policy};

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
    for (kind, text) in POLICIES {
        for (keys, what) in [(1, "1 hot key"), (MILLION, "1 million keys")] {
            for threads in [1, 2] {
                let label = format!("{kind}, {what}, {threads} thread(s)");
                if is_wanted(&label) {
                    compare(&label, text, &names[..keys], threads);
                }
            }
        }
    }
}

fn compare(label: &str, policy: &str, names: &[String], threads: usize) {
    let operations = if names.len() == 1 { 4_000_000 } else { 2_000_000 };
    let limiter =
        Limiter::new(Policy::from_json(policy).unwrap(), MemoryStore::new(), Fail::Closed).prefix("");
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

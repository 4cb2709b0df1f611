//! One GCRA-like step on MemoryStore compared with governor's keyed limiter (DashMap), both on their default clock.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use keystead_core::{Change, Key, MemoryStore, Millis, Step, Store, StoreExt, Ttl};

use crate::report::{Random, beside, is_wanted, ns_per_operation};

/// GCRA as in the limits crate: period / limit between requests, burst of `limit`, never denied here.
#[derive(Clone)]
pub(crate) struct Gcra {
    pub(crate) interval_ms: f64,
    pub(crate) burst_ms: f64,
}

impl Step for Gcra {
    type State = f64;
    type Reply = bool;

    fn run(&self, tat: Option<&f64>, now: Millis) -> Change<f64, bool> {
        let now = now.0 as f64;
        let tat = tat.copied().unwrap_or(now).max(now);
        let new = tat + self.interval_ms;
        if now < new - self.burst_ms {
            return Change::Keep(false);
        }
        Change::Put(new, Ttl::Ms((new - now).ceil().max(1.0) as u64), true)
    }
}

/// One a minute with a burst that is never used up: both sides write on every check and no key expires.
pub(crate) fn gcra() -> Gcra {
    Gcra { interval_ms: 60_000.0, burst_ms: 1e15 }
}

pub(crate) fn run() {
    const MILLION: usize = 1_000_000;
    let names: Vec<String> = (0..MILLION).map(|n| format!("user:{n:08}")).collect();
    for keys in [1, MILLION] {
        for threads in [1, 2] {
            let operations = if keys == 1 { 4_000_000 } else { 2_000_000 };
            let label =
                format!("{}, {threads} thread(s)", if keys == 1 { "1 hot key" } else { "1 million keys" });
            if !is_wanted(&label) {
                continue;
            }
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let step = gcra();
            for name in &names[..keys] {
                store.apply_sync(&Key::new(name).unwrap(), &step).unwrap();
            }
            let quota = Quota::per_second(NonZeroU32::MAX);
            let governor: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(quota);
            for name in &names[..keys] {
                governor.check_key(name).unwrap();
            }
            beside(
                &label,
                "governor",
                || {
                    ns_per_operation(threads, operations, |thread, operations| {
                        let mut random = Random(thread as u64);
                        for _ in 0..operations {
                            let key = Key::new(&names[random.below(keys)]).unwrap();
                            assert!(store.apply_sync(&key, &step).unwrap());
                        }
                    })
                },
                || {
                    ns_per_operation(threads, operations, |thread, operations| {
                        let mut random = Random(thread as u64);
                        for _ in 0..operations {
                            assert!(governor.check_key(&names[random.below(keys)]).is_ok());
                        }
                    })
                },
            );
        }
    }
}

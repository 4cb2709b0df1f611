//! A check of an existing key allocates nothing on the memory store, for every strategy, as long as its state is stored inline: up to
//! 16 times of a log, the default number of buckets, 8 leases.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis, Store};
use keystead_limit::{FailMode, HiddenKeys, Limiter, Policy};

fn assert_no_allocations(what: &str, mut call: impl FnMut()) {
    call();
    call();
    let info = measure(|| (0..1000).for_each(|_| call()));
    assert_eq!(info.count_total, 0, "{what} allocates");
}

/// Policies with a limit that is never reached here, or that is reached at once.
fn policies(limit: u64) -> [String; 8] {
    [
        format!(r#"{{"kind":"gcra","limit":{limit},"periodMs":"100h"}}"#),
        format!(r#"{{"kind":"tokenBucket","capacity":{limit},"refillPerSec":0.1}}"#),
        format!(r#"{{"kind":"fixedWindow","limit":{limit},"windowMs":"100w"}}"#),
        format!(r#"{{"kind":"slidingWindow","limit":{limit},"windowMs":"100w"}}"#),
        format!(r#"{{"kind":"quota","limit":{limit},"resetCadence":"calendar-month"}}"#),
        format!(r#"{{"kind":"quota","limit":{limit},"resetCadence":"fixed","periodMs":"100w"}}"#),
        format!(r#"{{"kind":"leakyBucket","ratePerSec":{limit},"maxQueueMs":"1h"}}"#),
        format!(r#"{{"kind":"slidingWindowLog","limit":{},"windowMs":"1s"}}"#, limit),
    ]
}

#[test]
fn a_check_on_an_existing_key_allocates_nothing() {
    for text in policies(1_000_000) {
        let policy = Policy::from_json(&text).unwrap();
        // The clock does not move, so that no key expires and no log grows.
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let store: Arc<dyn Store> =
            Arc::new(MemoryStore::open(MemoryOptions::default().clock(clock)).unwrap());
        let limiter = Limiter::new(policy, store, FailMode::Closed).prefix("login");
        assert_no_allocations(&format!("check_sync of {text}"), || {
            assert!(limiter.check_sync("2001:db8:85a3:8d3::/64", 1).unwrap().allowed);
        });
        assert_no_allocations(&format!("check of {text}"), || {
            let check = std::pin::pin!(limiter.check("2001:db8:85a3:8d3::/64", 1));
            let Poll::Ready(decision) = check.poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("not ready")
            };
            assert!(decision.unwrap().allowed);
        });
    }
}

#[test]
fn a_denied_check_allocates_nothing() {
    let slots = r#"{"kind":"concurrency","limit":1,"leaseMs":"100w"}"#.to_string();
    for text in policies(1).into_iter().take(6).chain([slots]) {
        let limiter = Limiter::in_memory(Policy::from_json(&text).unwrap(), FailMode::Closed);
        limiter.check_sync("k", 1).unwrap();
        assert_no_allocations(&format!("a denial of {text}"), || {
            assert!(!limiter.check_sync("k", 1).unwrap().allowed);
        });
    }
}

#[test]
fn hidden_keys_and_leases_allocate_nothing() {
    let hidden = HiddenKeys::new("a secret of enough bytes").unwrap();
    let policy = Policy::from_json(r#"{"limit":1000000,"periodMs":"100h"}"#).unwrap();
    let limiter = Limiter::in_memory(policy, FailMode::Closed).hide_keys(hidden);
    assert_no_allocations("a hidden key", || assert!(limiter.check_sync("192.0.2.1", 1).unwrap().allowed));

    let policy = Policy::from_json(r#"{"kind":"concurrency","limit":4,"leaseMs":"1h"}"#).unwrap();
    let limiter = Limiter::in_memory(policy, FailMode::Closed);
    // One lease stays held, so that the key exists.
    limiter.check_sync("k", 1).unwrap();
    assert_no_allocations("a lease and its release", || {
        let lease_id = limiter.check_sync("k", 1).unwrap().lease_id.unwrap();
        let release = std::pin::pin!(limiter.release("k", lease_id));
        assert!(matches!(release.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(true))));
    });
}

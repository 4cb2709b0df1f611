//! Concurrent checks: exactly as many as the limit are allowed.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis, Stopwatch};
use keystead_limit::strategy::KINDS;
use keystead_limit::{FailMode, Lease, Limiter, Mode, Policy, Tiered};

fn policies() -> Vec<Policy> {
    let policies = [
        r#"{"kind":"gcra","limit":50,"periodMs":"1h"}"#,
        r#"{"kind":"tokenBucket","capacity":50,"refillPerSec":1}"#,
        r#"{"kind":"fixedWindow","limit":50,"windowMs":"1h"}"#,
        r#"{"kind":"slidingWindow","limit":50,"windowMs":"1h"}"#,
        r#"{"kind":"slidingWindowLog","limit":50,"windowMs":"1h"}"#,
        r#"{"kind":"quota","limit":50,"resetCadence":"calendar-month"}"#,
        r#"{"kind":"leakyBucket","ratePerSec":1,"maxQueueMs":49000}"#,
        r#"{"kind":"concurrency","limit":50,"leaseMs":"1h"}"#,
    ]
    .map(|text| Policy::from_json(text).unwrap());
    let kinds: Vec<_> = policies.iter().map(Policy::kind).collect();
    assert_eq!(kinds, KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>());
    policies.into()
}

fn memory() -> MemoryStore {
    let clock = ManualClock::at(Millis(1_700_000_000_000));
    MemoryStore::open(MemoryOptions::default().clock(clock)).unwrap()
}

#[test]
fn two_hundred_checks_at_once_admit_fifty() {
    for policy in policies() {
        let limiter = Limiter::new(policy, memory(), FailMode::Closed);
        let admitted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let allowed = limiter.check_sync("k", 1).unwrap().allowed;
                        admitted.fetch_add(usize::from(allowed), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 50, "{}", limiter.policy().kind());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_tasks_on_three_nodes_admit_fifty() {
    let store = memory();
    for mode in [Mode::Strict, Mode::CachedDeny, Mode::Leased { units: 7 }] {
        let nodes: Vec<_> = (0..3)
            .map(|_| {
                let policy =
                    Policy::from_json(r#"{"kind":"fixedWindow","limit":50,"windowMs":"1h"}"#).unwrap();
                let limiter = Limiter::new(policy, store.clone(), FailMode::Closed).prefix(mode.as_str());
                Arc::new(Tiered::new(limiter, mode).unwrap())
            })
            .collect();
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let node = nodes[n % nodes.len()].clone();
                tokio::spawn(async move { node.check("k", 1).await.unwrap().allowed })
            })
            .collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += usize::from(task.await.unwrap());
        }
        assert_eq!(admitted, 50, "{mode:?}");
    }
}

#[test]
fn a_slot_is_never_held_twice() {
    let limiter = Arc::new(Limiter::new(policies()[7].clone(), memory(), FailMode::Closed));
    let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut leases = Vec::new();
        for round in 0..1000usize {
            if let (_, Some(lease)) = Lease::acquire(&limiter, "k").await.unwrap() {
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                leases.push(lease);
            }
            if round % 3 == 2 && !leases.is_empty() {
                let lease = leases.swap_remove(round * 7 % leases.len());
                held.fetch_sub(1, Ordering::SeqCst);
                if round % 2 == 0 { drop(lease) } else { assert!(lease.release().await.unwrap()) }
            }
        }
    });
    assert_eq!(most.into_inner(), 50);
}

/// A thread that waits for a lock must not use a time from before it waited.
#[test]
fn a_rate_is_kept_in_real_time_by_threads_that_wait_for_one_another() {
    for text in [
        r#"{"kind":"tokenBucket","capacity":1000,"refillPerSec":100000}"#,
        r#"{"kind":"gcra","limit":100000,"periodMs":1000,"burst":1000}"#,
    ] {
        let limiter = Limiter::in_memory(Policy::from_json(text).unwrap(), FailMode::Closed);
        let (admitted, watch) = (AtomicUsize::new(0), Stopwatch::start());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100_000 {
                        let allowed = limiter.check_sync("k", 1).unwrap().allowed;
                        admitted.fetch_add(usize::from(allowed), Ordering::Relaxed);
                    }
                });
            }
        });
        let most = 1000 + 100 * (watch.elapsed().as_millis() as usize + 2);
        let admitted = admitted.into_inner();
        assert!(admitted <= most, "{text}: {admitted} of {most}");
    }
}

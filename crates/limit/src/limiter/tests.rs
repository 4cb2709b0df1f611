//! The limiter's calls, on memory and on a store that stores text.

use std::sync::atomic::{AtomicUsize, Ordering};

use keystead_core::{ManualClock, MemoryOptions, at_once};

use super::*;
use crate::strategy::{Concurrency, FixedWindow, Gcra};
use crate::testing::{Shared, every_kind, memory, now};

const START: Millis = Millis(1_700_000_000_000);

#[test]
fn peek_and_forecast_consume_nothing_for_any_kind() {
    for policy in every_kind() {
        let kind = policy.kind();
        let limiter = Limiter::new(policy, memory(&ManualClock::at(START)), FailMode::Closed);
        let cold = now(limiter.peek("k")).unwrap();
        assert_eq!((cold.allowed, cold.remaining, cold.limit), (true, 5, 5), "{kind}");
        assert!(limiter.store().is_empty(), "{kind}: a peek stores nothing");
        for left in (0..5).rev() {
            let forecast = now(limiter.forecast("k", 1)).unwrap();
            assert_eq!(
                (forecast.allowed, forecast.remaining, forecast.lease_id),
                (true, left, None),
                "{kind}"
            );
            let decision = limiter.check_sync("k", 1).unwrap();
            assert_eq!(Decision { lease_id: None, ..decision }, forecast, "{kind}");
            assert_eq!(now(limiter.peek("k")).unwrap().remaining, left, "{kind}");
        }
        let denied = limiter.check_sync("k", 1).unwrap();
        assert!(!denied.allowed, "{kind}");
        assert_eq!(now(limiter.peek("k")).unwrap(), denied, "{kind}");
        assert_eq!(now(limiter.forecast("k", 1)).unwrap(), denied, "{kind}");
        let then = now(limiter.forecast_in("k", 1, denied.retry_after_ms)).unwrap();
        // The wait of a sliding window may only last until the next bucket begins.
        assert!(then.allowed || kind == "slidingWindow", "{kind}: the reported wait is long enough");
        if denied.retry_after_ms > 1 {
            let before = now(limiter.forecast_in("k", 1, denied.retry_after_ms - 1)).unwrap();
            assert!(!before.allowed, "{kind}: and no longer than needed");
        }
        assert!(now(limiter.reset("k")).unwrap(), "{kind}");
        assert!(!now(limiter.reset("k")).unwrap(), "{kind}");
        assert_eq!(now(limiter.peek("k")).unwrap(), cold, "{kind}");
    }
}

#[test]
fn memory_and_text_give_the_same_decisions() {
    for policy in every_kind() {
        let clock = ManualClock::at(START);
        let ids = || LeaseIds::of_node(0);
        let native = Limiter::new(policy.clone(), memory(&clock), FailMode::Closed).lease_ids(ids());
        let text = Limiter::new(policy.clone(), Shared::new(&clock), FailMode::Closed).lease_ids(ids());
        let mut random = 7u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            clock.advance_ms((random >> 33) % 150);
            let cost = 1 + (random >> 50) % 3;
            let here = native.check_sync("k", cost).unwrap();
            assert_eq!(now(text.check("k", cost)).unwrap(), here, "{policy:?}");
        }
    }
}

#[test]
fn an_invalid_cost_or_key_is_rejected_open_or_closed() {
    for fail in [FailMode::Open, FailMode::Closed] {
        let limiter = Limiter::in_memory(Gcra::new(5, 1000, None).unwrap(), fail);
        for cost in [0, 1 << 53, u64::MAX] {
            let error = limiter.check_sync("k", cost).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest);
            assert_eq!(
                error.message(),
                format!("cost must be a whole number from 1 to 9007199254740991, not {cost}")
            );
        }
        assert_eq!(limiter.check_sync("", 1).unwrap_err().code(), Code::BadRequest);
        assert_eq!(limiter.check_sync(vec![b'x'; 40_000], 1).unwrap_err().code(), Code::TooLarge);
        let hidden = limiter.hide_keys(HiddenKeys::new([7; 16]).unwrap());
        assert_eq!(hidden.check_sync("", 1).unwrap_err().code(), Code::BadRequest);
    }
}

#[test]
fn check_many_reads_the_clock_once_and_keeps_the_order() {
    struct Counting(ManualClock, Arc<AtomicUsize>);
    impl Clock for Counting {
        fn now(&self) -> Millis {
            // Every reading is later, so two readings could not return one instant.
            Millis(self.0.now().0 + 1000 * self.1.fetch_add(1, Ordering::SeqCst) as u64)
        }
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let clock = Counting(ManualClock::at(START), reads.clone());
    let store = MemoryStore::open(MemoryOptions::default().clock(clock)).unwrap();
    let limiter = Limiter::new(FixedWindow::new(3, 500).unwrap(), store, FailMode::Closed);
    let keys = [("a", 1), ("b", 3), ("a", 2), ("c", 4), ("a", 1), ("b", 1)];
    let decisions = now(limiter.check_many(&keys)).unwrap();
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    let reported: Vec<_> = decisions.iter().map(|d| (d.allowed, d.remaining)).collect();
    assert_eq!(reported, [(true, 2), (true, 0), (true, 0), (false, 3), (false, 0), (false, 0)]);
    assert!(decisions.iter().all(|d| d.reset_at == START.0 + 500), "one instant");
    assert_eq!(now(limiter.check_many::<&str>(&[])).unwrap(), []);
}

#[test]
fn check_many_is_one_instant_also_where_steps_run_one_at_a_time() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let mover = clock.clone();
    store.before_apply(2, move || mover.advance_ms(60_000));
    let limiter = Limiter::new(FixedWindow::new(3, 500).unwrap(), store, FailMode::Closed);
    let decisions = now(limiter.check_many(&[("a", 1), ("b", 1)])).unwrap();
    assert_eq!(decisions[0].reset_at, decisions[1].reset_at);
    let error = now(limiter.check_many(&vec![("a", 1); CHECK_MANY_MAX + 1])).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    assert_eq!(now(limiter.check_many(&[("a", 1), ("", 1)])).unwrap_err().code(), Code::BadRequest);
    assert_eq!(limiter.store().applies(), 2, "nothing is checked if one of the keys or costs is invalid");
}

#[test]
fn a_failed_store_fails_open_or_closed() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    store.set_broken(true);
    let policy = || Gcra::new(5, 1000, None).unwrap();
    let open = Limiter::new(policy(), store.clone(), FailMode::Open).clock(clock.clone());
    let decision = now(open.check("k", 1)).unwrap();
    assert!(decision.allowed && decision.failed_open);
    assert_eq!((decision.limit, decision.reset_at, decision.retry_after_ms), (5, START.0, 0));
    assert_eq!(now(open.check_many(&[("a", 1), ("b", 1)])).unwrap().len(), 2);
    let own_word = Policy::from_json(r#"{"limit":5,"periodMs":1000,"fail":"open"}"#).unwrap();
    let reported = Limiter::new(own_word, store.clone(), FailMode::Closed).clock(clock.clone());
    assert!(now(reported.check("k", 1)).unwrap().failed_open, "the policy says so itself");
    let closed = Limiter::new(policy(), store.clone(), FailMode::Closed);
    assert_eq!(now(closed.check("k", 1)).unwrap_err().code(), Code::StoreUnavailable);
    assert_eq!(now(closed.peek("k")).unwrap_err().code(), Code::StoreUnavailable);
    store.set_broken(false);
    assert!(!now(open.check("k", 1)).unwrap().failed_open);
}

#[test]
fn a_key_of_another_kind_is_an_error_however_it_fails() {
    let store = memory(&ManualClock::at(START));
    Limiter::new(Gcra::new(5, 1000, None).unwrap(), store.clone(), FailMode::Open)
        .check_sync("k", 1)
        .unwrap();
    let other = Limiter::new(FixedWindow::new(5, 1000).unwrap(), store, FailMode::Open);
    assert_eq!(other.check_sync("k", 1).unwrap_err().code(), Code::WrongType);
    assert!(other.prefix("other").check_sync("k", 1).unwrap().allowed);
}

#[test]
fn only_a_store_of_its_own_is_closed() {
    let own = Limiter::in_memory(Gcra::new(5, 1000, None).unwrap(), FailMode::Closed);
    now(own.close()).unwrap();
    assert_eq!(own.check_sync("k", 1).unwrap_err().code(), Code::StoreUnavailable);
    let store = MemoryStore::new();
    let guest = Limiter::new(Gcra::new(5, 1000, None).unwrap(), store, FailMode::Closed);
    now(guest.close()).unwrap();
    assert!(guest.check_sync("k", 1).unwrap().allowed);
}

#[test]
fn hidden_keys_never_reach_the_store() {
    let store = Shared::new(&ManualClock::at(START));
    let hidden = HiddenKeys::new("a secret of enough bytes").unwrap();
    let policy = FixedWindow::new(5, 1000).unwrap();
    let limiter =
        Limiter::new(policy, store.clone(), FailMode::Closed).prefix("login").hide_keys(hidden.clone());
    now(limiter.check("192.0.2.1", 1)).unwrap();
    assert_eq!(store.text(&Key::join("login", "192.0.2.1").unwrap()), None);
    assert!(store.text(&Key::join("login", hidden.hide(b"192.0.2.1")).unwrap()).is_some());
}

#[test]
fn leases_are_released_by_their_limiter_only() {
    let limiter = Limiter::in_memory(Concurrency::new(1, 60_000).unwrap(), FailMode::Closed);
    let lease_id = limiter.check_sync("k", 1).unwrap().lease_id.unwrap();
    assert!(!limiter.check_sync("k", 1).unwrap().allowed);
    assert!(!now(limiter.release("other", lease_id)).unwrap());
    assert!(now(limiter.release("k", lease_id)).unwrap());
    assert!(!now(limiter.release("k", lease_id)).unwrap());
    assert!(limiter.check_sync("k", 1).unwrap().allowed);
    let other = Limiter::in_memory(Gcra::new(1, 1, None).unwrap(), FailMode::Closed);
    assert_eq!(now(other.release("k", 1)).unwrap_err().code(), Code::Unsupported);
}

#[test]
fn a_store_that_takes_its_time_has_no_synchronous_check() {
    let limiter =
        Limiter::new(Gcra::new(1, 1, None).unwrap(), Shared::new(&ManualClock::at(START)), FailMode::Open);
    assert_eq!(limiter.check_sync("k", 1).unwrap_err().code(), Code::Unsupported);
}

#[test]
fn wait_sleeps_for_retry_after_and_no_longer_than_allowed() {
    let clock = ManualClock::at(START);
    let limiter = Limiter::new(FixedWindow::new(2, 1000).unwrap(), memory(&clock), FailMode::Closed);
    let slept = std::sync::Mutex::new(Vec::new());
    let sleep = |time: std::time::Duration| {
        clock.advance_ms(time.as_millis() as u64);
        slept.lock().unwrap().push(time.as_millis());
        std::future::ready(())
    };
    for _ in 0..5 {
        assert!(now(limiter.wait("k", 1, 1000, sleep)).unwrap().allowed);
    }
    assert_eq!(*slept.lock().unwrap(), [1000, 1000]);
    assert!(now(limiter.wait("k", 1, 0, sleep)).unwrap().allowed);
    assert!(!now(limiter.wait("k", 1, 999, sleep)).unwrap().allowed, "the wait would be longer");
    assert!(!now(limiter.wait("k", 3, u64::MAX, sleep)).unwrap().allowed, "this cost is never allowed");
    assert_eq!(slept.lock().unwrap().len(), 2);
}

#[test]
fn a_lease_is_held_on_as_long_as_it_is_renewed() {
    let clock = ManualClock::at(START);
    let limiter =
        Arc::new(Limiter::new(Concurrency::new(1, 1000).unwrap(), memory(&clock), FailMode::Closed));
    let lease = now(crate::Lease::acquire(&limiter, "k")).unwrap().1.unwrap();
    for _ in 0..3 {
        clock.advance_ms(999);
        assert!(now(lease.renew()).unwrap());
        assert!(!limiter.check_sync("k", 1).unwrap().allowed);
    }
    clock.advance_ms(1000);
    let other = now(crate::Lease::acquire(&limiter, "k")).unwrap().1.unwrap();
    assert!(!now(lease.renew()).unwrap(), "it has expired, and another one has the slot");
    drop(lease);
    assert!(now(other.renew()).unwrap());
}

#[test]
fn every_call_works_without_a_runtime_on_a_synchronous_store() {
    let limiter = Limiter::in_memory(Gcra::new(5, 1000, None).unwrap(), FailMode::Closed);
    assert_eq!(at_once(limiter.check_many(&[("a", 1), ("b", 2)])).unwrap().len(), 2);
    assert!(at_once(limiter.reset("a")).unwrap());
    let slow =
        Limiter::new(Gcra::new(5, 1000, None).unwrap(), Shared::new(&ManualClock::at(START)), FailMode::Open);
    slow.store().set_closed(true);
    let error = at_once(slow.peek("k")).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
}

//! Reserving and settling, on memory and on a store that runs one step at a time.

use std::sync::Arc;

use keystead_core::{ManualClock, key};

use super::*;
use crate::fail_mode::FailMode;
use crate::policy::Policy;
use crate::testing::{Shared, memory, now};

const POLICIES: [&str; 7] = [
    r#"{"kind":"gcra","limit":100,"periodMs":100000}"#,
    r#"{"kind":"tokenBucket","capacity":100,"refillPerSec":1}"#,
    r#"{"kind":"fixedWindow","limit":100,"windowMs":100000}"#,
    r#"{"kind":"slidingWindow","limit":100,"windowMs":100000}"#,
    r#"{"kind":"slidingWindowLog","limit":100,"windowMs":100000}"#,
    r#"{"kind":"quota","limit":100,"resetCadence":"calendar-day"}"#,
    r#"{"kind":"leakyBucket","ratePerSec":1,"maxQueueMs":99999}"#,
];

fn each(run: impl Fn(&ManualClock, Limiter<Arc<dyn Store>>)) {
    for policy in POLICIES {
        for is_shared in [false, true] {
            let clock = ManualClock::at(Millis(1_700_000_000_000));
            let store: Arc<dyn Store> =
                if is_shared { Arc::new(Shared::new(&clock)) } else { Arc::new(memory(&clock)) };
            let limiter = Limiter::new(Policy::from_json(policy).unwrap(), store, FailMode::Closed);
            run(&clock, limiter);
        }
    }
}

fn left<S: Store>(limiter: &Limiter<S>) -> u64 {
    now(limiter.peek("k")).unwrap().remaining
}

#[test]
fn an_estimate_too_high_is_refunded_exactly_once() {
    each(|_, limiter| {
        let reserved = now(limiter.reserve("k", 40, 1000)).unwrap();
        assert_eq!(left(&limiter), 60, "{:?}", limiter.policy());
        let id = reserved.id.unwrap();
        let after = now(limiter.settle_reserved("k", id, 15)).unwrap().unwrap();
        assert_eq!((after.remaining, left(&limiter)), (85, 85), "{:?}", limiter.policy());
        assert_eq!(now(limiter.settle_reserved("k", id, 0)).unwrap(), None);
        assert_eq!(now(limiter.settle_reserved("k", id + 1, 0)).unwrap(), None, "never made");
        assert_eq!(left(&limiter), 85);
    });
}

#[test]
fn a_cost_of_0_refunds_all_and_the_same_cost_nothing() {
    each(|_, limiter| {
        let (a, b) =
            (now(limiter.reserve("k", 30, 1000)).unwrap(), now(limiter.reserve("k", 20, 1000)).unwrap());
        now(limiter.settle_reserved("k", a.id.unwrap(), 0)).unwrap().unwrap();
        now(limiter.settle_reserved("k", b.id.unwrap(), 20)).unwrap().unwrap();
        assert_eq!(left(&limiter), 80, "{:?}", limiter.policy());
    });
}

#[test]
fn what_was_too_little_is_charged_even_beyond_the_limit_and_the_next_one_waits() {
    each(|clock, limiter| {
        let id = now(limiter.reserve("k", 90, 1000)).unwrap().id.unwrap();
        let after = now(limiter.settle_reserved("k", id, 150)).unwrap().unwrap();
        assert_eq!((after.allowed, after.remaining), (false, 0), "{:?}", limiter.policy());
        assert!(!now(limiter.check("k", 1)).unwrap().allowed);
        clock.advance_ms(200_000_000);
        assert_eq!(left(&limiter), 100, "a debt is paid off: {:?}", limiter.policy());
    });
}

#[test]
fn a_denied_estimate_reserves_nothing() {
    each(|_, limiter| {
        now(limiter.check("k", 90)).unwrap();
        // A shaper allows any cost as long as its queue is short.
        if limiter.policy().kind() != "leakyBucket" {
            let reserved = now(limiter.reserve("k", 11, 1000)).unwrap();
            assert_eq!((reserved.decision.allowed, reserved.id), (false, None));
        }
        assert_eq!(left(&limiter), 10);
    });
}

#[test]
fn a_reservation_that_is_not_settled_in_time_stands() {
    each(|clock, limiter| {
        let id = now(limiter.reserve("k", 40, 1000)).unwrap().id.unwrap();
        let before = left(&limiter);
        clock.advance_ms(1000);
        assert_eq!(now(limiter.settle_reserved("k", id, 0)).unwrap(), None);
        assert!(left(&limiter) <= before + 1, "{:?}", limiter.policy());
    });
}

/// Units that were replenished before the settlement are not refunded, or they would be available twice.
#[test]
fn a_late_settlement_refunds_only_what_still_counts() {
    each(|clock, limiter| {
        let id = now(limiter.reserve("k", 40, 500_000_000)).unwrap().id.unwrap();
        clock.advance_ms(200_000_000);
        assert!(now(limiter.check("k", 30)).unwrap().allowed);
        let after = now(limiter.settle_reserved("k", id, 0)).unwrap().unwrap();
        assert_eq!((after.remaining, left(&limiter)), (70, 70), "{:?}", limiter.policy());
    });
}

#[test]
fn a_rate_refunds_the_part_that_still_counts() {
    for policy in [POLICIES[0], POLICIES[1], POLICIES[6]] {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let limiter = Limiter::new(Policy::from_json(policy).unwrap(), memory(&clock), FailMode::Closed);
        let id = now(limiter.reserve("k", 40, 100_000)).unwrap().id.unwrap();
        // 25 of them are replenished; another request has consumed 20 after the others.
        clock.advance_ms(25_000);
        assert!(now(limiter.check("k", 20)).unwrap().allowed);
        assert_eq!(left(&limiter), 65, "{policy}");
        now(limiter.settle_reserved("k", id, 10)).unwrap().unwrap();
        assert_eq!(left(&limiter), 80, "15 were still owed: {policy}");
    }
}

/// A refund of the first in the queue brings the replenishment of the others forward.
#[test]
fn reservations_that_are_settled_out_of_turn_give_back_no_more_than_is_owed() {
    each(|clock, limiter| {
        let [a, b] = [40, 40].map(|cost| now(limiter.reserve("k", cost, 500_000_000)).unwrap().id.unwrap());
        now(limiter.settle_reserved("k", a, 0)).unwrap().unwrap();
        assert_eq!(left(&limiter), 60, "{:?}", limiter.policy());
        // For every kind, all is replenished by then.
        clock.advance_ms(if ["gcra", "tokenBucket", "leakyBucket"].contains(&limiter.policy().kind()) {
            41_000
        } else {
            200_000_000
        });
        assert!(now(limiter.check("k", 60)).unwrap().allowed);
        now(limiter.settle_reserved("k", b, 0)).unwrap().unwrap();
        assert_eq!(left(&limiter), 40, "{:?}", limiter.policy());
    });
}

#[test]
fn a_reset_makes_open_reservations_void() {
    each(|_, limiter| {
        let [a, b] = [30, 30].map(|cost| now(limiter.reserve("k", cost, 1000)).unwrap().id.unwrap());
        assert!(now(limiter.reset("k")).unwrap());
        assert!(now(limiter.check("k", 90)).unwrap().allowed);
        now(limiter.settle_reserved("k", a, 0)).unwrap().unwrap();
        assert_eq!(left(&limiter), 10, "{:?}", limiter.policy());
        let c = now(limiter.reserve("k", 5, 1000)).unwrap().id.unwrap();
        now(limiter.settle_reserved("k", b, 300)).unwrap().unwrap();
        assert_eq!(left(&limiter), 5, "{:?}", limiter.policy());
        now(limiter.settle_reserved("k", c, 1)).unwrap().unwrap();
        assert_eq!(left(&limiter), 9, "{:?}", limiter.policy());
    });
}

/// A reservation of one window is not refunded in another one after the clock has jumped back.
#[test]
fn a_window_refunds_its_own_only() {
    for policy in [POLICIES[2], POLICIES[3], POLICIES[4], POLICIES[5]] {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let limiter = Limiter::new(Policy::from_json(policy).unwrap(), memory(&clock), FailMode::Closed);
        let id = now(limiter.reserve("k", 40, 900_000_000)).unwrap().id.unwrap();
        clock.advance_ms(400_000_000);
        assert!(now(limiter.check("k", 100)).unwrap().allowed);
        clock.set(Millis(1_700_000_000_500));
        now(limiter.settle_reserved("k", id, 0)).unwrap().unwrap();
        assert_eq!(left(&limiter), 0, "{policy}");
        // A reservation made while the clock is behind counts in the window ahead.
        now(limiter.reset("k")).unwrap();
        clock.set(Millis(1_700_400_000_000));
        assert!(now(limiter.check("k", 50)).unwrap().allowed);
        clock.set(Millis(1_700_000_000_500));
        let id = now(limiter.reserve("k", 40, 900_000_000)).unwrap().id.unwrap();
        assert_eq!(left(&limiter), 10, "{policy}");
        now(limiter.settle_reserved("k", id, 0)).unwrap().unwrap();
        assert_eq!(left(&limiter), 50, "{policy}");
    }
}

#[test]
fn the_note_lives_where_the_limit_does() {
    for name in ["limit:a", "limit:{t}:a", "a{b", "x{}y"] {
        let limit = Key::new(name).unwrap();
        let note = note_key(&limit, 7).unwrap();
        // Braces that are no hash tag cannot become one.
        if name != "x{}y" {
            assert_eq!(key::slot(note.as_bytes()), key::slot(limit.as_bytes()), "{note}");
        }
    }
}

#[test]
fn invalid_reservations_are_rejected() {
    let limiter = Limiter::in_memory(Policy::from_json(POLICIES[0]).unwrap(), FailMode::Closed);
    for (cost, ttl_ms) in [(0, 1), (WHOLE_MAX + 1, 1), (1, 0), (1, SPAN_MS_MAX + 1)] {
        assert_eq!(now(limiter.reserve("k", cost, ttl_ms)).unwrap_err().code(), Code::BadRequest);
    }
    assert_eq!(now(limiter.settle_reserved("k", 1, WHOLE_MAX + 1)).unwrap_err().code(), Code::BadRequest);
    let leases = Policy::from_json(r#"{"kind":"concurrency","limit":1,"leaseMs":1000}"#).unwrap();
    let leases = Limiter::in_memory(leases, FailMode::Closed);
    assert_eq!(now(leases.reserve("k", 1, 1000)).unwrap_err().code(), Code::Unsupported);
}

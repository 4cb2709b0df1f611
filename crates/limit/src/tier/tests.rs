//! The three modes on a shared store: which checks need a round trip, and which wait for another.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use keystead_core::ManualClock;

use super::*;
use crate::fail_mode::FailMode;
use crate::strategy::{Cadence, Concurrency, FixedWindow, Gcra, Quota};
use crate::testing::{Shared, now};

const START: Millis = Millis(1_700_000_000_000);

fn window(limit: u64) -> FixedWindow {
    FixedWindow::new(limit, 1000).unwrap()
}

fn node(store: &Shared, clock: &ManualClock, mode: Mode) -> Tiered<Shared> {
    Tiered::new(Limiter::new(window(10), store.clone(), FailMode::Closed), mode).unwrap().clock(clock.clone())
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn strict_goes_to_the_store_every_time() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Strict);
    for n in 0..15 {
        assert_eq!(now(node.check("k", 1)).unwrap().allowed, n < 10);
    }
    assert_eq!(store.applies(), 15);
}

#[test]
fn a_cached_denial_stays_here_until_it_can_change() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::CachedDeny);
    assert!(now(node.check("k", 8)).unwrap().allowed);
    clock.advance_ms(400);
    let denied = now(node.check("k", 5)).unwrap();
    assert_eq!((denied.allowed, denied.remaining, denied.retry_after_ms), (false, 2, 600));
    assert_eq!(store.applies(), 2);
    clock.advance_ms(100);
    let again = now(node.check("k", 6)).unwrap();
    assert_eq!(
        (again.retry_after_ms, again.reset_at),
        (500, denied.reset_at),
        "a higher cost is denied, too"
    );
    assert_eq!(store.applies(), 2, "no round trip");
    assert!(now(node.check("k", 2)).unwrap().allowed, "a lower cost needs a round trip");
    clock.advance_ms(500);
    assert!(now(node.check("k", 5)).unwrap().allowed, "the wait is over");
    assert!(now(node.check("other", 5)).unwrap().allowed);
}

#[test]
fn a_denial_is_forgotten_on_reset_and_when_the_clock_jumps_back() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::CachedDeny);
    now(node.check("k", 10)).unwrap();
    assert!(!now(node.check("k", 1)).unwrap().allowed);
    let checked = store.applies();
    clock.set(Millis(START.0 - 1));
    assert!(!now(node.check("k", 1)).unwrap().allowed);
    assert_eq!(store.applies(), checked + 1);
    assert!(now(node.reset("k")).unwrap());
    assert!(now(node.check("k", 1)).unwrap().allowed);
}

#[test]
fn a_denial_is_cached_for_a_while_and_then_checked_again() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    for (mode, longest_ms) in [(Mode::CachedDeny, None), (Mode::Leased { units: 4 }, Some(5000))] {
        let month = Quota::new(10, Cadence::CalendarMonth, 0).unwrap();
        let node = |prefix: &str| {
            let limiter = Limiter::new(month, store.clone(), FailMode::Closed).prefix(prefix);
            let node = Tiered::new(limiter, mode).unwrap().clock(clock.clone());
            match longest_ms {
                None => node,
                Some(ms) => node.max_denial(Duration::from_millis(ms)),
            }
        };
        let (here, elsewhere) = (node(mode.as_str()), node(mode.as_str()));
        now(here.check("k", 10)).unwrap();
        let denied = now(here.check("k", 1)).unwrap();
        assert!(now(elsewhere.reset("k")).unwrap());
        let checked = store.applies();
        clock.advance_ms(longest_ms.unwrap_or(60_000) - 1);
        let still = now(here.check("k", 1)).unwrap();
        assert!(!still.allowed, "this node has not heard of the reset");
        assert_eq!(still.reset_at, denied.reset_at, "the whole wait is reported");
        assert!(still.retry_after_ms > 1_000_000_000, "{still:?}");
        assert_eq!(store.applies(), checked);
        clock.advance_ms(1);
        assert!(now(here.check("k", 1)).unwrap().allowed, "{mode:?}");
    }
}

#[test]
fn leased_units_are_spent_locally_and_never_in_the_next_window() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 4 });
    let reported: Vec<_> =
        (0..12).map(|_| now(node.check("k", 1)).unwrap()).map(|d| (d.allowed, d.remaining)).collect();
    let left: Vec<_> = (0..10).rev().map(|left| (true, left)).chain([(false, 0), (false, 0)]).collect();
    assert_eq!(reported, left);
    assert_eq!(store.applies(), 4, "leases of 4, 4 and 2, and one denial for all");
    clock.set(Millis(START.0 + 1000));
    assert!(now(node.check("k", 1)).unwrap().allowed);
    assert_eq!(store.applies(), 5);
    clock.set(Millis(START.0 + 1999));
    assert!(now(node.check("k", 1)).unwrap().allowed);
    assert_eq!(store.applies(), 6, "units expire a millisecond before the window ends");
}

#[test]
fn nodes_with_clocks_of_their_own_share_one_limit() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let clocks: Vec<_> = [0, 777, 50_000].map(|ahead| ManualClock::at(START.plus_ms(ahead))).into();
    let nodes: Vec<_> = clocks.iter().map(|c| node(&store, c, Mode::Leased { units: 3 })).collect();
    for _window in 0..20 {
        let mut admitted = 0;
        for _ in 0..50 {
            admitted += nodes.iter().filter(|node| now(node.check("k", 1)).unwrap().allowed).count();
            for clock in clocks.iter().chain([&clock]) {
                clock.advance_ms(20);
            }
        }
        assert!((4..=10).contains(&admitted), "{admitted}");
    }
}

#[test]
fn a_high_cost_takes_what_it_needs() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 2 });
    assert!(now(node.check("k", 7)).unwrap().allowed);
    assert!(!now(node.check("k", 4)).unwrap().allowed);
    assert!(now(node.check("k", 3)).unwrap().allowed, "a lower cost than the denied one");
    assert_eq!(now(node.check("k", 0)).unwrap_err().code(), Code::BadRequest);
}

#[test]
fn misses_on_one_key_are_one_request() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 10 });
    store.set_closed(true);
    let mut checks: Vec<_> = (0..20).map(|_| Box::pin(node.check("k", 1))).collect();
    assert!(checks.iter_mut().all(|check| poll(check).is_pending()));
    assert_eq!(store.applies(), 1, "one lease is in flight for all checks");
    let mut other = Box::pin(node.check("other", 1));
    assert!(poll(&mut other).is_pending());
    assert_eq!(store.applies(), 2, "another key does not wait for it");
    store.set_closed(false);
    let admitted = checks.iter_mut().map(|check| match poll(check) {
        Poll::Ready(decision) => usize::from(decision.unwrap().allowed),
        Poll::Pending => panic!("still waits"),
    });
    assert_eq!(admitted.sum::<usize>(), 10);
    assert_eq!(store.applies(), 3, "and one denial for the other ten");
}

#[test]
fn a_cancelled_request_is_sent_again_by_the_next_check() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 10 });
    store.set_closed(true);
    let (mut first, mut second) = (Box::pin(node.check("k", 1)), Box::pin(node.check("k", 1)));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    drop(first);
    assert!(poll(&mut second).is_pending());
    assert_eq!(store.applies(), 2, "now the second sends a request");
    store.set_closed(false);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(decision)) if decision.allowed));
}

#[test]
fn all_checks_that_wait_get_the_error() {
    for fail in [FailMode::Open, FailMode::Closed] {
        let clock = ManualClock::at(START);
        let store = Shared::new(&clock);
        let limiter = Limiter::new(window(10), store.clone(), fail).clock(clock.clone());
        let node = Tiered::new(limiter, Mode::Leased { units: 10 }).unwrap();
        store.set_closed(true);
        let mut checks: Vec<_> = (0..5).map(|_| Box::pin(node.check("k", 1))).collect();
        assert!(checks.iter_mut().all(|check| poll(check).is_pending()));
        store.set_broken(true);
        store.set_closed(false);
        for check in &mut checks {
            match (fail, poll(check)) {
                (FailMode::Open, Poll::Ready(Ok(decision))) => {
                    assert!(decision.allowed && decision.failed_open);
                }
                (FailMode::Closed, Poll::Ready(Err(error))) => {
                    assert_eq!(error.code(), Code::StoreUnavailable);
                }
                _ => panic!("neither open nor closed"),
            }
        }
        assert_eq!(store.applies(), 1, "no request to a store that is known to have failed");
        store.set_broken(false);
        assert!(!now(node.check("k", 1)).unwrap().failed_open, "the next check sends a request again");
    }
}

#[test]
fn few_local_keys_cost_requests_and_admit_no_more() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 5 }).max_keys(1);
    let mut admitted = 0;
    for _ in 0..20 {
        for key in 0..64 {
            admitted += usize::from(now(node.check(format!("k{key}"), 1)).unwrap().allowed);
        }
    }
    assert!(admitted <= 640, "{admitted}");
}

#[test]
fn costs_that_differ_waste_no_units() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    let node = node(&store, &clock, Mode::Leased { units: 4 });
    let costs = [1, 3, 1, 2, 1, 2];
    let admitted: u64 = costs.into_iter().filter(|cost| now(node.check("k", *cost)).unwrap().allowed).sum();
    assert_eq!(admitted, 10, "all of them");
}

#[test]
fn only_windows_with_an_end_can_be_leased() {
    let build = |policy: crate::Policy, units| {
        Tiered::new(Limiter::in_memory(policy, FailMode::Closed), Mode::Leased { units }).map(|_| ())
    };
    let error = build(Gcra::new(1, 1, None).unwrap().into(), 1).unwrap_err();
    assert_eq!(error.code(), Code::ConfigInvalid);
    assert_eq!(build(window(1).into(), 0).unwrap_err().code(), Code::ConfigInvalid);
    build(Quota::new(1, Cadence::CalendarMonth, 0).unwrap().into(), 5).unwrap();
    let slots = Limiter::in_memory(Concurrency::new(1, 1000).unwrap(), FailMode::Closed);
    assert_eq!(Tiered::new(slots, Mode::CachedDeny).err().unwrap().code(), Code::ConfigInvalid);
    let words = [Mode::Strict, Mode::CachedDeny, Mode::Leased { units: 1 }].map(Mode::as_str);
    assert_eq!(words, ["strict", "cached-deny", "leased"]);
}

//! All or nothing: atomically on memory, with refunds on a store that runs one step at a time.

use keystead_core::{ManualClock, MemoryStore, Millis};

use super::*;
use crate::strategy::{Concurrency, FixedWindow};
use crate::testing::{Shared, every_kind, memory, now};

const START: Millis = Millis(1_700_000_000_000);

fn window(limit: u64) -> Policy {
    FixedWindow::new(limit, 1000).unwrap().into()
}

fn named(name: &str, policy: impl Into<Policy>) -> Policy {
    policy.into().named(name).unwrap()
}

fn reported(combination: &Combination) -> (bool, &str, u64) {
    (combination.decision.allowed, combination.name.as_str(), combination.decision.remaining)
}

async fn all_or_nothing(store: impl Store) {
    let limits = [named("wide", window(10)), named("narrow", window(3))];
    let all = Combined::all(&limits, store, FailMode::Closed).unwrap();
    assert_eq!(reported(&all.check("k", 2).await.unwrap()), (true, "narrow", 1));
    for _ in 0..5 {
        let denied = all.check("k", 2).await.unwrap();
        assert_eq!(reported(&denied), (false, "narrow", 1));
        assert_eq!(denied.parts[0].remaining, 8, "nothing was consumed from the wide one");
    }
    let last = all.check("k", 1).await.unwrap();
    assert_eq!(reported(&last), (true, "narrow", 0));
    assert_eq!(last.parts[0].remaining, 7, "three were consumed, however often it was denied");
}

#[test]
fn all_consume_or_none_does() {
    let clock = ManualClock::at(START);
    now(all_or_nothing(memory(&clock)));
    now(all_or_nothing(Shared::new(&clock)));
}

async fn any_of_two(store: impl Store) {
    let limits = [named("free", window(1)), named("paid", window(2))];
    let any = Combined::any(&limits, store, FailMode::Closed).unwrap();
    assert_eq!(reported(&any.check("k", 1).await.unwrap()), (true, "free", 0), "the fewest remaining units");
    assert_eq!(
        reported(&any.check("k", 1).await.unwrap()),
        (true, "paid", 0),
        "only limits that allow it count"
    );
    assert_eq!(reported(&any.check("k", 1).await.unwrap()), (false, "free", 0));
}

#[test]
fn any_admits_while_one_does() {
    let clock = ManualClock::at(START);
    now(any_of_two(memory(&clock)));
    now(any_of_two(Shared::new(&clock)));
}

#[test]
fn the_binding_one_is_the_longest_wait_or_the_least_left() {
    let clock = ManualClock::at(START);
    let limits = [window(2), FixedWindow::new(2, 60_000).unwrap().into(), window(2)];
    let all = Combined::all(&limits, memory(&clock), FailMode::Closed).unwrap();
    let first = now(all.check("k", 2)).unwrap();
    assert_eq!(reported(&first), (true, "0", 0), "the first of equals");
    let denied = now(all.check("k", 1)).unwrap();
    assert_eq!(denied.name, "1");
    assert_eq!(denied.decision.retry_after_ms, denied.parts.iter().map(|p| p.retry_after_ms).max().unwrap());
    assert!(denied.to_json().unwrap().ends_with(r#","policy":"1"}"#));
    let read: Decision = serde_json::from_str(&denied.to_json().unwrap()).unwrap();
    assert_eq!(read, denied.decision);
}

#[test]
fn each_limit_can_have_a_key_of_its_own() {
    let clock = ManualClock::at(START);
    let all = Combined::all(
        &[named("user", window(5)), named("everybody", window(3))],
        memory(&clock),
        FailMode::Closed,
    );
    let all = all.unwrap().prefix("api");
    assert!(now(all.check_each(&["ada", "*"], 2)).unwrap().decision.allowed);
    assert!(now(all.check_each(&["bob", "*"], 1)).unwrap().decision.allowed);
    assert_eq!(reported(&now(all.check_each(&["eve", "*"], 1)).unwrap()), (false, "everybody", 0));
    let error = now(all.check_each(&["ada"], 1)).unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::BadRequest, "this combination needs 2 keys, not 1"));
}

/// Every kind first, then a limit that another request uses up in between.
#[test]
fn what_was_consumed_is_refunded_when_a_race_is_lost() {
    for kind in every_kind() {
        let clock = ManualClock::at(START);
        let store = Shared::new(&clock);
        let limits = [named("first", kind.clone()), named("contested", window(1))];
        let all = Combined::all(&limits, store.clone(), FailMode::Closed).unwrap();
        let single = |name: &str, policy: &Policy| {
            crate::Limiter::new(policy.clone(), store.clone(), FailMode::Closed)
                .prefix(format!("limit:{name}"))
        };
        let (first, contested) = (single("first", &kind), single("contested", &window(1)));
        now(first.check("k", 1)).unwrap();
        let before = now(first.peek("k")).unwrap();
        // Two forecasts, the first limit's check, and now the contested one's.
        let number = store.applies() + 4;
        store.before_apply(number, move || assert!(now(contested.check("k", 1)).unwrap().allowed));
        let denied = now(all.check("k", 1)).unwrap();
        assert_eq!(reported(&denied), (false, "contested", 0), "{kind:?}");
        assert!(denied.parts.iter().all(|part| part.lease_id.is_none()));
        assert_eq!(now(first.peek("k")).unwrap(), before, "{kind:?}");
    }
}

#[test]
fn on_memory_a_combination_is_atomic() {
    let store = MemoryStore::new();
    let hour = |limit| FixedWindow::new(limit, 3_600_000_000).unwrap();
    let all =
        Combined::all(&[named("a", hour(1000)), named("b", hour(300))], store.clone(), FailMode::Closed)
            .unwrap();
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..200).filter(|_| now(all.check("k", 1)).unwrap().decision.allowed).count() as u64
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 300);
    let a = crate::Limiter::new(hour(1000), store, FailMode::Closed).prefix("limit:a");
    assert_eq!(now(a.peek("k")).unwrap().remaining, 700, "not one more than the combination admitted");
}

#[test]
fn leases_of_a_combination_are_released_together() {
    let clock = ManualClock::at(START);
    let limits = [named("slots", Concurrency::new(1, 60_000).unwrap()), named("rate", window(10))];
    let all = Combined::all(&limits, memory(&clock), FailMode::Closed).unwrap();
    let first = now(all.check("k", 1)).unwrap();
    assert!(first.parts[0].lease_id.is_some());
    assert_eq!(now(all.check("k", 1)).unwrap().name, "slots");
    now(all.release_each(&["k", "k"], &first)).unwrap();
    assert!(now(all.check("k", 1)).unwrap().decision.allowed);
}

#[test]
fn a_failed_store_fails_a_combination_open_or_closed() {
    let clock = ManualClock::at(START);
    let store = Shared::new(&clock);
    store.set_broken(true);
    let open = Combined::all(&[window(5)], store.clone(), FailMode::Open).unwrap().clock(clock.clone());
    assert!(now(open.check("k", 1)).unwrap().decision.failed_open);
    let closed = Combined::all(&[window(5)], store, FailMode::Closed).unwrap();
    assert_eq!(now(closed.check("k", 1)).unwrap_err().code(), Code::StoreUnavailable);
}

#[test]
fn invalid_combinations_are_rejected() {
    let store = MemoryStore::new();
    for limits in
        [vec![], vec![window(1); COMBINED_MAX + 1], vec![named("a", window(1)), named("a", window(2))]]
    {
        let error = Combined::all(&limits, store.clone(), FailMode::Closed).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
    }
}

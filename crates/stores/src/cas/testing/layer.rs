//! What the layer promises besides exact counts: round trips, deadlines, bounds.

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Change, Code, Key, Outcome, Step, Store, StoreExt, Ttl, step_fn};

use super::model::{append, store};
use super::{CallFault, Effect, FaultyBackend, Manner, Plan, Reply};
use crate::bounds::{ATTEMPTS_MAX, COMBINED_MAX, WAITING_MAX};
use crate::cas::CasStore;
use crate::cas::fault::Fault;

fn key() -> Key {
    Key::new("key").unwrap()
}

/// Puts if the key is absent. The reply is whether it was.
fn create() -> impl Step<State = u64, Reply = bool> {
    step_fn(|state: Option<&u64>, _now| match state {
        None => Change::Put(1, Ttl::Never, true),
        Some(_) => Change::Keep(false),
    })
}

fn plan(calls: std::ops::Range<usize>, reply: Reply, effect: Effect) -> Plan {
    calls.map(|call| (call, CallFault { reply, effect })).collect()
}

async fn creates_after_another_handle_has_removed(fault: Option<Fault>) -> bool {
    let backend = FaultyBackend::new(Plan::default(), 1, true);
    let (first, second) = (store(&backend, fault), store(&backend, fault));
    assert!(first.apply(&key(), &create()).await.unwrap());
    assert!(second.reset(&key()).await.unwrap());
    first.apply(&key(), &create()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_denial_from_a_stale_state_is_read_again() {
    assert!(creates_after_another_handle_has_removed(None).await);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_denies_from_its_cache_is_caught() {
    assert!(!creates_after_another_handle_has_removed(Some(Fault::TrustsTheCache)).await);
}

#[tokio::test(start_paused = true)]
async fn steps_that_wait_for_one_key_cost_one_write() {
    let backend = FaultyBackend::new(Plan::default(), 1, true);
    let store = store(&backend, None);
    let mut tasks = Vec::new();
    for number in 0..COMBINED_MAX as u64 {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.apply(&key(), &append(number)).await.unwrap().len() }));
    }
    let mut places = Vec::new();
    for task in tasks {
        places.push(task.await.unwrap());
    }
    places.sort_unstable();
    assert_eq!(places, (0..COMBINED_MAX).collect::<Vec<_>>());
    assert!(backend.calls() <= 3, "{} calls", backend.calls());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_cached_key_is_one_round_trip() {
    let backend = FaultyBackend::new(Plan::default(), 1, true);
    let store = store(&backend, None);
    for number in 0..10 {
        store.apply(&key(), &append(number)).await.unwrap();
    }
    assert_eq!(backend.calls(), 11, "one read, then a swap each");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_replies_is_an_error_within_the_deadline() {
    let backend = FaultyBackend::new(plan(0..1000, Reply::Hangs, Effect::Never), 1, true);
    let store = store(&backend, None);
    let many = (0..3).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.apply(&key(), &append(number)).await })
    });
    let all = async {
        for task in many.collect::<Vec<_>>() {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        }
    };
    tokio::time::timeout(Duration::from_millis(800), all).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_settled_is_unknown_within_the_deadline() {
    let backend = FaultyBackend::new(plan(1..1000, Reply::Hangs, Effect::Never), 1, true);
    let store = store(&backend, None);
    let (key, append) = (key(), append(1));
    let applied = tokio::time::timeout(Duration::from_millis(800), store.apply(&key, &append));
    assert_eq!(applied.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_an_error_at_once() {
    let backend = FaultyBackend::new(plan(0..1000, Reply::Refused, Effect::Never), 1, true);
    let error = store(&backend, None).apply(&key(), &append(1)).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
    assert_eq!(backend.calls(), 1, "no retry");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_settled_by_one_read() {
    let backend = FaultyBackend::new(plan(1..2, Reply::Lost, Effect::Now), 1, true);
    store(&backend, None).apply(&key(), &append(1)).await.unwrap();
    assert_eq!(backend.calls(), 3, "read, swap without a reply, read");
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_steps_are_rejected() {
    let backend = FaultyBackend::new(plan(0..1, Reply::Hangs, Effect::Never), 1, true);
    let store = store(&backend, None);
    let mut tasks = Vec::new();
    for number in 0..=(WAITING_MAX + COMBINED_MAX) as u64 {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move { store.apply(&key(), &append(number)).await }));
    }
    let mut full = 0;
    for task in tasks {
        let error = task.await.unwrap().err();
        full += usize::from(error.is_some_and(|error| error.code() == Code::QueueFull));
    }
    assert!(full >= 1, "{full} were rejected");
}

#[tokio::test(start_paused = true)]
async fn only_the_step_that_puts_too_large_a_state_fails() {
    let backend = FaultyBackend::new(Plan::default(), 1, true);
    let store = store(&backend, None);
    let put =
        |len: usize| step_fn(move |_: Option<&String>, _now| Change::Put("x".repeat(len), Ttl::Never, ()));
    let (small, large) = (put(10), put(2_000_000));
    let key = key();
    let (first, second, third) =
        tokio::join!(store.apply(&key, &small), store.apply(&key, &large), store.get::<String>(&key));
    first.unwrap();
    assert_eq!(second.unwrap_err().code(), Code::TooLarge);
    assert_eq!(third.unwrap().map(|text| text.len()), Some(10));
}

/// Against others that always win, attempts end by their number, or before that by their part of the deadline.
#[tokio::test(start_paused = true)]
async fn attempts_that_always_lose_end_and_nothing_is_applied() {
    for (deadline_ms, returns_current) in [(60_000, true), (60_000, false), (800, true)] {
        let backend = FaultyBackend::new(Plan::default(), 1, returns_current);
        let backend = backend.of_manner(Manner::Contended);
        let clock = Arc::new(keystead_core::SystemClock);
        let store = CasStore::new(backend.clone(), clock, deadline_ms).unwrap();
        let (key, append) = (key(), append(1));
        let applied = tokio::time::timeout(Duration::from_millis(deadline_ms), store.apply(&key, &append));
        let error = applied.await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
        // A read; then a swap each time, and another read if the server does not return what won.
        let most = 1 + ATTEMPTS_MAX as usize * if returns_current { 1 } else { 2 };
        match deadline_ms {
            800 => assert!((3..most).contains(&backend.calls()), "{} calls", backend.calls()),
            _ => assert_eq!(backend.calls(), most),
        }
        assert!(backend.history().is_empty());
    }
}

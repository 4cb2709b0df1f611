//! An apply on an existing key allocates nothing, however it is called.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use keystead_core::{Change, Key, MemoryOptions, MemoryStore, Step, Store, StoreExt, Ttl, step_fn};

/// Like GCRA: one number that increases, with a TTL that is renewed each time.
fn check() -> impl Step<State = f64, Reply = bool> {
    step_fn(|tat: Option<&f64>, now| {
        let tat = tat.copied().unwrap_or(0.0).max(now.0 as f64) + 10.0;
        Change::Put(tat, Ttl::Ms(60_000), true)
    })
}

fn assert_no_allocations(what: &str, mut call: impl FnMut()) {
    call();
    let info = measure(|| (0..1000).for_each(|_| call()));
    assert_eq!(info.count_total, 0, "{what} allocates");
}

#[test]
fn the_counter_counts() {
    assert!(measure(|| drop(std::hint::black_box(vec![1u8; 100]))).count_total > 0);
}

#[test]
fn an_apply_on_an_existing_key_allocates_nothing() {
    let store = MemoryStore::open(MemoryOptions::default().max_keys(10_000)).unwrap();
    let step = check();
    let text = "rate:2001:db8:85a3::8a2e:370:7334/64";
    let key = Key::new(text).unwrap();
    assert_no_allocations("apply_sync", || assert!(store.apply_sync(&key, &step).unwrap()));
    assert_no_allocations("making the key", || {
        assert!(store.apply_sync(&Key::join("rate", &text[5..]).unwrap(), &step).unwrap());
    });
    let dynamic: Arc<dyn Store> = Arc::new(store.clone());
    assert_no_allocations("apply_sync on a store chosen at run time", || {
        assert!(dynamic.apply_sync(&key, &step).unwrap());
    });
    assert_no_allocations("apply", || {
        let future = std::pin::pin!(dynamic.apply(&key, &step));
        let Poll::Ready(reply) = future.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("not ready")
        };
        assert!(reply.unwrap());
    });
    let denied = step_fn(|_: Option<&f64>, _| Change::Keep(false));
    assert_no_allocations("a denied step", || assert!(!store.apply_sync(&key, &denied).unwrap()));
    let absent = Key::new("absent").unwrap();
    assert_no_allocations("a denied step on an absent key", || {
        assert!(!store.apply_sync(&absent, &denied).unwrap());
    });
}

//! Every store on a server that is killed, paused and cut off while it is used. What is the same for all of them stands here once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::{Code, Error, Outcome, Store, StoreExt, SystemClock, Ttl};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{Kind, OwnServer};
use keystead_testkit::steps::{increment, put};

use super::{Outcomes, add_1, count, in_time, key, open, server};

/// The URL of a store on a port, with these further parameters (`name=value&...`).
pub(crate) type UrlOf = fn(port: u16, parameters: &str) -> String;

/// The error of a URL that cannot be used: nothing was applied, and the password `hidden` is not shown.
pub(crate) async fn error_of(url: &str) -> Error {
    let error = keystead_stores::connect(url, Arc::new(SystemClock)).await.err().unwrap();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    error
}

/// Killed (SIGKILL) and restarted three times while eight handles write: exact counts afterwards.
pub(crate) async fn killed_and_restarted(kind: &'static Kind, url: UrlOf) {
    let Some(mut server) = server(kind).await else { return };
    let url = url(server.site().port(), "deadline=1600ms");
    let key = key("killed");
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for _ in 0..8 {
        let (store, key, stop) = (open(&url), key.clone(), Arc::clone(&stop));
        workers.push(tokio::spawn(async move {
            let mut outcomes = Outcomes::default();
            while !stop.load(Ordering::SeqCst) {
                let result = store.apply(&key, &increment(Ttl::Never)).await;
                if let Err(error) = &result {
                    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
                }
                outcomes.add(&result);
                // Far from the servers' own bounds on new connections while there is none to connect to.
                tokio::task::yield_now().await;
            }
            outcomes
        }));
    }
    let store = open(&url);
    for _ in 0..3 {
        let before = until_read(&*store, &key).await;
        while until_read(&*store, &key).await < before + 50 {}
        server.kill().unwrap();
        server.restart().await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let mut all = Outcomes::default();
    for worker in workers {
        all += worker.await.unwrap();
    }
    println!("{}: {all:?}", kind.name);
    assert!(all.applied >= 150, "{all:?}");
    assert!(all.not_applied + all.unknown > 0, "the kills were noticed: {all:?}");
    all.assert_exact(until_read(&*store, &key).await);
}

const MANY: usize = 12;

/// The same with more steps at a time on several keys, which two handles send together.
pub(crate) async fn killed_with_many_keys(kind: &'static Kind, url: UrlOf) {
    let Some(mut server) = server(kind).await else { return };
    let url = url(server.site().port(), "deadline=1600ms");
    let keys: Vec<_> = (0..MANY).map(|n| key(&format!("killed-{n}"))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let handles = [open(&url), open(&url)];
    let mut workers = Vec::new();
    for n in 0..4 * MANY {
        let (store, key, stop) = (Arc::clone(&handles[n % 2]), keys[n / 2 % MANY].clone(), Arc::clone(&stop));
        workers.push(tokio::spawn(async move {
            let mut outcomes = Outcomes::default();
            while !stop.load(Ordering::SeqCst) {
                outcomes.add(&add_1(&*store, &key).await);
                tokio::task::yield_now().await;
            }
            (n / 2 % MANY, outcomes)
        }));
    }
    let store = open(&url);
    for _ in 0..3 {
        let before = until_read(&*store, &keys[0]).await;
        while until_read(&*store, &keys[0]).await < before + 50 {}
        server.kill().unwrap();
        server.restart().await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let (mut all, mut of_keys) = (Outcomes::default(), [Outcomes::default(); MANY]);
    for worker in workers {
        let (n, outcomes) = worker.await.unwrap();
        all += outcomes;
        of_keys[n] += outcomes;
    }
    println!("{}, {MANY} keys: {all:?}", kind.name);
    assert!(all.applied >= 150 && all.not_applied + all.unknown > 0, "{all:?}");
    for (key, outcomes) in keys.iter().zip(of_keys) {
        outcomes.assert_exact(until_read(&*store, key).await);
    }
}

/// Steps on many keys that are under way together when the connections are cut, before or after the server got them.
pub(crate) async fn cut_off_with_many_keys(kind: &'static Kind, url: UrlOf) {
    let Some(server) = server(kind).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let store = open(&url(proxy.port(), "deadline=10s"));
    let keys: Vec<_> = (0..MANY).map(|n| key(&format!("cut-{n}"))).collect();
    let mut of_keys = [Outcomes::default(); MANY];
    for round in 0..10 {
        for (key, outcomes) in keys.iter().zip(&mut of_keys) {
            add_1(&*store, key).await.unwrap();
            outcomes.applied += 1;
        }
        proxy.set(if round % 2 == 0 { Traffic::RepliesLost } else { Traffic::RequestsLost });
        let cuts = proxy.cuts();
        let apply = |key: &keystead_core::Key| {
            let (store, key) = (Arc::clone(&store), key.clone());
            tokio::spawn(async move { add_1(&*store, &key).await })
        };
        let applies: Vec<_> = keys.iter().map(apply).collect();
        while proxy.cuts() == cuts {
            tokio::task::yield_now().await;
        }
        proxy.set(Traffic::Forwarded);
        for (apply, outcomes) in applies.into_iter().zip(&mut of_keys) {
            outcomes.add(&apply.await.unwrap());
        }
    }
    let mut all = Outcomes::default();
    for (key, outcomes) in keys.iter().zip(of_keys) {
        all += outcomes;
        outcomes.assert_exact(count(&*store, key).await);
    }
    println!("{}, {MANY} keys: {all:?}", kind.name);
    // The connection is back at once, so nothing is left unknown.
    assert!(all.not_applied > 0 && all.unknown == 0, "{all:?}");
}

/// The value, as soon as the server can be read.
async fn until_read(store: &dyn Store, key: &keystead_core::Key) -> u64 {
    loop {
        match store.get::<u64>(key).await {
            Ok(value) => return value.unwrap_or(0),
            Err(error) => assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}"),
        }
    }
}

/// A server that is stopped (SIGSTOP) and continued.
pub(crate) async fn paused(kind: &'static Kind, url: UrlOf) {
    let Some(server) = server(kind).await else { return };
    let store = open(&url(server.site().port(), "deadline=800ms"));
    let key = key("paused");
    let mut outcomes = Outcomes::default();
    until_read(&*store, &key).await;
    outcomes.add(&add_1(&*store, &key).await);
    server.pause().unwrap();
    let mut failed = 0;
    while failed < 3 {
        let result = in_time(800, add_1(&*store, &key)).await;
        outcomes.add(&result);
        match result {
            // The signal stops its threads one after the other: what it was doing may still end.
            Ok(_) => assert_eq!(failed, 0, "a paused server replied"),
            Err(error) => {
                assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
                failed += 1;
            }
        }
    }
    server.resume().unwrap();
    outcomes.assert_exact(until_read(&*store, &key).await);
}

/// Connections that are cut before the request reaches the server, or between the request and its reply.
pub(crate) async fn cut_off(kind: &'static Kind, url: UrlOf) {
    let Some(server) = server(kind).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let store = open(&url(proxy.port(), "deadline=10s"));
    let key = key("cut-off");
    let mut outcomes = Outcomes::default();
    for round in 0..20 {
        add_1(&*store, &key).await.unwrap();
        outcomes.applied += 1;
        proxy.set(if round % 2 == 0 { Traffic::RepliesLost } else { Traffic::RequestsLost });
        let cuts = proxy.cuts();
        let (applying, name) = (Arc::clone(&store), key.clone());
        let apply = tokio::spawn(async move { applying.apply(&name, &increment(Ttl::Never)).await });
        while proxy.cuts() == cuts {
            tokio::task::yield_now().await;
        }
        proxy.set(Traffic::Forwarded);
        let result = apply.await.unwrap();
        // The connection is back at once, so nothing is left unknown.
        assert!(result.as_ref().err().is_none_or(|e| e.outcome() == Outcome::NotApplied), "{result:?}");
        outcomes.add(&result);
    }
    println!("{}: {outcomes:?}", kind.name);
    assert!(outcomes.applied >= 20 && outcomes.unknown == 0, "{outcomes:?}");
    outcomes.assert_exact(count(&*store, &key).await);
}

/// A write that is held in the network and arrives after it was given up.
pub(crate) async fn late(kind: &'static Kind, url: UrlOf) {
    let Some(server) = server(kind).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let store = open(&url(proxy.port(), "deadline=1600ms"));
    let direct = open(&url(server.site().port(), "deadline=10s"));
    let (existing, absent) = (key("existing"), key("absent"));
    until_read(&*store, &existing).await;
    add_1(&*direct, &existing).await.unwrap();
    for key in [&existing, &absent] {
        let mut outcomes = Outcomes { applied: until_read(&*store, key).await, ..Outcomes::default() };
        proxy.hold_existing();
        outcomes.add(&add_1(&*store, key).await);
        proxy.release();
        // What was held reaches the server no later than what is sent now through the same proxy.
        for _ in 0..5 {
            outcomes.add(&add_1(&*direct, key).await);
        }
        outcomes.assert_exact(count(&*direct, key).await);
    }
}

/// 200 concurrent applies from three handles are 200.
pub(crate) async fn concurrent(server: &OwnServer, url: UrlOf) {
    let url = url(server.site().port(), "deadline=30s");
    let stores = [open(&url), open(&url), open(&url)];
    let key = key("concurrent");
    let mut applies = tokio::task::JoinSet::new();
    for i in 0..200 {
        let (store, key) = (Arc::clone(&stores[i % 3]), key.clone());
        applies.spawn(async move { add_1(&*store, &key).await.unwrap() });
    }
    let mut seen = applies.join_all().await;
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
    assert_eq!(count(&*stores[0], &key).await, 200);
    concurrent_on_many_keys(&stores).await;
}

/// What several handles send together, on keys that all of them use, is counted exactly, also where the keys were absent.
async fn concurrent_on_many_keys(stores: &[Arc<dyn Store>; 3]) {
    let keys: Vec<_> = (0..MANY).map(|n| key(&format!("concurrent-{n}"))).collect();
    let mut applies = tokio::task::JoinSet::new();
    for i in 0..50 * MANY {
        // Each handle in another order.
        let n = if i % 2 == 0 { i / 2 % MANY } else { MANY - 1 - i / 2 % MANY };
        let (store, key) = (Arc::clone(&stores[i % 3]), keys[n].clone());
        applies.spawn(async move { (n, add_1(&*store, &key).await.unwrap()) });
    }
    let mut seen = applies.join_all().await;
    seen.sort_unstable();
    let each = (1..=50).collect::<Vec<u64>>();
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(seen.iter().filter(|one| one.0 == n).map(|one| one.1).collect::<Vec<_>>(), each);
        assert_eq!(count(&*stores[0], key).await, 50);
    }
}

/// A state that the store would take and this server does not: `too_large`, and nothing has changed.
pub(crate) async fn too_large(kind: &'static Kind, url: UrlOf, bytes: usize) {
    let Some(server) = server(kind).await else { return };
    let store = open(&url(server.site().port(), "deadline=10s"));
    let (key, absent) = (key("large"), key("large-and-absent"));
    let set = |bytes: usize| put("x".repeat(bytes), Ttl::Never);
    store.apply(&key, &set(1_000)).await.unwrap();
    for key in [&key, &absent] {
        let error = store.apply(key, &set(bytes + 1_000)).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::TooLarge, Outcome::NotApplied), "{error:?}");
    }
    assert_eq!(store.get::<String>(&key).await.unwrap().map(|text| text.len()), Some(1_000));
    assert_eq!(store.get::<String>(&absent).await.unwrap(), None);
    store.apply(&key, &set(2_000)).await.unwrap();
    assert_eq!(store.get::<String>(&key).await.unwrap().map(|text| text.len()), Some(2_000));
}

//! Checks run as scripts: one for each, several steps and keys in one, in pipelines to the nodes of a cluster, as swaps on hot keys, and as
//! one for several limits. Whatever happens to the server meanwhile, what was acknowledged is counted one time and what was not applied
//! is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::key::slot;
use keystead_core::{Code, Error, Key, Store, StoreExt, Ttl};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_limit::{Combined, FailMode, Limiter, Policy};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{Kind, OwnServer, keystead, redis};
use keystead_testkit::steps::increment;
use tokio::task::JoinHandle;

use super::cluster::move_slot;
use super::{Outcomes, count, key, open, server};

/// Never reached, so that what remains shows how many were counted.
const LIMIT: u64 = 1_000_000_000;

fn window() -> FixedWindow {
    FixedWindow::new(LIMIT, 1_000_000_000_000).unwrap()
}

fn check(cost: u64) -> Check<FixedWindow> {
    Check { strategy: window(), ask: Ask::units(cost), at: None }
}

/// How many checks of a key were counted, as soon as the server replies.
async fn counted(store: &dyn Store, key: &Key) -> u64 {
    loop {
        match store.apply(key, &check(0)).await {
            Ok((decision, _)) => return LIMIT - decision.remaining,
            Err(error) => assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}"),
        }
    }
}

/// How checks reach the server.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    handles: usize,
    keys: usize,
    /// How many callers each handle has for a key.
    callers: usize,
}

/// A script for each check.
const ALONE: Shape = Shape { name: "alone", handles: 8, keys: 1, callers: 1 };
/// Scripts, or pipelines, for steps of several keys.
const BATCHES: Shape = Shape { name: "batches", handles: 2, keys: 12, callers: 2 };
/// So many steps of a key that they run in the process.
const HOT: Shape = Shape { name: "hot", handles: 1, keys: 1, callers: 64 };

impl Shape {
    fn keys(&self, server: &str) -> Vec<Key> {
        (0..self.keys).map(|n| key(&format!("{server}-{}-{n}", self.name))).collect()
    }
}

/// Callers that check until they are stopped.
struct Storm {
    stop: Arc<AtomicBool>,
    callers: Vec<(usize, JoinHandle<Outcomes>)>,
}

impl Storm {
    fn begin(shape: Shape, keys: &[Key], url: &str) -> Storm {
        let (stop, mut callers) = (Arc::new(AtomicBool::new(false)), Vec::new());
        for store in (0..shape.handles).map(|_| open(url)) {
            for n in (0..keys.len()).flat_map(|n| std::iter::repeat_n(n, shape.callers)) {
                let (store, key, stop) = (Arc::clone(&store), keys[n].clone(), Arc::clone(&stop));
                callers.push((n, tokio::spawn(caller(store, key, stop))));
            }
        }
        Storm { stop, callers }
    }

    /// The outcomes of each key.
    async fn end(self, keys: usize) -> Vec<Outcomes> {
        self.stop.store(true, Ordering::SeqCst);
        let mut of_keys = vec![Outcomes::default(); keys];
        for (n, caller) in self.callers {
            of_keys[n] += caller.await.unwrap();
        }
        of_keys
    }
}

async fn caller(store: Arc<dyn Store>, key: Key, stop: Arc<AtomicBool>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    while !stop.load(Ordering::SeqCst) {
        let result = store.apply(&key, &check(1)).await;
        if let Err(error) = &result {
            assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        }
        outcomes.add(&result);
        tokio::task::yield_now().await;
    }
    outcomes
}

fn all(of_keys: &[Outcomes]) -> Outcomes {
    let mut all = Outcomes::default();
    of_keys.iter().for_each(|outcomes| all += *outcomes);
    all
}

async fn assert_all_exact(store: &dyn Store, keys: &[Key], of_keys: &[Outcomes]) {
    for (key, outcomes) in keys.iter().zip(of_keys) {
        outcomes.assert_exact(counted(store, key).await);
    }
}

/// Kills the server (SIGKILL) three times while it is used.
async fn killed(kind: &'static Kind, url: impl Fn(&OwnServer) -> String, shapes: &[Shape]) {
    let Some(mut server) = server(kind).await else { return };
    let url = url(&server);
    let store = open(&url);
    for &shape in shapes {
        let keys = shape.keys(kind.name);
        let storm = Storm::begin(shape, &keys, &url);
        for _ in 0..3 {
            let before = counted(&*store, &keys[0]).await;
            while counted(&*store, &keys[0]).await < before + 50 {}
            server.kill().unwrap();
            server.restart().await.unwrap();
        }
        let of_keys = storm.end(keys.len()).await;
        let all = all(&of_keys);
        println!("{}, {}: {all:?}", kind.name, shape.name);
        assert!(all.applied >= 150 && all.not_applied + all.unknown > 0, "{all:?}");
        assert_all_exact(&*store, &keys, &of_keys).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted() {
    let url = |server: &OwnServer| format!("redis://{}?deadline=1600ms", server.site().addresses());
    killed(&redis::REDIS_DURABLE, url, &[ALONE, BATCHES, HOT]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn valkey_killed_and_restarted() {
    let url = |server: &OwnServer| format!("redis://{}?deadline=1600ms", server.site().addresses());
    killed(&redis::VALKEY_DURABLE, url, &[BATCHES, HOT]).await;
}

/// Over HTTP, in requests of several scripts.
#[tokio::test(flavor = "multi_thread")]
async fn keystead_killed_and_restarted() {
    let url = |server: &OwnServer| {
        format!("upstash+http://{}@127.0.0.1:{}?deadline=1600ms", keystead::TOKEN, server.site().port())
    };
    killed(&keystead::KEYSTEAD_DURABLE, url, &[ALONE, BATCHES, HOT]).await;
}

/// One node after the other. The keys are on all of them.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_killed_and_restarted() {
    let Some(mut server) = server(&redis::REDIS_CLUSTER_DURABLE).await else { return };
    let url = format!("redis+cluster://{}?deadline=1600ms", server.site().addresses());
    let (store, keys) = (open(&url), BATCHES.keys("cluster"));
    let storm = Storm::begin(BATCHES, &keys, &url);
    // Any other step, by compare-and-set.
    let (step, stop) = (key("step"), Arc::clone(&storm.stop));
    let stepping = tokio::spawn({
        let (store, step) = (open(&url), step.clone());
        async move {
            let mut outcomes = Outcomes::default();
            while !stop.load(Ordering::SeqCst) {
                outcomes.add(&store.apply(&step, &increment(Ttl::Never)).await);
                tokio::task::yield_now().await;
            }
            outcomes
        }
    });
    for node in 0..3 {
        for key in &keys {
            let before = counted(&*store, key).await;
            while counted(&*store, key).await < before + 10 {}
        }
        server.kill_one(node).unwrap();
        server.restart_killed().await.unwrap();
    }
    let of_keys = storm.end(keys.len()).await;
    let steps = stepping.await.unwrap();
    let all = all(&of_keys);
    println!("checks: {all:?}, steps: {steps:?}");
    assert!(all.applied >= 360 && all.not_applied + all.unknown > 0, "{all:?}");
    assert_all_exact(&*store, &keys, &of_keys).await;
    steps.assert_exact(count(&*store, &step).await);
}

/// Connections that are cut before the requests reach the server, or before their replies come back.
#[tokio::test(flavor = "multi_thread")]
async fn cut_off() {
    let Some(server) = server(&redis::REDIS).await else { return };
    for shape in [ALONE, BATCHES, HOT] {
        let proxy = Proxy::start(server.site().port()).await.unwrap();
        let url = format!("redis://127.0.0.1:{}?deadline=10s", proxy.port());
        let (direct, keys) = (open(&format!("redis://{}", server.site().addresses())), shape.keys("cut"));
        let storm = Storm::begin(shape, &keys, &url);
        for round in 0..20 {
            let before = counted(&*direct, &keys[0]).await;
            while counted(&*direct, &keys[0]).await < before + 20 {}
            let cuts = proxy.cuts();
            proxy.set(if round % 2 == 0 { Traffic::RepliesLost } else { Traffic::RequestsLost });
            while proxy.cuts() == cuts {
                tokio::task::yield_now().await;
            }
            proxy.set(Traffic::Forwarded);
        }
        let of_keys = storm.end(keys.len()).await;
        let all = all(&of_keys);
        println!("{}: {all:?}", shape.name);
        assert!(all.applied >= 400 && all.not_applied + all.unknown >= 10, "{all:?}");
        assert_all_exact(&*direct, &keys, &of_keys).await;
    }
}

/// A script that is held in the network and arrives after it was given up: nobody can know that it has not run, and it is reported so.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_arrives_late_was_not_reported_as_not_applied() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let store = open(&format!("redis://127.0.0.1:{}?deadline=800ms", proxy.port()));
    let (direct, late) = (open(&format!("redis://{}", server.site().addresses())), key("late"));
    let mut outcomes = Outcomes::default();
    outcomes.add(&store.apply(&late, &check(1)).await);
    assert_eq!(outcomes.applied, 1);
    proxy.hold_existing();
    outcomes.add(&store.apply(&late, &check(1)).await);
    assert_eq!(outcomes.unknown, 1, "{outcomes:?}");
    assert_eq!(counted(&*direct, &late).await, 1);
    proxy.release();
    while counted(&*direct, &late).await < 2 {}
    outcomes.assert_exact(counted(&*direct, &late).await);
}

/// Pipelines of scripts for several keys, while the slot of some of them moves from node to node: each goes where its key is.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_by_scripts_that_are_sent_together() {
    let Some(server) = server(&redis::REDIS_CLUSTER).await else { return };
    let url = format!("redis+cluster://{}?deadline=40s", server.site().addresses());
    let moving = (0..4).map(|n| key(&format!("{{moving}}-{n}")));
    let keys: Vec<Key> = moving.chain((0..8).map(|n| key(&format!("staying-{n}")))).collect();
    let (store, slot) = (open(&url), slot(keys[0].as_bytes()));
    let storm = Storm::begin(BATCHES, &keys, &url);
    for _ in 0..6 {
        for key in &keys {
            let before = counted(&*store, key).await;
            while counted(&*store, key).await < before + 10 {}
        }
        move_slot(&server.site().ports, slot, &keys[0].to_string()).await;
    }
    let of_keys = storm.end(keys.len()).await;
    let all = all(&of_keys);
    println!("{all:?}");
    // A node that does not have a key says so before it runs anything.
    assert!(all.applied >= 720 && all.unknown == 0, "{all:?}");
    assert_all_exact(&*store, &keys, &of_keys).await;
}

/// Both limits of a combination are consumed or none is: by one script, which a kill or a cut does not divide.
#[tokio::test(flavor = "multi_thread")]
async fn a_combination_is_whole_whatever_happens_to_the_server() {
    let Some(mut server) = server(&redis::REDIS_DURABLE).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let url = format!("redis://127.0.0.1:{}?deadline=1600ms", proxy.port());
    let direct = open(&format!("redis://{}", server.site().addresses()));
    let policy = || Policy::from(window());
    let limits = [policy().named("a").unwrap(), policy().named("b").unwrap()];
    let counted_of = |name: &str| {
        let limiter = Limiter::new(policy(), Arc::clone(&direct), FailMode::Closed);
        let limiter = limiter.prefix(format!("whole:{name}"));
        async move {
            loop {
                match limiter.peek("user").await {
                    Ok(decision) => return LIMIT - decision.remaining,
                    Err(error) => assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}"),
                }
            }
        }
    };
    let (stop, mut callers) = (Arc::new(AtomicBool::new(false)), Vec::new());
    for _ in 0..4 {
        let all = Combined::all(&limits, open(&url), FailMode::Closed).unwrap().prefix("whole");
        let stop = Arc::clone(&stop);
        callers.push(tokio::spawn(async move {
            let mut outcomes = Outcomes::default();
            while !stop.load(Ordering::SeqCst) {
                let checked: Result<_, Error> = all.check("user", 1).await;
                outcomes.add(&checked);
                tokio::task::yield_now().await;
            }
            outcomes
        }));
    }
    for round in 0..9 {
        let before = counted_of("a").await;
        while counted_of("a").await < before + 20 {}
        if round % 3 == 0 {
            server.kill().unwrap();
            server.restart().await.unwrap();
            continue;
        }
        let cuts = proxy.cuts();
        proxy.set(if round % 3 == 1 { Traffic::RepliesLost } else { Traffic::RequestsLost });
        while proxy.cuts() == cuts {
            tokio::task::yield_now().await;
        }
        proxy.set(Traffic::Forwarded);
    }
    stop.store(true, Ordering::SeqCst);
    let mut outcomes = Outcomes::default();
    for caller in callers {
        outcomes += caller.await.unwrap();
    }
    println!("{outcomes:?}");
    assert!(outcomes.applied >= 180 && outcomes.unknown > 0, "{outcomes:?}");
    let (first, second) = (counted_of("a").await, counted_of("b").await);
    assert_eq!(first, second);
    outcomes.assert_exact(first);
}

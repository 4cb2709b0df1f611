//! Checks that wait in one process share a script, and so do the limits of a combination. What fails for one key does not fail the others.

use std::sync::Arc;

use keystead_core::{Code, Key, Outcome, Result, Store, StoreExt};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_limit::{Combined, Decision, FailMode, Limiter, Policy};
use keystead_testkit::servers::{ask, keystead, redis};
use tokio::task::JoinHandle;

use super::{key, open, server};

fn check(limit: u64) -> Check<FixedWindow> {
    let strategy = FixedWindow::new(limit, 1_000_000_000_000).unwrap();
    Check { strategy, ask: Ask::units(1), at: None }
}

/// How many scripts a server has run by their digest.
async fn scripts(port: u16) -> u64 {
    let info = String::from_utf8(ask(port, b"INFO commandstats\r\n").await).unwrap();
    let calls = info.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_wait_share_a_script_and_count_exactly() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let key = key("combined");
    store.apply(&key, &check(50)).await.unwrap();
    let before = scripts(server.site().port()).await;
    let tasks: Vec<_> = (0..500)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { store.apply(&key, &check(50)).await.unwrap().0 })
        })
        .collect();
    let mut remaining = Vec::new();
    for task in tasks {
        let decision = task.await.unwrap();
        if decision.allowed {
            remaining.push(decision.remaining);
        }
    }
    // Each of them was decided on the state that the one before it has left.
    remaining.sort_unstable();
    assert_eq!(remaining, (0..49).collect::<Vec<_>>());
    let calls = scripts(server.site().port()).await - before;
    assert!(calls < 250, "{calls} scripts for 500 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_go_away_stop_nobody() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let key = key("dropped");
    for _ in 0..20 {
        let tasks: Vec<_> = (0..30)
            .map(|_| {
                let (store, key) = (store.clone(), key.clone());
                tokio::spawn(async move { store.apply(&key, &check(1_000_000)).await })
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            match i % 3 {
                0 => task.abort(),
                _ => assert!(task.await.unwrap().unwrap().0.allowed),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_another_kind_is_rejected_for_each() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let key = key("other kind");
    store
        .apply(&key, &keystead_testkit::steps::put("text".to_owned(), keystead_core::Ttl::Never))
        .await
        .unwrap();
    let tasks: Vec<_> = (0..30)
        .map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { store.apply(&key, &check(5)).await })
        })
        .collect();
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.code(), keystead_core::Code::WrongType, "{error:?}");
    }
    assert_eq!(store.get::<String>(&key).await.unwrap().as_deref(), Some("text"));
}

fn checks(
    store: &Arc<dyn Store>,
    keys: &[Key],
    limit: u64,
    count: usize,
) -> Vec<JoinHandle<Result<Decision>>> {
    let one = |n: usize| {
        let (store, key) = (Arc::clone(store), keys[n % keys.len()].clone());
        tokio::spawn(async move { Ok(store.apply(&key, &check(limit)).await?.0) })
    };
    (0..count).map(one).collect()
}

/// Many steps of one key run in the process, by compare-and-set, as long as no other process writes the key; else by script.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_counts_exactly_whoever_else_writes_it() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let open = || open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    for (handles, name) in [(1, "hot for one"), (3, "hot for three")] {
        let (key, mut tasks) = (key(name), Vec::new());
        for store in (0..handles).map(|_| open()) {
            for _ in 0..64 {
                let (store, key) = (Arc::clone(&store), key.clone());
                tasks.push(tokio::spawn(async move {
                    let mut remaining = Vec::new();
                    for _ in 0..30 {
                        let decision = store.apply(&key, &check(1000)).await.unwrap().0;
                        remaining.extend(decision.allowed.then_some(decision.remaining));
                    }
                    remaining
                }));
            }
        }
        let mut remaining = Vec::new();
        for task in tasks {
            remaining.extend(task.await.unwrap());
        }
        remaining.sort_unstable();
        assert_eq!(remaining, (0..1000).collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_many_keys_share_scripts_and_count_exactly() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let keys: Vec<Key> = (0..20).map(|n| key(&format!("shared {n}"))).collect();
    store.apply(&keys[0], &check(25)).await.unwrap();
    store.reset(&keys[0]).await.unwrap();
    let before = scripts(server.site().port()).await;
    let mut allowed = 0;
    for task in checks(&store, &keys, 25, 1000) {
        allowed += u64::from(task.await.unwrap().unwrap().allowed);
    }
    assert_eq!(allowed, 20 * 25);
    let calls = scripts(server.site().port()).await - before;
    assert!(calls < 500, "{calls} scripts for 1000 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_none_of_ours_fails_alone() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let keys: Vec<Key> = (0..10).map(|n| key(&format!("mixed {n}"))).collect();
    for request in [format!("SET \"{}\" text\r\n", keys[3]), format!("RPUSH \"{}\" x\r\n", keys[7])] {
        ask(server.site().port(), request.as_bytes()).await;
    }
    let mut codes = vec![Vec::new(); 10];
    for (n, task) in checks(&store, &keys, 4, 100).into_iter().enumerate() {
        codes[n % 10].push(match task.await.unwrap() {
            Ok(decision) => decision.allowed.to_string(),
            Err(error) => format!("{} {:?}", error.code(), error.outcome()),
        });
    }
    for (n, codes) in codes.iter().enumerate() {
        let count = |wanted: &str| codes.iter().filter(|code| *code == wanted).count();
        match n {
            3 => assert_eq!(count("corrupt NotApplied"), 10, "{codes:?}"),
            7 => assert_eq!(count("wrong_type NotApplied"), 10, "{codes:?}"),
            _ => assert_eq!((count("true"), count("false")), (4, 6), "{codes:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_rejects_each_check_and_changes_nothing() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let keys: Vec<Key> = (0..10).map(|n| key(&format!("full {n}"))).collect();
    store.apply(&keys[0], &check(5)).await.unwrap();
    ask(server.site().port(), b"CONFIG SET maxmemory 1\r\n").await;
    for task in checks(&store, &keys, 5, 100) {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::OutOfMemory, Outcome::NotApplied), "{error:?}");
    }
    for atomic in ["cas", "watch"] {
        let store = open(&format!("redis://{}?deadline=40s&atomic={atomic}", server.site().addresses()));
        let error = super::add_1(&*store, &key("full step")).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::OutOfMemory, Outcome::NotApplied), "{error:?}");
    }
    ask(server.site().port(), b"CONFIG SET maxmemory 0\r\n").await;
    let mut allowed = 0;
    for task in checks(&store, &keys, 5, 100) {
        allowed += u64::from(task.await.unwrap().unwrap().allowed);
    }
    assert_eq!(allowed, 49, "one was consumed before");
}

/// By the URL of one server, which turns out to have its keys in several places.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_rejects_scripts_on_several_keys_gets_one_for_each() {
    let Some(server) = server(&keystead::KEYSTEAD_SHARDS).await else { return };
    let port = server.site().ports[1];
    let store = open(&format!("redis://:{}@127.0.0.1:{port}?deadline=40s", keystead::TOKEN));
    let keys: Vec<Key> = (0..20).map(|n| key(&format!("apart {n}"))).collect();
    let mut allowed = 0;
    for task in checks(&store, &keys, 25, 1000) {
        allowed += u64::from(task.await.unwrap().unwrap().allowed);
    }
    assert_eq!(allowed, 20 * 25);
}

/// Where a script has one key, those of many keys go together all the same, and one that a node does not have is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn checks_of_many_keys_share_pipelines_of_a_cluster_and_count_exactly() {
    let Some(server) = server(&redis::REDIS_CLUSTER).await else { return };
    let store = open(&format!("redis+cluster://{}?deadline=40s", server.site().addresses()));
    let keys: Vec<Key> = (0..20).map(|n| key(&format!("spread {n}"))).collect();
    let (mut first, mut allowed) = (checks(&store, &keys, 25, 500), 0);
    for port in &server.site().ports {
        ask(*port, b"SCRIPT FLUSH\r\n").await;
    }
    first.extend(checks(&store, &keys, 25, 500));
    for task in first {
        allowed += u64::from(task.await.unwrap().unwrap().allowed);
    }
    assert_eq!(allowed, 20 * 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_many_keys_share_requests_over_http_and_count_exactly() {
    let Some(server) = server(&keystead::KEYSTEAD).await else { return };
    let url = format!("upstash+http://{}@127.0.0.1:{}?deadline=40s", keystead::TOKEN, server.site().port());
    let store = open(&url);
    let keys: Vec<Key> = (0..20).map(|n| key(&format!("spread {n}"))).collect();
    let mut allowed = 0;
    for task in checks(&store, &keys, 25, 1000) {
        allowed += u64::from(task.await.unwrap().unwrap().allowed);
    }
    assert_eq!(allowed, 20 * 25);
}

/// Every check consumes from both limits or from none, whatever else happens.
async fn combine(store: &Arc<dyn Store>, user: &str) {
    let hour = |limit| Policy::from(FixedWindow::new(limit, 1_000_000_000_000).unwrap());
    let limits = [hour(1000).named("a").unwrap(), hour(30).named("b").unwrap()];
    let all =
        Arc::new(Combined::all(&limits, Arc::clone(store), FailMode::Closed).unwrap().prefix("combined"));
    let one = |_| {
        let (all, user) = (Arc::clone(&all), user.to_owned());
        tokio::spawn(async move { all.check(user, 1).await.unwrap().decision.allowed })
    };
    let tasks: Vec<_> = (0..200).map(one).collect();
    let mut allowed = 0;
    for task in tasks {
        allowed += u64::from(task.await.unwrap());
    }
    assert_eq!(allowed, 30);
    let first = Limiter::new(hour(1000), Arc::clone(store), FailMode::Closed).prefix("combined:a");
    assert_eq!(first.peek(user).await.unwrap().remaining, 970, "a denied one has consumed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combination_is_one_script() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    combine(&store, "ada").await;
    let before = scripts(server.site().port()).await;
    combine(&store, "bob").await;
    assert_eq!(scripts(server.site().port()).await - before, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combination_in_one_slot_of_a_cluster_is_one_script() {
    let Some(server) = server(&redis::REDIS_CLUSTER).await else { return };
    let store = open(&format!("redis+cluster://{}?deadline=40s", server.site().addresses()));
    combine(&store, "{ada}").await;
    // In several slots: in turn, with refunds.
    let hour = |limit| Policy::from(FixedWindow::new(limit, 1_000_000_000_000).unwrap());
    let limits = [hour(1000).named("a").unwrap(), hour(30).named("b").unwrap()];
    let all = Combined::all(&limits, Arc::clone(&store), FailMode::Closed).unwrap().prefix("combined");
    let mut allowed = 0;
    for _ in 0..40 {
        allowed += u64::from(all.check("bob", 1).await.unwrap().decision.allowed);
    }
    assert_eq!(allowed, 30);
}

/// On PostgreSQL a combination is a transaction, which mixes with both ways of single steps.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_combination_is_a_transaction() {
    use keystead_testkit::servers::{Kind, pgbouncer, postgres};

    let kinds: [&'static Kind; 2] = [&postgres::POSTGRES, &pgbouncer::PGBOUNCER];
    for kind in kinds {
        let Some(server) = server(kind).await else { continue };
        for atomic in ["cas", "lock"] {
            let (password, port) = (postgres::PASSWORD, server.site().port());
            let url = format!(
                "postgres://postgres:{password}@127.0.0.1:{port}/postgres?atomic={atomic}&deadline=40s"
            );
            let store = open(&url);
            assert!(store.together().is_some());
            combine(&store, atomic).await;
        }
    }
}

//! A Redis that is killed, paused, cut off and flushed while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::{Code, Millis, Outcome, StoreExt, Ttl};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{ask, redis};
use keystead_testkit::steps::increment;

use super::{Outcomes, add_1, count, in_time, key, open, server};

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_in_the_middle() {
    let Some(mut server) = server(&redis::REDIS_DURABLE).await else { return };
    for parameters in ["?deadline=800ms", "?deadline=800ms&atomic=watch"] {
        let url = format!("redis://{}{parameters}", server.site().addresses());
        let key = key(parameters);
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
                }
                outcomes
            }));
        }
        let store = open(&url);
        for _ in 0..3 {
            let before = count(&*store, &key).await;
            while count(&*store, &key).await < before + 50 {}
            server.kill().unwrap();
            server.restart().await.unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        let mut all = Outcomes::default();
        for worker in workers {
            let one = worker.await.unwrap();
            all.applied += one.applied;
            all.not_applied += one.not_applied;
            all.unknown += one.unknown;
        }
        assert!(all.applied >= 150, "{all:?}");
        assert!(all.not_applied + all.unknown > 0, "the kills were noticed: {all:?}");
        all.assert_exact(count(&*store, &key).await);
        println!("{parameters}: {all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_an_error_and_never_a_hang() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}?deadline=400ms", server.site().addresses()));
    let patient = open(&format!("redis://{}?deadline=40s", server.site().addresses()));
    let (key, limited) = (key("paused"), key("limited"));
    add_1(&*patient, &key).await.unwrap();
    server.pause().unwrap();
    let mut outcomes = Outcomes { applied: 1, ..Outcomes::default() };
    let strategy = FixedWindow::new(50, 3_600_000_000).unwrap();
    for _ in 0..3 {
        let result = in_time(400, add_1(&*store, &key)).await;
        assert_eq!(result.as_ref().unwrap_err().code(), Code::StoreUnavailable);
        outcomes.add(&result);
        // By a script.
        let check = Check { strategy, ask: Ask::units(1), at: None };
        let error = in_time(400, store.apply(&limited, &check)).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    }
    server.resume().unwrap();
    outcomes.assert_exact(count(&*patient, &key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    let Some(server) = server(&redis::REDIS).await else { return };
    for parameters in ["", "&atomic=watch"] {
        let proxy = Proxy::start(server.site().port()).await.unwrap();
        let store = open(&format!("redis://127.0.0.1:{}/0?deadline=40s{parameters}", proxy.port()));
        let key = key(parameters.strip_prefix('&').unwrap_or("script"));
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
        // A transaction is cut off before EXEC, so it is not applied; a script has run when its reply is lost.
        let settled_as_applied = if parameters.is_empty() { 10 } else { 0 };
        assert_eq!((outcomes.applied, outcomes.unknown), (20 + settled_as_applied, 0), "{outcomes:?}");
        outcomes.assert_exact(count(&*store, &key).await);
        println!("{parameters}: {outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_arrives_after_it_was_reported_not_applied_changes_nothing() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let store = open(&format!("redis://127.0.0.1:{}?deadline=800ms", proxy.port()));
    let direct = open(&format!("redis://{}", server.site().addresses()));
    let (existing, absent) = (key("existing"), key("absent"));
    add_1(&*store, &existing).await.unwrap();
    for (key, want) in [(&existing, 1), (&absent, 0)] {
        // Reads the key, so that the swap is the first call that is held.
        assert_eq!(count(&*store, key).await, want);
        proxy.hold_existing();
        let error = add_1(&*store, key).await.unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (Code::StoreUnavailable, Outcome::NotApplied),
            "{error:?}"
        );
        let received = commands(server.site().port()).await;
        proxy.release();
        // The late request reaches the server.
        while commands(server.site().port()).await < received + 2 {}
        assert_eq!(count(&*direct, key).await, want);
        add_1(&*direct, key).await.unwrap();
        assert_eq!(count(&*store, key).await, want + 1);
    }
}

/// How many scripts the server has run, by its own statistics.
async fn commands(port: u16) -> u64 {
    let info = ask(port, b"INFO stats\r\n").await;
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_script_cache_costs_one_more_round_trip_and_nothing_else() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}", server.site().addresses()));
    let (limited, counted) = (key("limited"), key("counted"));
    let strategy = FixedWindow::new(50, 3_600_000_000).unwrap();
    let mut allowed = 0;
    for i in 0..100 {
        if i % 10 == 5 {
            assert_eq!(ask(server.site().port(), b"SCRIPT FLUSH\r\n").await, b"+OK\r\n");
        }
        let check = Check { strategy, ask: Ask::units(1), at: Some(Millis(1_000)) };
        allowed += u32::from(store.apply(&limited, &check).await.unwrap().0.allowed);
        assert_eq!(add_1(&*store, &counted).await.unwrap(), i + 1);
    }
    assert_eq!(allowed, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_one_evalsha() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let store = open(&format!("redis://{}", server.site().addresses()));
    let (limited, strategy) = (key("limited"), FixedWindow::new(50, 3_600_000_000).unwrap());
    for _ in 0..100 {
        store.apply(&limited, &Check { strategy, ask: Ask::units(1), at: None }).await.unwrap();
    }
    let stats = ask(server.site().port(), b"INFO commandstats\r\n").await;
    let stats = String::from_utf8_lossy(&stats).into_owned();
    let calls = |name: &str| stats.lines().find_map(|line| line.strip_prefix(name)?.split(',').next());
    assert_eq!(calls("cmdstat_evalsha:calls="), Some("100"), "{stats}");
    assert_eq!(
        calls("cmdstat_eval:calls="),
        Some("1"),
        "the server did not have the script at first: {stats}"
    );
}

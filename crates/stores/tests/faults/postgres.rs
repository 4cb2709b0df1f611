//! PostgreSQL, by compare-and-set and under advisory locks.

use std::sync::Arc;

use keystead_core::{Code, Key, Stopwatch, Store, StoreExt, Ttl};
use keystead_stores::bounds::POSTGRES_SWEEP_EVERY;
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql};
use keystead_testkit::servers::{OwnServer, free_ports};
use keystead_testkit::steps::put;

use super::servers::{self, UrlOf, error_of};
use super::{Outcomes, add_1, count, key, open, server};

const CAS: UrlOf = |port, parameters| url(port, &format!("atomic=cas&{parameters}"));
const LOCK: UrlOf = |port, parameters| url(port, &format!("atomic=lock&{parameters}"));

fn url(port: u16, parameters: &str) -> String {
    format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres?{parameters}")
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_by_cas() {
    servers::killed_and_restarted(&POSTGRES, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_by_lock() {
    servers::killed_and_restarted(&POSTGRES, LOCK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled_by_cas() {
    servers::cut_off(&POSTGRES, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled_by_lock() {
    servers::cut_off(&POSTGRES, LOCK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_while_rows_are_written_together() {
    servers::killed_with_many_keys(&POSTGRES, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_cut_off_are_settled_for_rows_that_were_written_together() {
    servers::cut_off_with_many_keys(&POSTGRES, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported_by_cas() {
    servers::late(&POSTGRES, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported_by_lock() {
    servers::late(&POSTGRES, LOCK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted_and_both_ways_mix() {
    let Some(server) = server(&POSTGRES).await else { return };
    servers::concurrent(&server, CAS).await;
    let (cas, lock) = (open(&CAS(server.site().port(), "")), open(&LOCK(server.site().port(), "")));
    let key = key("mixed");
    let mut applies = tokio::task::JoinSet::new();
    for i in 0..200 {
        let (store, key) = (Arc::clone(if i % 2 == 0 { &cas } else { &lock }), key.clone());
        applies.spawn(async move { add_1(&*store, &key).await.unwrap() });
    }
    let mut seen = applies.join_all().await;
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
    assert_eq!(count(&*cas, &key).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_steps_at_a_time_share_statements() {
    let Some(server) = server(&POSTGRES).await else { return };
    let store = open(&CAS(server.site().port(), "deadline=30s"));
    let keys: Vec<_> = (0..64).map(|n| key(&format!("shared-{n}"))).collect();
    // Each transaction that writes has one.
    let number = || sql(server.site(), "SELECT pg_current_xact_id()").unwrap().parse::<u64>().unwrap();
    let before = number();
    for _ in 0..10 {
        let mut applies = tokio::task::JoinSet::new();
        for key in &keys {
            let (store, key) = (Arc::clone(&store), key.clone());
            applies.spawn(async move { add_1(&*store, &key).await.unwrap() });
        }
        applies.join_all().await;
    }
    let transactions = number() - before;
    assert!((10..320).contains(&transactions), "{transactions} transactions for 640 steps");
    for key in &keys {
        assert_eq!(count(&*store, key).await, 10);
    }
}

async fn started() -> Option<OwnServer> {
    server(&POSTGRES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_server_is_said_without_the_password() {
    let Some(server) = started().await else { return };
    let port = server.site().port();
    // Logins are slow in a build without optimisation.
    let error = error_of(&format!("postgres://postgres:hidden@127.0.0.1:{port}/postgres?deadline=30s")).await;
    assert!(error.message().contains("rejected the user name or password"), "{error}");
    let error = error_of(&format!("postgres://postgres@127.0.0.1:{port}/postgres")).await;
    assert!(error.message().contains("wants a password"), "{error}");
    let error =
        error_of(&format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/missing?deadline=30s")).await;
    assert!(error.message().contains("no database 'missing'"), "{error}");
    let error = error_of(&url(port, "sslmode=verify-full")).await;
    assert!(error.message().contains("sslmode=disable"), "{error}");
    let error = error_of(&url(port, "deadline=30s&table=nowhere.keystead")).await;
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains("cannot be created"), "{error}");
    sql(server.site(), "CREATE TABLE other (id int)").unwrap();
    let error = error_of(&url(port, "deadline=30s&table=other")).await;
    assert!(error.message().contains("is another one"), "{error}");
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&format!("postgres://postgres:hidden@127.0.0.1:{port}/postgres")).await;
    assert!(error.message().contains("cannot connect"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_gets_the_statement_that_its_owner_must_run() {
    let Some(server) = started().await else { return };
    let port = server.site().port();
    sql(server.site(), "CREATE ROLE reader LOGIN PASSWORD 'hidden'").unwrap();
    let error = error_of(&format!("postgres://reader:hidden@127.0.0.1:{port}/postgres?deadline=30s")).await;
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains("CREATE TABLE IF NOT EXISTS \"keystead\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_by_many_at_once_and_named_as_written() {
    let Some(server) = started().await else { return };
    let url = url(server.site().port(), "deadline=30s&table=public.My \"Limits\"");
    let mut opening = tokio::task::JoinSet::new();
    for i in 0..8 {
        let (store, key) = (open(&url), key(&format!("key-{i}")));
        opening.spawn(async move { add_1(&*store, &key).await.unwrap() });
    }
    assert_eq!(opening.join_all().await, [1; 8]);
    assert_eq!(sql(server.site(), "SELECT count(*) FROM \"My \"\"Limits\"\"\"").unwrap(), "8");
}

/// A user that may use the table `keystead`, and a store of it.
async fn writer(server: &OwnServer) -> Arc<dyn Store> {
    let port = server.site().port();
    count(&*open(&CAS(port, "deadline=30s")), &key("created")).await;
    sql(server.site(), "CREATE ROLE writer LOGIN PASSWORD 'writes'").unwrap();
    sql(server.site(), "GRANT SELECT, INSERT, UPDATE, DELETE ON keystead TO writer").unwrap();
    open(&format!("postgres://writer:writes@127.0.0.1:{port}/postgres?deadline=30s"))
}

/// 32 keys of which the store has the value at hand, and 32 of which it knows that they are absent: what is added to all of them at once
/// is updates and inserts that are sent together.
async fn known_keys(store: &dyn Store, round: &str) -> [Vec<Key>; 2] {
    let named = |kind| (0..32).map(|n| key(&format!("{round}-{kind}-{n}"))).collect::<Vec<_>>();
    let (cached, absent) = (named("cached"), named("absent"));
    for key in &cached {
        add_1(store, key).await.unwrap();
    }
    for key in &absent {
        assert_eq!(count(store, key).await, 0);
    }
    [cached, absent]
}

/// Adds 1 to all keys at once.
async fn add_to_all(store: &Arc<dyn Store>, keys: &[Vec<Key>; 2]) -> [Outcomes; 2] {
    let mut of_kinds = [Outcomes::default(); 2];
    // In turns, so that both kinds are in each batch.
    let turns = keys[0].iter().zip(&keys[1]).flat_map(|(cached, absent)| [(0, cached), (1, absent)]);
    let adding: Vec<_> = turns
        .map(|(kind, key)| {
            let (store, key) = (Arc::clone(store), key.clone());
            (kind, tokio::spawn(async move { add_1(&*store, &key).await }))
        })
        .collect();
    for (kind, added) in adding {
        of_kinds[kind].add(&added.await.unwrap());
    }
    of_kinds
}

async fn assert_counts(store: &dyn Store, keys: &[Key], expected: u64) {
    for key in keys {
        assert_eq!(count(store, key).await, expected, "{key}");
    }
}

/// Updates and inserts that are sent together are two transactions: that one fails says nothing about the other.
#[tokio::test]
async fn of_rows_that_are_sent_together_each_has_the_outcome_of_its_own_statement() {
    let Some(server) = started().await else { return };
    let store = writer(&server).await;
    let (all, none) = (
        Outcomes { applied: 32, ..Outcomes::default() },
        Outcomes { not_applied: 32, ..Outcomes::default() },
    );
    for (right, updated, inserted) in [("UPDATE", none, all), ("INSERT", all, none)] {
        let keys = known_keys(&*store, right).await;
        sql(server.site(), &format!("REVOKE {right} ON keystead FROM writer")).unwrap();
        assert_eq!(add_to_all(&store, &keys).await, [updated, inserted], "without the right to {right}");
        sql(server.site(), &format!("GRANT {right} ON keystead TO writer")).unwrap();
        assert_counts(&*store, &keys[0], 1 + updated.applied / 32).await;
        assert_counts(&*store, &keys[1], inserted.applied / 32).await;
    }
}

/// A statement that the server rolls back because it could not be serialized runs again, and nothing else does.
#[tokio::test]
async fn a_statement_that_lost_a_race_runs_again_alone() {
    let Some(server) = started().await else { return };
    let store = writer(&server).await;
    // A sequence is not rolled back, so each of these races is lost five times.
    for statement in [
        "CREATE SEQUENCE races",
        "GRANT USAGE ON SEQUENCE races TO writer",
        "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('races') <= 5 THEN RAISE EXCEPTION 'a lost race' USING ERRCODE = TG_ARGV[0]; END IF;
             RETURN NEW;
         END $$",
    ] {
        sql(server.site(), statement).unwrap();
    }
    for (statement, code) in [("UPDATE", "40001"), ("INSERT", "40P01")] {
        let keys = known_keys(&*store, statement).await;
        sql(server.site(), "SELECT setval('races', 1, false)").unwrap();
        sql(
            server.site(),
            &format!(
                "CREATE OR REPLACE TRIGGER lose BEFORE {statement} ON keystead FOR EACH ROW EXECUTE FUNCTION lose('{code}')"
            ),
        )
        .unwrap();
        let all = Outcomes { applied: 32, ..Outcomes::default() };
        assert_eq!(add_to_all(&store, &keys).await, [all, all], "{statement}");
        let lost: u64 = sql(server.site(), "SELECT last_value FROM races").unwrap().parse().unwrap();
        assert!(lost > 5, "the trigger ran {lost} times");
        sql(server.site(), "DROP TRIGGER lose ON keystead").unwrap();
        assert_counts(&*store, &keys[0], 2).await;
        assert_counts(&*store, &keys[1], 1).await;
    }
}

/// The sweeper of a store deletes rows that may be reclaimed, once a minute, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_may_be_reclaimed_are_deleted_and_no_others() {
    let Some(server) = started().await else { return };
    let store = open(&CAS(server.site().port(), "deadline=30s"));
    let hour = |n: u64| put(n, Ttl::Ms(3_600_000));
    for n in 0..3 {
        store.apply(&key(&format!("in-use-{n}")), &hour(n)).await.unwrap();
        add_1(&*store, &key(&format!("for-ever-{n}"))).await.unwrap();
        store.apply(&key(&format!("old-{n}")), &hour(n)).await.unwrap();
        add_1(&*store, &key(&format!("removed-{n}"))).await.unwrap();
        assert!(store.reset(&key(&format!("removed-{n}"))).await.unwrap());
    }
    // A state is kept for minutes after its end, and so is what was removed.
    let past = "UPDATE keystead SET reclaim_at = extract(epoch FROM clock_timestamp()) - 1 WHERE convert_from(key, 'UTF8') LIKE";
    sql(server.site(), &format!("{past} 'old-%'")).unwrap();
    let rows = || {
        sql(server.site(), "SELECT string_agg(convert_from(key, 'UTF8'), ' ' ORDER BY key) FROM keystead")
            .unwrap()
    };
    assert!(rows().contains("old-0"));
    let since = Stopwatch::start();
    while rows().contains("old-") {
        assert!(since.elapsed() < 4 * POSTGRES_SWEEP_EVERY, "{}", rows());
    }
    let kept =
        ["for-ever", "in-use", "removed"].map(|name| [0, 1, 2].map(|n| format!("{name}-{n}")).join(" "));
    assert_eq!(rows(), kept.join(" "));
    assert_eq!(count(&*store, &key("in-use-2")).await, 2);
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "postgres:localhost",
        "postgres://",
        "postgres://u:hidden@host:port/db",
        "postgres://u:hidden@a,b/db",
        "postgres://u:hidden%@localhost/db",
        "postgres://u:hidden@localhost/db?atomic=maybe",
        "postgres://u:hidden@localhost/db?table=a.b.c",
        "postgres://u:hidden@localhost/db?sslmode=prefer",
        "postgres://u:hidden@localhost/db?connections=0",
        "postgres://u:hidden@localhost/db?connections=1&atomic=lock",
        "postgres://u:hidden@localhost/db?deadline=1ms",
        "postgres://u:hidden@localhost/db?atomic=lock&deadline=1ms",
        "postgres://u:hidden@localhost/db?tables=x",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

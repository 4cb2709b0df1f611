//! PostgreSQL, by compare-and-set and under advisory locks.

use std::sync::Arc;

use keystead_core::Code;
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql};
use keystead_testkit::servers::{OwnServer, free_ports};

use super::servers::{self, UrlOf, error_of};
use super::{add_1, count, key, open, server};

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

//! PostgreSQL through PgBouncer, whose connections to the server change hands after each transaction.

use std::sync::Arc;

use keystead_core::{Error, Outcome, SystemClock};
use keystead_testkit::servers::pgbouncer::{PGBOUNCER, PGBOUNCER_SINGLE, PGBOUNCER_STATEMENT};
use keystead_testkit::servers::postgres::{PASSWORD, sql};

use super::servers::{self, UrlOf};
use super::{add_1, count, key, open, server};

const CAS: UrlOf = |port, parameters| url(port, &format!("atomic=cas&{parameters}"));
const LOCK: UrlOf = |port, parameters| url(port, &format!("atomic=lock&{parameters}"));

fn url(port: u16, parameters: &str) -> String {
    format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres?{parameters}")
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted_and_both_ways_mix() {
    let Some(server) = server(&PGBOUNCER).await else { return };
    let port = server.site().port();
    servers::concurrent(&server, CAS).await;
    let stores = [open(&CAS(port, "deadline=30s")), open(&LOCK(port, "deadline=30s"))];
    let key = key("mixed");
    let mut applies = tokio::task::JoinSet::new();
    for i in 0..200 {
        let (store, key) = (Arc::clone(&stores[i % 2]), key.clone());
        applies.spawn(async move { add_1(&*store, &key).await.unwrap() });
    }
    let mut seen = applies.join_all().await;
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
    assert_eq!(count(&*stores[0], &key).await, 200);
    // Nothing is left on connections that others use next.
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(sql(server.site(), left).unwrap(), "0");
    assert_eq!(sql(server.site(), "SELECT count(*) FROM pg_prepared_statements").unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_by_cas() {
    servers::killed_and_restarted(&PGBOUNCER, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_while_rows_are_written_together() {
    servers::killed_with_many_keys(&PGBOUNCER, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported_by_cas() {
    servers::late(&PGBOUNCER, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_by_lock() {
    servers::killed_and_restarted(&PGBOUNCER, LOCK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled_by_cas() {
    servers::cut_off(&PGBOUNCER, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled_by_lock() {
    servers::cut_off(&PGBOUNCER, LOCK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_cut_off_are_settled_for_rows_that_were_written_together() {
    servers::cut_off_with_many_keys(&PGBOUNCER, CAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported_by_lock() {
    servers::late(&PGBOUNCER, LOCK).await;
}

async fn error_of(url: &str) -> Error {
    let error = keystead_stores::connect(url, Arc::new(SystemClock)).await.err().unwrap();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    for password in ["hidden", PASSWORD] {
        assert!(!format!("{error:?}").contains(password), "{error:?}");
    }
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_one_connection_cannot_show_that_locks_exclude() {
    let Some(server) = server(&PGBOUNCER_SINGLE).await else { return };
    let port = server.site().port();
    let error = error_of(&LOCK(port, "deadline=4s")).await;
    assert!(error.message().contains("default_pool_size of PgBouncer"), "{error}");
    // What the check has begun does not block others.
    let store = open(&CAS(port, "deadline=30s"));
    assert_eq!(add_1(&*store, &key("single")).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statement_mode_serves_cas_and_rejects_locks() {
    let Some(server) = server(&PGBOUNCER_STATEMENT).await else { return };
    let port = server.site().port();
    servers::concurrent(&server, CAS).await;
    let error = error_of(&LOCK(port, "deadline=30s")).await;
    assert!(error.message().contains("use atomic=cas, or a pooler in transaction mode"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pgbouncer_rejects_is_reported_without_the_password() {
    let Some(server) = server(&PGBOUNCER).await else { return };
    let port = server.site().port();
    for (login, database, expected) in [
        ("postgres:hidden", "postgres", "rejected the user name or password"),
        ("nobody:hidden", "postgres", "rejected the"),
        (&format!("postgres:{PASSWORD}"), "missing", "missing"),
    ] {
        let error = error_of(&format!("postgres://{login}@127.0.0.1:{port}/{database}?deadline=30s")).await;
        assert!(error.message().contains(expected), "{error}");
    }
}

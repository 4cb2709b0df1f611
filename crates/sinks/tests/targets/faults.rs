//! Faults of SQL servers in the middle of batches: lost and late replies, kills. After each of them the position says whether the batch was
//! written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_core::{Code, Outcome};
use keystead_sinks::{Layout, Sink, Written, open};
use keystead_testkit::servers::postgres::{PASSWORD, POSTGRES, sql};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{OwnServer, Site};
use keystead_testkit::skip::found;
use serde_json::json;

use crate::cases::{batch, put, write};

/// A server with the table `t`.
pub(crate) struct Faulty {
    pub(crate) server: OwnServer,
    /// Of a port and parameters.
    pub(crate) sink: fn(u16, &str) -> Arc<dyn Sink>,
    pub(crate) sql: fn(&Site, &str) -> String,
    /// Whether its connections stop with it. Those of PostgreSQL are processes of their own, and are held by the proxy instead.
    pub(crate) pauses: bool,
}

pub(crate) async fn lost_replies(Faulty { server, sink, sql, pauses }: Faulty) {
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let sink = sink(proxy.port(), "?deadline=1s");
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    for traffic in [Traffic::RepliesLost, Traffic::RequestsLost, Traffic::Held] {
        proxy.set(traffic);
        let error = sink.write(&batch(2, vec![put("a", 2, json!(2))])).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{traffic:?} {error}");
        let error = sink.position().await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{traffic:?} {error}");
        proxy.set(Traffic::Forwarded);
    }
    assert_eq!(sink.position().await.unwrap().map(|position| position.batch), Some(1));
    assert_eq!(write(&*sink, 2, vec![put("a", 2, json!(2))]).await, Written::Done);
    match pauses {
        true => server.pause().unwrap(),
        false => proxy.set(Traffic::Held),
    }
    let error = sink.write(&batch(3, vec![put("a", 3, json!(3))])).await.unwrap_err();
    assert!(
        error.message().contains("did not reply within 1s") && error.outcome() == Outcome::Unknown,
        "{error}"
    );
    match pauses {
        true => server.resume().unwrap(),
        false => proxy.set(Traffic::Forwarded),
    }
    let next = sink.position().await.unwrap().unwrap().batch + 1;
    assert_eq!(write(&*sink, next, vec![put("a", next, json!(next))]).await, Written::Done);
    let found = sql(server.site(), "SELECT value, keystead_version, keystead_batch FROM t");
    assert_eq!(found, format!("{next}|{next}|{next}"));
}

/// Writes batches while the server is killed.
pub(crate) async fn kills(Faulty { mut server, sink, sql, .. }: Faulty) {
    let sink = sink(server.site().port(), "?deadline=3s");
    let done = Arc::new(AtomicBool::new(false));
    let writing = {
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            let (mut next, mut errors) = (1, 0);
            while !done.load(Ordering::Relaxed) {
                let rows = (0..200).map(|n| put(&format!("k{n:03}"), next, json!(next))).collect();
                match sink.write(&batch(next, rows)).await {
                    Ok(written) => {
                        assert_eq!(written, Written::Done, "batch {next}");
                        next += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
                        errors += 1;
                        let position = loop {
                            match sink.position().await {
                                Ok(position) => break position,
                                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                            }
                        };
                        let reached = position.map_or(0, |position| position.batch);
                        assert!(reached == next || reached == next - 1, "{reached} of {next}");
                        next = reached + 1;
                    }
                }
            }
            (next - 1, errors)
        })
    };
    for round in 0..5 {
        tokio::time::sleep(Duration::from_millis(300 + 37 * round)).await;
        server.restart().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    done.store(true, Ordering::Relaxed);
    let (last, errors) = writing.await.unwrap();
    assert!(errors > 0, "no kill met a batch");
    let all = "SELECT count(*), min(keystead_version), max(keystead_version), min(keystead_batch), max(keystead_batch) FROM t";
    assert_eq!(sql(server.site(), all), format!("200|{last}|{last}|{last}|{last}"));
    assert_eq!(sql(server.site(), "SELECT DISTINCT value FROM t"), last.to_string());
}

async fn postgres() -> Option<Faulty> {
    let server = found("postgres", OwnServer::start(&POSTGRES).await)?;
    let own = "keystead_version bigint NOT NULL DEFAULT 0, keystead_batch bigint NOT NULL DEFAULT 0";
    let create = format!("CREATE TABLE t (key text PRIMARY KEY, value jsonb, {own})");
    sql(server.site(), &create).unwrap();
    Some(Faulty { server, sink: postgres_sink, sql: |site, text| sql(site, text).unwrap(), pauses: false })
}

fn postgres_sink(port: u16, parameters: &str) -> Arc<dyn Sink> {
    let url = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres{parameters}");
    open(&url, Layout::whole("s", "", "t")).unwrap()
}

#[tokio::test]
async fn postgres_settles_lost_replies() {
    let Some(target) = postgres().await else { return };
    lost_replies(target).await;
}

/// The batch is in the target, and only its acknowledgement is lost: it is not written again.
#[tokio::test]
async fn postgres_has_a_batch_whose_acknowledgement_is_lost() {
    let Some(Faulty { server, sink, sql, .. }) = postgres().await else { return };
    let proxy = Proxy::start(server.site().port()).await.unwrap();
    let sink = sink(proxy.port(), "");
    assert_eq!(write(&*sink, 1, vec![put("a", 1, json!(1))]).await, Written::Done);
    proxy.lose_next(b"COMMIT\0");
    let lost = batch(2, vec![put("a", 2, json!(2))]);
    let error = sink.write(&lost).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::Unknown), "{error}");
    assert!(!proxy.is_to_lose() && proxy.cuts() == 1);
    assert_eq!(sink.position().await.unwrap(), Some(lost.next.clone()));
    assert_eq!(sink.write(&lost).await.unwrap(), Written::Fenced, "a second time");
    assert_eq!(sql(server.site(), "SELECT value, keystead_version, keystead_batch FROM t"), "2|2|2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_loses_and_repeats_nothing_when_killed_in_the_middle_of_batches() {
    let Some(target) = postgres().await else { return };
    kills(target).await;
}

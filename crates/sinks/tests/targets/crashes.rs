//! A writer that is gone at any moment of a batch: rows and position agree, and a writer whose position is outside of the transaction is
//! caught by the same check.

use std::time::Duration;

use keystead_sinks::{Layout, Values, Written};
use serde_json::json;

use crate::cases::{batch, create, put};
use crate::target::{self, Target};

const ROUNDS: u64 = 60;

/// Whether the last batch that the position names is the last one that has written a row. Every batch writes one.
fn agree(target: &Target) -> bool {
    let sql = "SELECT (SELECT max(batch) FROM keystead_sinks) IS NOT DISTINCT FROM (SELECT max(keystead_batch) FROM t)";
    target.sql(sql) == "t"
}

/// Writes batches and drops each after a while that covers all of its statements. Returns how often rows and position disagreed.
async fn crash(target: &Target, layout: Layout, is_broken: bool) -> u64 {
    let is_log = layout.values == Values::Events;
    match is_log {
        true => target.sink(layout.clone()).probe().await.unwrap(),
        false => create(target, &format!("value {}", target.json)),
    }
    // More rows than a statement takes, so that there is a middle.
    let rows = |n: u64| match is_log {
        true => (0..1_500).map(|at| crate::log::put(n * 1_500 + at, "k").into_row()).collect::<Vec<_>>(),
        false => (0..1_500).map(|key| put(&format!("k{key}"), n, json!(n))).collect::<Vec<_>>(),
    };
    let mut disagreed = 0;
    for round in 0..ROUNDS {
        let sink = target.sink(layout.clone());
        let at = sink.position().await.unwrap().map_or(0, |position| position.batch);
        let whole = batch(at + 1, rows(at + 1));
        let patience = Duration::from_millis(3 * round);
        if is_broken {
            // The position goes ahead in a transaction of its own.
            sink.write(&batch(at + 1, Vec::new())).await.unwrap();
            let mut late = batch(at + 2, whole.rows);
            late.next.batch = at + 2;
            let _ = tokio::time::timeout(patience / 8, sink.write(&late)).await;
        } else {
            let _ = tokio::time::timeout(patience, sink.write(&whole)).await;
        }
        drop(sink);
        disagreed += u64::from(!agree(target));
    }
    // What is left can be written: nobody has wedged the target.
    let sink = target.sink(layout);
    let at = sink.position().await.unwrap().map_or(0, |position| position.batch);
    assert_eq!(sink.write(&batch(at + 1, rows(at + 1))).await.unwrap(), Written::Done);
    disagreed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_position_agree_after_a_crash_at_any_moment() {
    let Some(target) = target::postgres().await else { return };
    assert_eq!(crash(&target, Layout::whole("s", "", "t"), false).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_outside_of_the_transaction_is_caught() {
    let Some(target) = target::postgres().await else { return };
    assert!(crash(&target, Layout::whole("s", "", "t"), true).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_position_agree_after_a_crash_at_any_moment() {
    let Some(target) = target::postgres().await else { return };
    assert_eq!(crash(&target, Layout::events("s", "", "t"), false).await, 0);
    // All events of a batch are there, or none: the last of the log is that of the last batch.
    let last = "SELECT (SELECT last_seq FROM keystead_logs) = (SELECT max(seq) FROM t) AND (SELECT count(*) % 1500 FROM t) = 0";
    assert_eq!(target.sql(last), "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_outside_of_the_transaction_of_events_is_caught() {
    let Some(target) = target::postgres().await else { return };
    assert!(crash(&target, Layout::events("s", "", "t"), true).await > 0);
}

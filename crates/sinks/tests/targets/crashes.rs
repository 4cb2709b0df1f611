//! A writer that is gone at any moment of a batch: rows and position agree, and a writer whose position is outside of the transaction is
//! caught by the same check.

use std::time::Duration;

use keystead_sinks::{Layout, Written};
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
async fn crash(target: &Target, is_broken: bool) -> u64 {
    create(target, &format!("value {}", target.json));
    // More rows than a statement takes, so that there is a middle.
    let rows = |n: u64| (0..1_500).map(|key| put(&format!("k{key}"), n, json!(n))).collect::<Vec<_>>();
    let mut disagreed = 0;
    for round in 0..ROUNDS {
        let sink = target.sink(Layout::whole("s", "", "t"));
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
    let sink = target.sink(Layout::whole("s", "", "t"));
    let at = sink.position().await.unwrap().map_or(0, |position| position.batch);
    assert_eq!(sink.write(&batch(at + 1, rows(at + 1))).await.unwrap(), Written::Done);
    disagreed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_position_agree_after_a_crash_at_any_moment() {
    let Some(target) = target::postgres().await else { return };
    assert_eq!(crash(&target, false).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_outside_of_the_transaction_is_caught() {
    let Some(target) = target::postgres().await else { return };
    assert!(crash(&target, true).await > 0);
}

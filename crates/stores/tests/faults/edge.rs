//! The worker of `edge/` under workerd: records in a Durable Object and on D1. Nothing exact can be expected of Workers KV.

use keystead_core::Code;
use keystead_testkit::servers::edge::{EDGE, TOKEN};
use keystead_testkit::servers::free_ports;

use super::server;
use super::servers::{self, UrlOf, error_of};

const OBJECT: UrlOf =
    |port, parameters| format!("durable-object+http://{TOKEN}@127.0.0.1:{port}?{parameters}");
const D1: UrlOf = |port, parameters| format!("d1+http://{TOKEN}@127.0.0.1:{port}?{parameters}");

#[tokio::test(flavor = "multi_thread")]
async fn an_object_killed_and_restarted() {
    servers::killed_and_restarted(&EDGE, OBJECT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_killed_and_restarted() {
    servers::killed_and_restarted(&EDGE, D1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_killed_and_restarted_while_rows_are_written_together() {
    servers::killed_with_many_keys(&EDGE, D1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    servers::cut_off(&EDGE, OBJECT).await;
    servers::cut_off(&EDGE, D1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported() {
    servers::late(&EDGE, OBJECT).await;
    servers::late(&EDGE, D1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted() {
    let Some(server) = server(&EDGE).await else { return };
    servers::concurrent(&server, OBJECT).await;
    servers::concurrent(&server, D1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_and_a_missing_worker_are_reported() {
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&format!("d1+http://hidden@127.0.0.1:{port}")).await;
    assert!(error.message().contains(&format!("cannot connect to 127.0.0.1:{port}")), "{error}");
    let Some(server) = server(&EDGE).await else { return };
    for place in ["durable-object", "d1", "workers-kv"] {
        let error = error_of(&format!("{place}+http://hidden@127.0.0.1:{}", server.site().port())).await;
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains("rejected the token"), "{error}");
    }
}

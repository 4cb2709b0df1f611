//! etcd.

use std::sync::Arc;

use keystead_core::{Code, SystemClock};
use keystead_testkit::servers::etcd::{ETCD, ETCD_SMALL, SMALL_BYTES};
use keystead_testkit::servers::{ask, free_ports};

use super::server;
use super::servers::{self, UrlOf, error_of};

const URL: UrlOf = |port, parameters| format!("etcd://127.0.0.1:{port}?{parameters}");

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted() {
    servers::killed_and_restarted(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused() {
    servers::paused(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    servers::cut_off(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted_while_swaps_are_sent_together() {
    servers::killed_with_many_keys(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_cut_off_are_settled_for_swaps_that_were_sent_together() {
    servers::cut_off_with_many_keys(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported() {
    servers::late(&ETCD, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted() {
    let Some(server) = server(&ETCD).await else { return };
    servers::concurrent(&server, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_beyond_the_bound_of_the_server_is_too_large() {
    servers::too_large(&ETCD_SMALL, URL, SMALL_BYTES).await;
}

async fn call(port: u16, path: &str, body: &str) {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let reply = ask(port, request.as_bytes()).await;
    assert!(reply.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_used_and_a_wrong_one_is_reported_without_the_password() {
    let Some(server) = server(&ETCD).await else { return };
    let port = server.site().port();
    call(port, "/v3/auth/user/add", r#"{"name":"root","password":"right"}"#).await;
    call(port, "/v3/auth/role/add", r#"{"name":"root"}"#).await;
    call(port, "/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#).await;
    call(port, "/v3/auth/enable", "{}").await;
    let error = error_of(&format!("etcd://root:hidden@127.0.0.1:{port}")).await;
    assert!(error.message().contains("rejected the user name or password"), "{error}");
    let error = error_of(&format!("etcd://127.0.0.1:{port}")).await;
    assert!(error.message().contains("rejected the user name or password"), "{error}");
    let url = format!("etcd://root:right@127.0.0.1:{port}");
    keystead_stores::connect(&url, Arc::new(SystemClock)).await.unwrap();
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&format!("etcd://root:hidden@127.0.0.1:{port}")).await;
    assert!(error.message().contains("cannot connect"), "{error}");
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "etcd:localhost",
        "etcd://",
        "etcd://u:hidden@host:port",
        "etcd://u:hidden@localhost/database",
        "etcd://u@localhost",
        "etcd://u:hidden@localhost?deadline=1ms",
        "etcd://u:hidden@localhost?ttl=1s",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

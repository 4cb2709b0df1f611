//! Deno KV: the real server, and one of the test that replies what the real one cannot be made to reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{Code, Outcome};
use keystead_testkit::servers::denokv::{DENOKV, TOKEN};
use keystead_testkit::servers::{free_ports, redis};

use super::fake::{response, serve};
use super::servers::{self, UrlOf, error_of};
use super::{add_1, key, open, server};

const URL: UrlOf = |port, parameters| format!("denokv://{TOKEN}@127.0.0.1:{port}?{parameters}");

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted() {
    servers::killed_and_restarted(&DENOKV, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused() {
    servers::paused(&DENOKV, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    servers::cut_off(&DENOKV, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported() {
    servers::late(&DENOKV, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted() {
    let Some(server) = server(&DENOKV).await else { return };
    servers::concurrent(&server, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_reported_without_it() {
    let Some(server) = server(&DENOKV).await else { return };
    let port = server.site().port();
    let error = error_of(&format!("denokv://hidden@127.0.0.1:{port}")).await;
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.message().contains("rejected the access token"), "{error}");
    let error = error_of(&format!("denokv://hidden@127.0.0.1:{port}/no/such/path")).await;
    assert!(error.message().contains("does not speak KV Connect"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_and_one_of_another_kind_are_reported() {
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&format!("denokv://hidden@127.0.0.1:{port}")).await;
    assert!(error.message().contains(&format!("cannot connect to 127.0.0.1:{port}")), "{error}");
    let Some(server) = server(&redis::REDIS).await else { return };
    let error = error_of(&format!("denokv://hidden@127.0.0.1:{}", server.site().port())).await;
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
}

fn metadata(version: u32, consistency: &str, expires_at: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"version":{version},"databaseId":"00000000-0000-0000-0000-000000000000","token":"hidden-too",
        "endpoints":[{{"url":"/v2","consistency":"{consistency}"}}],"expiresAt":"{expires_at}"}}"#
    );
    response("200 OK", "date: Wed, 18 Nov 2026 04:15:05 GMT\r\n", body.as_bytes())
}

const NEXT_DAY: &str = "2026-11-19T04:15:05Z";
/// A consistent read of a key that is absent.
const ABSENT: &[u8] = b"\x0a\x00\x20\x01\x40\x01";

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_cannot_be_used_is_reported() {
    for (reply, expected) in [
        (metadata(1, "strong", NEXT_DAY), "does not speak KV Connect from version 2"),
        (metadata(9, "strong", NEXT_DAY), "does not speak KV Connect from version 2"),
        (metadata(3, "eventual", NEXT_DAY), "no address for consistent reads"),
        (metadata(3, "strong", "tomorrow"), "does not speak KV Connect"),
        (response("200 OK", "", b"<html>"), "does not speak KV Connect"),
        (
            response("302 Found", "location: https://other.example/\r\n", b""),
            "redirects to https://other.example/",
        ),
        (response("503 Service Unavailable", "", b""), "replied 503"),
    ] {
        let port = serve(move |_| reply.clone()).await;
        let error = error_of(&format!("denokv://hidden@127.0.0.1:{port}")).await;
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains(expected), "{error}");
    }
}

/// A database in which nothing is, and that replies this to writes.
async fn replies_to_writes(reply: Vec<u8>) -> u16 {
    serve(move |head| match head {
        head if head.starts_with("post /v2/snapshot_read ") => response("200 OK", "", ABSENT),
        head if head.starts_with("post /v2/atomic_write ") => reply.clone(),
        _ => metadata(3, "strong", NEXT_DAY),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_write_is_not_applied_and_an_internal_error_is_unknown() {
    for (reply, outcome, expected) in [
        (response("400 Bad Request", "", b"read only"), Outcome::NotApplied, "400 Bad Request read only"),
        (response("429 Too Many Requests", "", b"quota"), Outcome::NotApplied, "429"),
        (response("401 Unauthorized", "", b""), Outcome::NotApplied, "rejected its own token"),
        (response("200 OK", "", b"\x08\x05"), Outcome::NotApplied, "does not serve writes"),
        (response("200 OK", "", b""), Outcome::Unknown, "did not report whether it has written"),
        (response("200 OK", "", b"<html>"), Outcome::Unknown, "a reply of another form"),
        (response("500 Internal Server Error", "", b"broken"), Outcome::Unknown, "500"),
    ] {
        let port = replies_to_writes(reply).await;
        let store = open(&format!("denokv://hidden@127.0.0.1:{port}?deadline=800ms"));
        let error = add_1(&*store, &key("a")).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, outcome), "{error:?}");
        assert!(error.message().contains(expected), "{error}");
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_may_be_stale_is_an_error() {
    for reply in [&b"\x0a\x00\x40\x01"[..], b"\x10\x01\x20\x01", b"\x20\x01\x40\x02"] {
        let port = serve(move |head| match head.starts_with("post /v2/snapshot_read ") {
            true => response("200 OK", "", reply),
            false => metadata(3, "strong", NEXT_DAY),
        })
        .await;
        let error = error_of(&format!("denokv://hidden@127.0.0.1:{port}")).await;
        assert!(error.message().contains("does not serve consistent reads"), "{error}");
    }
}

/// How often metadata was exchanged in ten reads, of which the second is rejected with 401 if `rejects`.
async fn exchanges(expires_at: &'static str, rejects: bool) -> u64 {
    let (exchanges, reads) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counted = Arc::clone(&exchanges);
    let port = serve(move |head| {
        if !head.starts_with("post /v2/snapshot_read ") {
            counted.fetch_add(1, Ordering::SeqCst);
            return metadata(2, "strong", expires_at);
        }
        match reads.fetch_add(1, Ordering::SeqCst) == 1 && rejects {
            true => response("401 Unauthorized", "", b"expired"),
            false => response("200 OK", "", ABSENT),
        }
    })
    .await;
    let store = open(&format!("denokv://hidden@127.0.0.1:{port}"));
    for _ in 0..10 {
        assert_eq!(super::count(&*store, &key("a")).await, 0);
    }
    exchanges.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_used_until_it_expires_or_is_rejected() {
    assert_eq!(exchanges(NEXT_DAY, false).await, 1);
    assert_eq!(exchanges(NEXT_DAY, true).await, 2);
    // It has expired by the server's own clock, so it is used by no other call than the one that got it.
    assert_eq!(exchanges("2026-11-18T04:15:05Z", false).await, 10);
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "denokv:localhost",
        "denokv://",
        "denokv://hidden@",
        "denokv://hidden@host:port",
        "denokv://hidden@a,b",
        "denokv://user:hidden@localhost",
        "denokv://hidden%0A@localhost",
        "denokv://hidden@localhost?tls=maybe",
        "denokv://hidden@localhost?deadline=1ms",
        "denokv://hidden@localhost?ttl=1s",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

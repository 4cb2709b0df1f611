//! NATS JetStream.

use keystead_core::Code;
use keystead_testkit::servers::free_ports;
use keystead_testkit::servers::nats::{NATS, NATS_SMALL, SMALL_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server;
use super::servers::{self, UrlOf, error_of};

const URL: UrlOf = |port, parameters| format!("nats://127.0.0.1:{port}/faults?{parameters}");

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted() {
    servers::killed_and_restarted(&NATS, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused() {
    servers::paused(&NATS, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    servers::cut_off(&NATS, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported() {
    servers::late(&NATS, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted() {
    let Some(server) = server(&NATS).await else { return };
    servers::concurrent(&server, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_beyond_the_bound_of_the_server_is_too_large() {
    servers::too_large(&NATS_SMALL, URL, SMALL_BYTES).await;
}

/// A bucket that already exists, with these settings.
async fn bucket(port: u16, name: &str, settings: &str) {
    let body = format!(
        "{{\"name\":\"KV_{name}\",\"subjects\":[\"$KV.{name}.>\"],\"max_msgs_per_subject\":1,{settings}}}"
    );
    let subject = format!("$JS.API.STREAM.CREATE.KV_{name}");
    let request = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB reply 1\r\nPUB {subject} reply {}\r\n{body}\r\nPING\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut reply, mut bytes) = (String::new(), [0; 4096]);
    while !reply.contains("MSG reply") {
        let len = stream.read(&mut bytes).await.unwrap();
        assert!(len > 0, "{reply}");
        reply.push_str(&String::from_utf8_lossy(&bytes[..len]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_would_lose_writes_is_rejected() {
    let Some(server) = server(&NATS).await else { return };
    let port = server.site().port();
    for (name, settings, why) in [
        ("memory", "\"storage\":\"memory\"", "storage: memory"),
        ("aging", "\"storage\":\"file\",\"max_age\":3600000000000", "max_age"),
        ("small", "\"storage\":\"file\",\"max_bytes\":1000000,\"discard\":\"old\"", "discard: old"),
    ] {
        bucket(port, name, settings).await;
        let error = error_of(&format!("nats://127.0.0.1:{port}/{name}")).await;
        assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
        assert!(error.message().contains(why), "{error}");
    }
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&format!("nats://somebody:hidden@127.0.0.1:{port}/x")).await;
    assert!(error.message().contains("cannot connect"), "{error}");
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "nats:localhost",
        "nats://",
        "nats://u:hidden@host:port",
        "nats://u:hidden@localhost/a.b",
        "nats://u:hidden@localhost/x?replicas=many",
        "nats://u:hidden@localhost/x?deadline=1ms",
        "nats://u:hidden@localhost/x?bucket=y",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

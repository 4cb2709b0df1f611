//! The servers' own expiry only reclaims space: a record may be deleted some minutes after its state has ended, never earlier, and one that
//! never ends stays.

use data_encoding::BASE64;
use keystead_core::bounds::STATE_BYTES_MAX;
use keystead_core::{Key, Store, StoreExt, Ttl};
use keystead_stores::bounds::RECLAIM_SLACK_MS;
use keystead_testkit::servers::{ask, etcd, nats, redis};
use keystead_testkit::steps::put;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{key, open, server};

const HOUR_MS: u64 = 3_600_000;

/// A key whose state ends in an hour, one whose state never ends, and one that was removed.
async fn three_keys(store: &dyn Store) -> [Key; 3] {
    let keys = [key("ends"), key("stays"), key("removed")];
    store.apply(&keys[0], &put(1u64, Ttl::Ms(HOUR_MS))).await.unwrap();
    store.apply(&keys[1], &put(1u64, Ttl::Ms(HOUR_MS))).await.unwrap();
    store.apply(&keys[1], &put(2u64, Ttl::Never)).await.unwrap();
    store.apply(&keys[2], &put(1u64, Ttl::Never)).await.unwrap();
    assert!(store.reset(&keys[2]).await.unwrap());
    keys
}

/// What is left to the records of the three keys, in milliseconds, where a server may take up to so many times as long.
#[track_caller]
fn assert_left([ends, stays, removed]: [Option<u64>; 3], times: u64) {
    // The machine may be slow: of an hour and some minutes at least half an hour is left.
    let left = HOUR_MS / 2 + RECLAIM_SLACK_MS..=times * (HOUR_MS + RECLAIM_SLACK_MS);
    assert!(ends.is_some_and(|ms| left.contains(&ms)), "{ends:?}");
    assert_eq!(stays, None);
    assert!(removed.is_some_and(|ms| ms <= times * RECLAIM_SLACK_MS), "{removed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_deletes_records_some_minutes_after_their_end() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let port = server.site().port();
    for atomic in ["script", "cas", "watch"] {
        let keys = three_keys(&*open(&format!("redis://127.0.0.1:{port}?atomic={atomic}"))).await;
        let mut left = [None; 3];
        for (key, left) in keys.iter().zip(&mut left) {
            let reply = ask(port, format!("PTTL {key}\r\n").as_bytes()).await;
            let ms: i64 = std::str::from_utf8(&reply[1..]).unwrap().trim().parse().unwrap();
            assert_ne!(ms, -2, "it is there");
            *left = u64::try_from(ms).ok();
        }
        assert_left(left, 1);
    }
}

async fn post(port: u16, path: &str, body: &str) -> Value {
    let len = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{response}"))
}

/// By leases, which several records share.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_deletes_records_some_minutes_after_their_end() {
    let Some(server) = server(&etcd::ETCD).await else { return };
    let port = server.site().port();
    let keys = three_keys(&*open(&format!("etcd://127.0.0.1:{port}?deadline=40s"))).await;
    let mut left = [None; 3];
    for (key, left) in keys.iter().zip(&mut left) {
        let name = BASE64.encode(key.as_bytes());
        let found = post(port, "/v3/kv/range", &format!(r#"{{"key":"{name}"}}"#)).await;
        assert_eq!(found["count"], "1", "{found}");
        let Some(lease) = found["kvs"][0]["lease"].as_str().filter(|lease| *lease != "0") else { continue };
        let lease = post(port, "/v3/lease/timetolive", &format!(r#"{{"ID":"{lease}"}}"#)).await;
        *left = lease["TTL"].as_str().and_then(|seconds| seconds.parse::<u64>().ok()).map(|s| s * 1000);
    }
    // Durations are rounded up to a power of two, and a lease lasts twice as long.
    assert_left(left, 4);
}

/// By a TTL of each message.
#[tokio::test(flavor = "multi_thread")]
async fn nats_deletes_records_some_minutes_after_their_end() {
    let Some(server) = server(&nats::NATS).await else { return };
    let port = server.site().port();
    let keys = three_keys(&*open(&format!("nats://127.0.0.1:{port}/reclaimed?deadline=40s"))).await;
    let mut left = [None; 3];
    for (key, left) in keys.iter().zip(&mut left) {
        let body = format!(r#"{{"last_by_subj":"$KV.reclaimed.{key}"}}"#);
        let request = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB reply 1\r\nPUB $JS.API.STREAM.MSG.GET.KV_reclaimed reply {}\r\n{body}\r\nPING\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut reply, mut bytes) = (String::new(), vec![0; STATE_BYTES_MAX]);
        while !reply.contains("\"seq\"") || !reply.ends_with("\r\n") {
            let len = stream.read(&mut bytes).await.unwrap();
            assert!(len > 0, "{reply}");
            reply.push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
        let message = reply.lines().find(|line| line.contains("\"seq\"")).unwrap();
        let message: Value = serde_json::from_str(message).unwrap();
        let headers = message["message"]["hdrs"].as_str().unwrap_or_default();
        let headers = String::from_utf8(BASE64.decode(headers.as_bytes()).unwrap()).unwrap();
        let ttl = headers.lines().find_map(|line| line.strip_prefix("Nats-TTL:"));
        *left = ttl.map(|ttl| ttl.trim().trim_end_matches('s').parse::<u64>().unwrap() * 1000);
    }
    // The TTL of a message is what it was when it was written.
    assert_left(left, 1);
}

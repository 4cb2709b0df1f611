//! Servers that say that they are too old: an error that says what is needed, before anything is asked of them.

use keystead_core::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fake::{response, serve};
use super::servers::error_of;

/// A server that sends `greeting`, then reads until a message ends with `end`, and sends `reply`.
async fn greets(greeting: Vec<u8>, end: &'static [u8], reply: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (greeting, reply) = (greeting.clone(), reply.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                stream.write_all(&greeting).await?;
                while !request.ends_with(end) {
                    if stream.read_buf(&mut request).await? == 0 {
                        return Ok(());
                    }
                }
                stream.write_all(&reply).await?;
                // The client ends the connection.
                while stream.read_buf(&mut request).await? > 0 {}
                Ok::<_, std::io::Error>(())
            });
        }
    });
    port
}

async fn nats(version: &str) -> u16 {
    let info = format!(
        r#"INFO {{"server_id":"A","server_name":"a","version":"{version}","go":"go1.19","host":"127.0.0.1","port":4222,"headers":true,"max_payload":1048576,"proto":1,"client_id":1,"jetstream":true}}"#
    );
    greets(format!("{info}\r\n").into_bytes(), b"PING\r\n", b"PONG\r\n".to_vec()).await
}

/// A message of PostgreSQL: its kind, its length, which counts itself, and the rest.
fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
    let len = 4 + rest.len() as u32;
    [&[kind][..], &len.to_be_bytes(), rest].concat()
}

/// It accepts any login.
async fn postgres(version: &str) -> u16 {
    let status = format!("server_version\0{version}\0");
    let reply = [
        message(b'R', &[0; 4]),
        message(b'S', status.as_bytes()),
        message(b'K', &[0; 8]),
        message(b'Z', b"I"),
    ];
    greets(Vec::new(), b"\0\0", reply.concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_old_is_reported_with_what_is_needed() {
    let nats_url = format!("nats://user:hidden@127.0.0.1:{}", nats("2.9.25").await);
    let postgres_url = format!("postgres://postgres:hidden@127.0.0.1:{}/postgres", postgres("9.6.24").await);
    for (url, expected) in [
        (nats_url, "is too old: it is 2.9.25, and this store needs 2.10 or later"),
        (postgres_url, "is too old: it is 9.6.24, and this store needs 12.0 or later"),
    ] {
        let error = error_of(&url).await;
        assert_eq!(error.code(), Code::Unsupported, "{error}");
        assert!(error.message().contains(expected), "{error}");
    }
}

/// Before etcd 3.4 the gateway had other paths.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_without_the_paths_of_3_4_is_reported() {
    let port = serve(|_| response("404 Not Found", "", b"404 page not found\n")).await;
    let error = error_of(&format!("etcd://127.0.0.1:{port}")).await;
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.message().contains("is no etcd from version 3.4"), "{error}");
}

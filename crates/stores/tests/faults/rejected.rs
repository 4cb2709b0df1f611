//! Wrong passwords, wrong servers and wrong URLs: an error that says what to do, without the password.

use keystead_core::Code;
use keystead_testkit::servers::{free_ports, redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::server;
use super::servers::error_of;

#[tokio::test]
async fn a_wrong_password_is_reported_without_it() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let error = error_of(&format!("redis://somebody:hidden@{}", server.site().addresses())).await;
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.message().contains("rejected the user name or password"), "{error}");
}

#[tokio::test]
async fn a_server_alone_is_no_cluster() {
    let Some(server) = server(&redis::REDIS).await else { return };
    let error = error_of(&format!("redis+cluster://{}", server.site().addresses())).await;
    assert!(error.message().contains("write redis://"), "{error}");
}

#[tokio::test]
async fn a_missing_server_is_reported_at_once() {
    let port = free_ports(1).unwrap()[0];
    for scheme in ["redis", "redis+cluster", "upstash+http"] {
        let error = error_of(&format!("{scheme}://:hidden@127.0.0.1:{port}")).await;
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.message().contains(&format!("cannot connect to 127.0.0.1:{port}")), "{error}");
    }
}

#[tokio::test]
async fn a_server_of_another_kind_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 64];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n").await;
        }
    });
    let error = error_of(&format!("redis://:hidden@{address}")).await;
    assert!(error.message().contains("does not speak RESP"), "{error}");
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "redis:localhost",
        "redis://",
        "redis://:hidden@host:port",
        "redis://:hidden@localhost/first",
        "redis://:hidden@a,b",
        "redis://:hidden%@localhost",
        "redis://:hidden@localhost?atomic=maybe",
        "redis://:hidden@localhost?clock=sun",
        "redis://:hidden@localhost?deadline=1ms",
        "redis://:hidden@localhost?atomics=watch",
        "redis+cluster://:hidden@localhost/3",
        "upstash+http://hidden@localhost?atomic=watch",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

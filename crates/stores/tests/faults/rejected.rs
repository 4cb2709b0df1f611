//! Wrong passwords, wrong servers and wrong URLs: an error that says what to do, without the password.

use keystead_core::{Code, Outcome, StoreExt};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_testkit::servers::{ask, free_ports, redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::servers::error_of;
use super::{add_1, key, open, server};

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
async fn a_node_of_a_cluster_is_no_server_alone() {
    let Some(server) = server(&redis::REDIS_CLUSTER).await else { return };
    let mut rejected = 0;
    for port in &server.site().ports {
        for parameters in ["", "&atomic=cas", "&atomic=watch"] {
            let store = open(&format!("redis://127.0.0.1:{port}?deadline=10s{parameters}"));
            // The node has some of the keys.
            for n in 0..20 {
                let Err(error) = add_1(&*store, &key(&format!("{n}"))).await else { continue };
                assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
                assert!(error.message().contains("the URL needs redis+cluster://"), "{error}");
                rejected += 1;
            }
        }
    }
    assert!(rejected >= 60, "{rejected} of 180");
}

#[tokio::test]
async fn a_replica_is_no_primary() {
    let (Some(primary), Some(replica)) = (server(&redis::REDIS).await, server(&redis::REDIS).await) else {
        return;
    };
    let port = replica.site().port();
    ask(port, format!("REPLICAOF 127.0.0.1 {}\r\n", primary.site().port()).as_bytes()).await;
    while !String::from_utf8_lossy(&ask(port, b"INFO replication\r\n").await)
        .contains("master_link_status:up")
    {}
    for parameters in ["", "&atomic=cas", "&atomic=watch"] {
        let store = open(&format!("redis://127.0.0.1:{port}?deadline=10s{parameters}"));
        let check = Check { strategy: FixedWindow::new(5, 60_000).unwrap(), ask: Ask::units(1), at: None };
        let by_script = store.apply(&key("limited"), &check).await.unwrap_err();
        let by_swap = add_1(&*store, &key("counted")).await.unwrap_err();
        for error in [by_script, by_swap] {
            assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::NotApplied));
            assert!(error.message().contains("use the address of its primary"), "{error}");
        }
    }
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

//! The stores with TLS: one row each, and what all of them are put through.

use keystead_testkit::servers::certificates::{AUTHORITY, OTHER_AUTHORITY};
#[cfg(feature = "denokv")]
use keystead_testkit::servers::denokv;
#[cfg(feature = "dynamodb")]
use keystead_testkit::servers::dynamodb;
#[cfg(feature = "cloudflare")]
use keystead_testkit::servers::edge;
#[cfg(feature = "etcd")]
use keystead_testkit::servers::etcd;
#[cfg(feature = "nats")]
use keystead_testkit::servers::nats;
#[cfg(feature = "postgres")]
use keystead_testkit::servers::postgres;
use keystead_testkit::servers::{Kind, OwnServer};
#[cfg(feature = "redis")]
use keystead_testkit::servers::{keystead, redis};
use keystead_testkit::{Checked, Failure};
use tokio::net::TcpListener;

use super::front::Front;
use super::{SHORT_MS, assert_rejected, opened_by_one_that_trusts};

/// A store with TLS.
pub(crate) struct Case {
    /// Its name in tests and in `REQUIRE=`.
    pub(crate) label: &'static str,
    /// The server with TLS on its first port; or one without any, which then gets a front that has it.
    pub(crate) encrypted: &'static Kind,
    /// A server that has no TLS on its first port.
    pub(crate) plain: &'static Kind,
    /// The URL of a host and a port, with these further parameters.
    pub(crate) url: fn(host: &str, port: u16, parameters: &str) -> String,
    /// The URL of somebody who forgot TLS.
    pub(crate) without: fn(port: u16) -> String,
    /// What they get. A NATS server asks for TLS by itself, so that its clients do not forget it.
    pub(crate) forgotten: Option<&'static str>,
    /// What a server without TLS is.
    pub(crate) no_tls: &'static str,
}

const NO_TLS: &str = "does not speak TLS on this port";

/// All of them.
pub(crate) static CASES: &[Case] = &[
    #[cfg(feature = "redis")]
    Case {
        label: "redis",
        encrypted: &redis::REDIS_TLS,
        plain: &redis::REDIS,
        url: |host, port, more| format!("rediss://:{}@{host}:{port}?{more}", redis::PASSWORD),
        without: |port| format!("redis://:{}@127.0.0.1:{port}", redis::PASSWORD),
        forgotten: Some("write rediss://"),
        // A Redis server waits for the end of what it takes for a line.
        no_tls: "if it does not speak TLS on this port, write redis://",
    },
    #[cfg(feature = "postgres")]
    Case {
        label: "postgres",
        encrypted: &postgres::POSTGRES_TLS,
        plain: &postgres::POSTGRES,
        url: |host, port, more| {
            let login = format!("postgres:{}", postgres::PASSWORD);
            format!("postgres://{login}@{host}:{port}/postgres?sslmode=verify-full&{more}")
        },
        without: |port| format!("postgres://postgres:{}@127.0.0.1:{port}/postgres", postgres::PASSWORD),
        forgotten: Some("wants TLS: add sslmode=verify-full"),
        no_tls: "a server without TLS needs sslmode=disable",
    },
    #[cfg(feature = "nats")]
    Case {
        label: "nats",
        encrypted: &nats::NATS_TLS,
        plain: &nats::NATS,
        url: |host, port, more| {
            let [user, password] = nats::LOGIN;
            format!("nats://{user}:{password}@{host}:{port}/tests?tls=true&{more}")
        },
        without: |port| format!("nats://{}:{}@127.0.0.1:{port}/tests", nats::LOGIN[0], nats::LOGIN[1]),
        forgotten: None,
        no_tls: NO_TLS,
    },
    #[cfg(feature = "etcd")]
    Case {
        label: "etcd",
        encrypted: &etcd::ETCD_TLS,
        plain: &etcd::ETCD,
        url: |host, port, more| format!("etcd://{host}:{port}?tls=true&{more}"),
        without: |port| format!("etcd://127.0.0.1:{port}"),
        forgotten: Some("tls=true"),
        no_tls: NO_TLS,
    },
    #[cfg(feature = "redis")]
    Case {
        label: "upstash",
        encrypted: &keystead::KEYSTEAD,
        plain: &keystead::KEYSTEAD,
        url: |host, port, more| format!("upstash+https://{}@{host}:{port}?{more}", keystead::TOKEN),
        without: |port| format!("upstash+http://{}@127.0.0.1:{port}", keystead::TOKEN),
        forgotten: Some("if the server wants TLS, the URL must say so (upstash+https://"),
        no_tls: NO_TLS,
    },
    #[cfg(feature = "dynamodb")]
    Case {
        label: "dynamodb",
        encrypted: &dynamodb::DYNAMODB,
        plain: &dynamodb::DYNAMODB,
        url: |host, port, more| {
            let endpoint = format!("endpoint=https://{host}:{port}");
            format!("dynamodb://id:secret@tests?region=eu-west-1&create=true&{endpoint}&{more}")
        },
        without: |port| {
            format!("dynamodb://id:secret@tests?region=eu-west-1&endpoint=http://127.0.0.1:{port}")
        },
        forgotten: Some("if the server wants TLS"),
        no_tls: NO_TLS,
    },
    #[cfg(feature = "denokv")]
    Case {
        label: "denokv",
        encrypted: &denokv::DENOKV,
        plain: &denokv::DENOKV,
        url: |host, port, more| format!("denokv://{}@{host}:{port}?tls=true&{more}", denokv::TOKEN),
        without: |port| format!("denokv://{}@127.0.0.1:{port}", denokv::TOKEN),
        forgotten: Some("if the server wants TLS"),
        no_tls: NO_TLS,
    },
    // The others on the worker differ in the path of their requests only.
    #[cfg(feature = "cloudflare")]
    Case {
        label: "edge",
        encrypted: &edge::EDGE,
        plain: &edge::EDGE,
        url: |host, port, more| format!("d1+https://{}@{host}:{port}?{more}", edge::TOKEN),
        without: |port| format!("d1+http://{}@127.0.0.1:{port}", edge::TOKEN),
        forgotten: Some("if the server wants TLS"),
        // workerd waits for the end of what it takes for a request.
        no_tls: "did not reply within",
    },
];

pub(crate) async fn certificates_are_checked(case: &'static Case) -> Checked {
    let server = OwnServer::start(case.encrypted).await.map_err(Failure::new)?;
    let front = match std::ptr::eq(case.encrypted, case.plain) {
        true => Some(Front::start(server.site()).await?),
        false => None,
    };
    let port = front.as_ref().map_or(server.site().port(), Front::port);
    let other = match &front {
        None => Some(OwnServer::start(case.plain).await.map_err(Failure::new)?),
        Some(_) => None,
    };
    let plain = other.as_ref().unwrap_or(&server).site().port();
    // It accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let silent_port = silent.local_addr()?.port();
    let (long, short) = ("deadline=30s", format!("deadline={SHORT_MS}ms"));
    let urls = [
        (case.url)("127.0.0.1", port, long),
        (case.url)("localhost", port, long),
        (case.url)("127.0.0.1", plain, "deadline=5s"),
        (case.url)("127.0.0.1", silent_port, &short),
        (case.without)(port),
        (case.url)("127.0.0.1", port, long).replace("-of-the-tests", "-that-is-wrong"),
    ];
    let has_login = urls[5] != urls[0];
    let right = (case.url)("127.0.0.1", port, long);
    let dir = server.site().dir.clone();
    let (opened, untrusted) = tokio::task::spawn_blocking(move || {
        let opened = opened_by_one_that_trusts(&dir.join(AUTHORITY), &urls)?;
        let untrusted = opened_by_one_that_trusts(&dir.join(OTHER_AUTHORITY), &[right])?;
        Ok::<_, Failure>((opened, untrusted))
    })
    .await??;
    if opened[0]["count"] != 3 {
        return Err(Failure::new(format_args!("the right certificate: {}", opened[0])));
    }
    assert_rejected("another name", &opened[1], "write a name of the certificate in the URL")?;
    assert_rejected("no TLS", &opened[2], case.no_tls)?;
    assert_rejected("silence", &opened[3], &silent_port.to_string())?;
    let ms = opened[3]["ms"].as_u64().unwrap_or(u64::MAX);
    if ms > SHORT_MS + 1_000 {
        return Err(Failure::new(format_args!("an error after {ms} ms at a deadline of {SHORT_MS} ms")));
    }
    if has_login {
        assert_rejected("a wrong login", &opened[5], "rejected the")?;
    }
    match case.forgotten {
        Some(expected) => assert_rejected("forgotten TLS", &opened[4], expected)?,
        None if opened[4]["count"] == 3 => {}
        None => return Err(Failure::new(format_args!("forgotten TLS: {}", opened[4]))),
    }
    assert_rejected("an issuer that is not trusted", &untrusted[0], "set SSL_CERT_FILE to its file")
}

#[cfg(feature = "redis")]
pub(crate) async fn a_client_certificate_is_asked_for() -> Checked {
    let server = OwnServer::start(&redis::REDIS_MUTUAL_TLS).await.map_err(Failure::new)?;
    let url = format!("rediss://:{}@127.0.0.1:{}", redis::PASSWORD, server.site().port());
    let authority = server.site().dir.join(AUTHORITY);
    let opened = tokio::task::spawn_blocking(move || opened_by_one_that_trusts(&authority, &[url])).await??;
    assert_rejected("a client without a certificate", &opened[0], "set tls-auth-clients no")
}

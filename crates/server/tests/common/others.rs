//! Servers of other projects in tests: started, killed and restarted from threads without a runtime.

#![allow(dead_code, reason = "each test file uses its part of this")]

use keystead_testkit::servers::{Kind, OwnServer, Site, dynamodb, etcd, nats, postgres, redis};
use keystead_testkit::skip::found;
use tokio::runtime::Runtime;

/// A server of one test, with the URL of a store on it.
pub(crate) struct Other {
    server: OwnServer,
    runtime: Runtime,
    url: fn(&Site) -> String,
}

/// A kind of server that stores are tested on.
#[derive(Clone, Copy)]
pub(crate) struct OtherKind {
    pub(crate) kind: &'static Kind,
    url: fn(&Site) -> String,
}

pub(crate) const REDIS: OtherKind =
    OtherKind { kind: &redis::REDIS_DURABLE, url: |site| format!("redis://{}/0", site.addresses()) };

pub(crate) const VALKEY: OtherKind =
    OtherKind { kind: &redis::VALKEY, url: |site| format!("redis://{}/0", site.addresses()) };

/// Its certificate is of an authority in its [directory](Other::dir).
pub(crate) const REDIS_TLS: OtherKind = OtherKind {
    kind: &redis::REDIS_TLS,
    url: |site| format!("rediss://:{}@127.0.0.1:{}/0", redis::PASSWORD, site.port()),
};

pub(crate) const POSTGRES: OtherKind = OtherKind {
    kind: &postgres::POSTGRES,
    url: |site| format!("postgres://postgres:{}@{}/postgres", postgres::PASSWORD, site.addresses()),
};

pub(crate) const ETCD: OtherKind =
    OtherKind { kind: &etcd::ETCD, url: |site| format!("etcd://127.0.0.1:{}", site.port()) };

pub(crate) const DYNAMODB: OtherKind = OtherKind {
    kind: &dynamodb::DYNAMODB,
    url: |site| {
        let endpoint = format!("endpoint=http://127.0.0.1:{}", site.port());
        format!("dynamodb://id:{SECRET}@tests?region=eu-west-1&{endpoint}&create=true")
    },
};

pub(crate) const NATS: OtherKind =
    OtherKind { kind: &nats::NATS, url: |site| format!("nats://127.0.0.1:{}/tests", site.port()) };

/// Three nodes.
pub(crate) const CLUSTER: OtherKind =
    OtherKind { kind: &redis::REDIS_CLUSTER, url: |site| format!("redis+cluster://{}", site.addresses()) };

/// The same with nodes that keep what they have acknowledged when they are killed.
const DURABLE_CLUSTER: OtherKind = OtherKind { kind: &redis::REDIS_CLUSTER_DURABLE, ..CLUSTER };

/// The secret of the credentials in the URL.
const SECRET: &str = "a-secret-of-the-tests";

/// A script, and a row: for what a store only keeps.
pub(crate) const TWO: [OtherKind; 2] = [REDIS, POSTGRES];

/// Every way in which a step reaches a server.
pub(crate) const ALL: [OtherKind; 6] = [REDIS, POSTGRES, DURABLE_CLUSTER, ETCD, NATS, DYNAMODB];

/// Fails if a text has the password or secret of one of them.
#[track_caller]
pub(crate) fn assert_no_password(text: &str) {
    for secret in [postgres::PASSWORD, redis::PASSWORD, SECRET] {
        assert!(!text.contains(secret), "{text}");
    }
}

impl OtherKind {
    /// A server of this kind, or `None` if it is not installed and not required.
    pub(crate) fn start(self) -> Option<Other> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = found(self.kind.name, runtime.block_on(OwnServer::start(self.kind)))?;
        Some(Other { server, runtime, url: self.url })
    }
}

impl Other {
    /// The URL of a store on it. The database of the tests may be slow, but it must not be taken for one that is stuck.
    pub(crate) fn url(&self) -> String {
        self.url_with("deadline=20s")
    }

    pub(crate) fn url_with(&self, parameters: &str) -> String {
        let url = (self.url)(self.server.site());
        format!("{url}{}{parameters}", if url.contains('?') { '&' } else { '?' })
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.server.kill().unwrap();
    }

    /// Starts it again with its data.
    pub(crate) fn restart(&mut self) {
        self.runtime.block_on(self.server.restart()).unwrap();
    }

    /// Makes it accept connections and reply to nothing.
    pub(crate) fn pause(&self) {
        self.server.pause().unwrap();
    }

    /// Makes it go on.
    pub(crate) fn resume(&self) {
        self.server.resume().unwrap();
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &std::path::Path {
        &self.server.site().dir
    }

    /// Its ports.
    pub(crate) fn ports(&self) -> &[u16] {
        &self.server.site().ports
    }
}

//! Stores on the real servers of a test run: one line each.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Store};
use keystead_testkit::runner::within;
#[cfg(feature = "denokv")]
use keystead_testkit::servers::denokv;
#[cfg(feature = "dynamodb")]
use keystead_testkit::servers::dynamodb;
#[cfg(feature = "cloudflare")]
use keystead_testkit::servers::edge;
#[cfg(feature = "etcd")]
use keystead_testkit::servers::etcd;
#[cfg(feature = "sqlite-file")]
use keystead_testkit::servers::file;
#[cfg(feature = "nats")]
use keystead_testkit::servers::nats;
use keystead_testkit::servers::{Kind, SharedServer, Site};
#[cfg(feature = "redis")]
use keystead_testkit::servers::{keystead, redis};
#[cfg(feature = "postgres")]
use keystead_testkit::servers::{pgbouncer, postgres};
use keystead_testkit::{Checked, NotOpened};
use libtest_mimic::{Failed, Trial};

/// A store, and what must stay as long as it is used.
pub(crate) struct Opened {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The server it is on.
    pub(crate) _server: SharedServer,
}

/// A way to open a store on a server of this machine.
#[derive(Clone, Copy)]
pub(crate) struct OnServer {
    /// Its label in test names. The first word is its family.
    pub(crate) label: &'static str,
    /// The server.
    pub(crate) kind: &'static Kind,
    /// The URL on that server.
    pub(crate) url: fn(&Site) -> String,
}

/// These tests are about results, also on a machine that has no time for them.
const DEADLINE: &str = "deadline=40s";

/// Every store on a server.
pub(crate) static ON_SERVERS: &[OnServer] = &[
    #[cfg(feature = "redis")]
    OnServer { label: "redis, script", kind: &redis::REDIS, url: |site| redis_url(site, "script", "client") },
    #[cfg(feature = "redis")]
    OnServer { label: "redis, cas", kind: &redis::REDIS, url: |site| redis_url(site, "cas", "client") },
    #[cfg(feature = "redis")]
    OnServer { label: "redis, watch", kind: &redis::REDIS, url: |site| redis_url(site, "watch", "client") },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis, server clock",
        kind: &redis::REDIS,
        url: |site| redis_url(site, "script", "server"),
    },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis, cas, server clock",
        kind: &redis::REDIS,
        url: |site| redis_url(site, "cas", "server"),
    },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis, watch, server clock",
        kind: &redis::REDIS,
        url: |site| redis_url(site, "watch", "server"),
    },
    #[cfg(feature = "redis")]
    OnServer { label: "valkey", kind: &redis::VALKEY, url: |site| redis_url(site, "script", "client") },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis-cluster",
        kind: &redis::REDIS_CLUSTER,
        url: |site| format!("redis+cluster://{}?{DEADLINE}", site.addresses()),
    },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis-cluster, watch",
        kind: &redis::REDIS_CLUSTER,
        url: |site| format!("redis+cluster://{}?atomic=watch&{DEADLINE}", site.addresses()),
    },
    #[cfg(feature = "redis")]
    OnServer {
        label: "redis-cluster, server clock",
        kind: &redis::REDIS_CLUSTER,
        url: |site| format!("redis+cluster://{}?clock=server&{DEADLINE}", site.addresses()),
    },
    #[cfg(feature = "redis")]
    OnServer {
        label: "upstash, of keystead",
        kind: &keystead::KEYSTEAD,
        url: |site| format!("upstash+http://{}@127.0.0.1:{}?{DEADLINE}", keystead::TOKEN, site.port()),
    },
    #[cfg(feature = "postgres")]
    OnServer {
        label: "postgres, cas",
        kind: &postgres::POSTGRES,
        url: |site| postgres_url(site, "?deadline=30s"),
    },
    #[cfg(feature = "postgres")]
    OnServer {
        label: "postgres, lock",
        kind: &postgres::POSTGRES,
        url: |site| postgres_url(site, "?atomic=lock&deadline=30s"),
    },
    #[cfg(feature = "postgres")]
    OnServer {
        label: "pgbouncer, cas",
        kind: &pgbouncer::PGBOUNCER,
        url: |site| postgres_url(site, "?deadline=30s"),
    },
    #[cfg(feature = "postgres")]
    OnServer {
        label: "pgbouncer, lock",
        kind: &pgbouncer::PGBOUNCER,
        url: |site| postgres_url(site, "?atomic=lock&deadline=30s"),
    },
    #[cfg(feature = "dynamodb")]
    OnServer { label: "dynamodb", kind: &dynamodb::DYNAMODB, url: dynamodb_url },
    #[cfg(feature = "dynamodb")]
    OnServer { label: "dynalite", kind: &dynamodb::DYNALITE, url: dynamodb_url },
    #[cfg(feature = "denokv")]
    OnServer {
        label: "denokv",
        kind: &denokv::DENOKV,
        url: |site| format!("denokv://{}@127.0.0.1:{}?{DEADLINE}", denokv::TOKEN, site.port()),
    },
    #[cfg(feature = "sqlite-file")]
    OnServer {
        label: "sqlite-file",
        kind: &file::FILE,
        url: |site| format!("sqlite-file:{}?{DEADLINE}", site.dir.join("records.db").display()),
    },
    #[cfg(feature = "nats")]
    OnServer { label: "nats", kind: &nats::NATS, url: |site| format!("nats://{}/tests", site.addresses()) },
    #[cfg(feature = "etcd")]
    OnServer {
        label: "etcd",
        kind: &etcd::ETCD,
        // It syncs every write to disk: slow where others use the disk.
        url: |site| format!("etcd://127.0.0.1:{}?deadline=60s", site.port()),
    },
    #[cfg(feature = "cloudflare")]
    OnServer {
        label: "durable-object, edge",
        kind: &edge::EDGE,
        url: |site| edge_url(site, "durable-object"),
    },
    #[cfg(feature = "cloudflare")]
    OnServer { label: "d1, edge", kind: &edge::EDGE, url: |site| edge_url(site, "d1") },
    #[cfg(feature = "cloudflare")]
    OnServer { label: "workers-kv, edge", kind: &edge::EDGE, url: |site| edge_url(site, "workers-kv") },
];

#[cfg(feature = "cloudflare")]
fn edge_url(site: &Site, place: &str) -> String {
    format!("{place}+http://{}@127.0.0.1:{}/tests?{DEADLINE}", edge::TOKEN, site.port())
}

#[cfg(feature = "postgres")]
fn postgres_url(site: &Site, parameters: &str) -> String {
    format!("postgres://postgres:{}@127.0.0.1:{}/postgres{parameters}", postgres::PASSWORD, site.port())
}

#[cfg(feature = "dynamodb")]
fn dynamodb_url(site: &Site) -> String {
    let endpoint = format!("endpoint=http://127.0.0.1:{}", site.port());
    format!("dynamodb://id:secret@tests?region=eu-west-1&{endpoint}&create=true&{DEADLINE}")
}

#[cfg(feature = "redis")]
fn redis_url(site: &Site, atomic: &str, clock: &str) -> String {
    format!("redis://{}/0?atomic={atomic}&clock={clock}&{DEADLINE}", site.addresses())
}

impl OnServer {
    /// Whether its steps are not atomic, so that nothing about concurrent ones can be expected.
    pub(crate) fn is_approximate(&self) -> bool {
        self.label.starts_with("workers-kv")
    }

    /// Opens the store on the server that all processes of the run share.
    pub(crate) async fn open(&self, clock: Arc<dyn Clock>) -> Result<Opened, NotOpened> {
        let server = SharedServer::get(self.kind).await?;
        let store = keystead_stores::connect(&(self.url)(server.site()), clock).await?;
        Ok(Opened { store, _server: server })
    }
}

/// A test of one store, `LABEL::NAME`. It is skipped if the server is missing and not required, and if the store is `unfit` for it.
pub(crate) fn trial<F>(
    on_server: &'static OnServer,
    name: &str,
    unfit: Option<&str>,
    deadline: Duration,
    run: impl FnOnce(&'static OnServer) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = Checked> + Send + 'static,
{
    let trial = Trial::test(format!("{}::{name}", on_server.label), move || {
        within(deadline, run(on_server)).map_err(|failure| Failed::from(failure.to_string()))
    });
    let required = std::env::var("REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name == "all" || name == on_server.kind.name);
    let missing = match (on_server.kind.find)() {
        Err(NotOpened::Missing(reason)) if !is_required => Some(reason),
        _ => None,
    };
    match unfit.map(str::to_owned).or(missing) {
        Some(reason) => trial.with_ignored_flag(true).with_kind(format!("skipped: {reason}")),
        None => trial,
    }
}

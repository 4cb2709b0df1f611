//! The metrics of the server, for Prometheus. Touches nothing.
//!
//! Label values are bounded: a route is a row of the route table or `unmatched`, a method is a known one or `other`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use keystead_commands::hub::Clients;
use keystead_engine::Health;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::VERSION;
use crate::cluster::metrics::ClusterMetrics;
use crate::documents::DocumentStore;
use crate::policies::Set;
use crate::policies::counts::PolicyMetrics;
use crate::sinks::metrics::SinkMetrics;
use crate::upstream::Forwarder;

/// Upper bounds of the latency buckets, from a read in memory to a write on a slow disk.
pub(crate) const DURATION_BUCKETS_SECONDS: [f64; 13] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabel {
    store: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabel {
    shard: u32,
}

/// Metrics of each shard, read from the engine when the metrics are read.
#[derive(Default)]
struct Shards {
    durable_revision: Family<ShardLabel, Gauge>,
    archived_revision: Family<ShardLabel, Gauge>,
    journal_bytes: Family<ShardLabel, Gauge>,
    poisoned: Family<ShardLabel, Gauge>,
    archive_failing: Family<ShardLabel, Gauge>,
    throttled: Family<ShardLabel, Gauge>,
    archive_batches: Family<ShardLabel, Counter>,
    archive_keys: Family<ShardLabel, Counter>,
    archive_busy_ms: Family<ShardLabel, Counter>,
    keys: Family<ShardLabel, Gauge>,
    memory_used: Family<ShardLabel, Gauge>,
    memory_full: Family<ShardLabel, Gauge>,
    stalls: Family<ShardLabel, Counter>,
}

impl Shards {
    fn register(&self, to: &mut Registry) {
        for (name, help, family) in [
            ("shard_durable_revision", "The last revision that is durable", &self.durable_revision),
            ("shard_archived_revision", "The last revision that is in the archive", &self.archived_revision),
            ("shard_poisoned", "Whether the shard rejects all requests until a restart", &self.poisoned),
            ("archive_failing", "Whether the archive cannot be written", &self.archive_failing),
            (
                "throttled",
                "Whether acknowledgements of writes are delayed to the archive's pace",
                &self.throttled,
            ),
            ("keys", "Keys, including those that are expired but not yet reclaimed", &self.keys),
            (
                "memory_full",
                "Whether the memory limit is reached, so that writes that could add memory are rejected",
                &self.memory_full,
            ),
        ] {
            to.register(name, help, family.clone());
        }
        for (name, help, family) in [
            (
                "archive_batches",
                "How often the archive has caught up with the journal",
                &self.archive_batches,
            ),
            ("archive_keys", "Keys in them: many changes of a key are one", &self.archive_keys),
            ("archive_busy_ms", "Milliseconds that the archive was busy", &self.archive_busy_ms),
            ("memory_stalls", "How often a shard has paused until values could be evicted", &self.stalls),
        ] {
            to.register(name, help, family.clone());
        }
        let used = "Estimated memory of keys and values";
        to.register_with_unit("memory_used", used, Unit::Bytes, self.memory_used.clone());
        to.register_with_unit("journal", "Journal on disk", Unit::Bytes, self.journal_bytes.clone());
    }

    fn set(&self, health: &Health) {
        for (shard, health) in (0..).zip(&health.shards) {
            let set = |family: &Family<ShardLabel, Gauge>, value: u64| {
                family.get_or_create(&ShardLabel { shard }).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            set(&self.durable_revision, health.durable.0);
            set(&self.archived_revision, health.archived.0);
            set(&self.journal_bytes, health.journal_bytes);
            set(&self.poisoned, health.poisoned.is_some().into());
            set(&self.archive_failing, health.archive_failing.is_some().into());
            set(&self.throttled, health.throttled.into());
            let count = |family: &Family<ShardLabel, Counter>, value: u64| {
                let counter = family.get_or_create(&ShardLabel { shard });
                counter.inc_by(value.saturating_sub(counter.get()));
            };
            count(&self.archive_batches, health.archive.batches);
            count(&self.archive_keys, health.archive.keys);
            count(&self.archive_busy_ms, health.archive.busy_ms);
            set(&self.keys, health.size.keys);
            set(&self.memory_used, health.size.used_bytes);
            set(&self.memory_full, health.memory_full.into());
            count(&self.stalls, health.stalls);
        }
    }
}

/// Metrics of the RESP listener, read from the list of clients when the metrics are read.
#[derive(Default)]
struct Resp {
    connections: Gauge,
    accepted: Counter,
    rejected: Counter,
    commands: Counter,
    auth_failures: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
}

impl Resp {
    fn register(&self, to: &mut Registry) {
        to.register("resp_connections", "Open RESP connections", self.connections.clone());
        for (name, help, counter) in [
            ("resp_connections_accepted", "RESP connections since the start", &self.accepted),
            (
                "resp_connections_refused",
                "RESP connections rejected because there were too many",
                &self.rejected,
            ),
            ("resp_auth_failures", "AUTH attempts of RESP clients with a wrong token", &self.auth_failures),
            ("commands", "Redis commands received, over RESP and REST", &self.commands),
            ("resp_read_bytes", "Bytes received from RESP clients", &self.read_bytes),
            ("resp_written_bytes", "Bytes sent to RESP clients", &self.written_bytes),
        ] {
            to.register(name, help, counter.clone());
        }
    }

    fn set(&self, clients: &Clients) {
        self.connections.set(i64::try_from(clients.len()).unwrap_or(i64::MAX));
        for (counter, count) in [
            (&self.accepted, &clients.accepted),
            (&self.rejected, &clients.rejected),
            (&self.auth_failures, &clients.auth_failures),
            (&self.commands, &clients.commands),
            (&self.read_bytes, &clients.bytes_in),
            (&self.written_bytes, &clients.bytes_out),
        ] {
            // CONFIG RESETSTAT resets the count, but a counter must not decrease.
            counter.inc_by(count.load(Ordering::Relaxed).saturating_sub(counter.get()));
        }
    }
}

/// Every metric of the server.
pub struct Metrics {
    registry: Registry,
    uptime: Gauge,
    shards: Shards,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
    resp: Resp,
    documents_store_broken: Family<StoreLabel, Gauge>,
    upstream_broken: Family<StoreLabel, Gauge>,
    upstream_errors: Counter,
    sync_mutations: Family<ResultLabel, Counter>,
    /// Metrics of a node of a cluster.
    pub(crate) cluster: ClusterMetrics,
    /// Metrics of sinks.
    pub(crate) sinks: SinkMetrics,
    /// Metrics of rate limits.
    pub policies: PolicyMetrics,
    /// Open HTTP connections.
    pub http_connections: Gauge,
    /// HTTP connections that were rejected because there were too many.
    pub http_connections_rejected: Counter,
    /// HTTP requests with a wrong token.
    pub http_auth_failures: Counter,
    /// RESP connections that were closed because the client spoke HTTP or TLS.
    pub resp_foreign: Counter,
}

impl Metrics {
    /// All metrics at zero.
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("keystead"),
            uptime: Gauge::default(),
            shards: Shards::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS)),
            resp: Resp::default(),
            documents_store_broken: Family::default(),
            upstream_broken: Family::default(),
            upstream_errors: Counter::default(),
            sync_mutations: Family::default(),
            cluster: ClusterMetrics::default(),
            sinks: SinkMetrics::new(),
            policies: PolicyMetrics::new(),
            http_connections: Gauge::default(),
            http_connections_rejected: Counter::default(),
            http_auth_failures: Counter::default(),
            resp_foreign: Counter::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let build: Family<BuildLabels, Gauge> = Family::default();
        build.get_or_create(&BuildLabels { version: VERSION }).set(1);
        let to = &mut self.registry;
        // A gauge, not OpenMetrics' own type for it: older Prometheus parsers do not know `info`.
        to.register("build_info", "The version that runs; the value is always 1", build);
        to.register_with_unit("uptime", "Time since the start", Unit::Seconds, self.uptime.clone());
        to.register("http_requests", "HTTP requests with a response", self.requests.clone());
        to.register_with_unit(
            "http_request_duration",
            "Time from a request's headers to its response",
            Unit::Seconds,
            self.durations.clone(),
        );
        to.register("http_connections", "Open HTTP connections", self.http_connections.clone());
        to.register(
            "http_connections_refused",
            "HTTP connections rejected because there were too many",
            self.http_connections_rejected.clone(),
        );
        to.register(
            "http_auth_failures",
            "HTTP requests with a wrong token",
            self.http_auth_failures.clone(),
        );
        to.register(
            "resp_foreign_protocol",
            "RESP connections closed because they spoke HTTP or TLS",
            self.resp_foreign.clone(),
        );
        to.register(
            "documents_store_broken",
            "Whether the store of the documents failed at the last request",
            self.documents_store_broken.clone(),
        );
        to.register(
            "upstream_broken",
            "Whether the upstream did not reply to the last request or check",
            self.upstream_broken.clone(),
        );
        to.register(
            "upstream_errors",
            "REST requests that failed because of the upstream",
            self.upstream_errors.clone(),
        );
        to.register(
            "sync_mutations",
            "Mutations of offline clients, by result; again: settled before",
            self.sync_mutations.clone(),
        );
        self.shards.register(to);
        self.resp.register(to);
        self.cluster.register(to);
        self.sinks.register(to);
        self.policies.register(to);
        self
    }

    /// Counts a request that got its response.
    pub(crate) fn record_request(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&RequestLabels { route, method, status }).inc();
        self.durations.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64());
    }

    /// Counts a mutation of an offline client.
    pub(crate) fn record_mutation(&self, result: &'static str) {
        self.sync_mutations.get_or_create(&ResultLabel { result }).inc();
    }

    /// Sets the metrics of the other servers that this one uses.
    pub(crate) fn set_stores(&self, documents: Option<&DocumentStore>, upstream: Option<&Forwarder>) {
        if let Some(documents) = documents {
            let label = StoreLabel { store: documents.scheme() };
            self.documents_store_broken.get_or_create(&label).set(documents.is_broken().into());
        }
        if let Some(upstream) = upstream {
            let label = StoreLabel { store: upstream.scheme() };
            self.upstream_broken.get_or_create(&label).set(upstream.is_broken().into());
            self.upstream_errors.inc_by(upstream.errors().saturating_sub(self.upstream_errors.get()));
        }
    }

    /// The metrics as text. The caller passes what is read only now.
    pub(crate) fn text(&self, uptime: Duration, health: &Health, clients: &Clients, set: &Set) -> String {
        self.policies.set(set);
        self.shards.set(health);
        self.resp.set(clients);
        self.uptime.set(i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

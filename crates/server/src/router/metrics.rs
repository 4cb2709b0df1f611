//! The metrics of a router, for Prometheus. Touches nothing.
//!
//! Label values are bounded: routes are rows of the route table, nodes are those of the list.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::map::Map;
use super::node::{CallError, Node};
use crate::metrics::DURATION_BUCKETS_SECONDS;

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
struct NodeLabel {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    node: String,
    code: &'static str,
}

/// The metrics of a router.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram>,
    node_requests: Family<NodeLabel, Counter>,
    node_errors: Family<ErrorLabels, Counter>,
    node_up: Family<NodeLabel, Gauge>,
    node_slots: Family<NodeLabel, Gauge>,
    epoch: Gauge,
    redirects: Family<NodeLabel, Counter>,
    commands: Family<NodeLabel, Counter>,
    resp_unreachable: Family<NodeLabel, Counter>,
    pub(super) resp_node_connections: Gauge,
    pub(super) resp_connections: Gauge,
    pub(super) resp_waiting_bytes: Gauge,
    pub(super) connections: Gauge,
    pub(super) connections_refused: Counter,
    pub(super) auth_failures: Counter,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("keystead_router"),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS)),
            node_requests: Family::default(),
            node_errors: Family::default(),
            node_up: Family::default(),
            node_slots: Family::default(),
            epoch: Gauge::default(),
            redirects: Family::default(),
            commands: Family::default(),
            resp_unreachable: Family::default(),
            resp_node_connections: Gauge::default(),
            resp_connections: Gauge::default(),
            resp_waiting_bytes: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            auth_failures: Counter::default(),
        };
        let to = &mut metrics.registry;
        to.register("http_requests", "HTTP requests with a response", metrics.requests.clone());
        let took = "Time from a request's headers to the headers of its response";
        to.register_with_unit("http_request_duration", took, Unit::Seconds, metrics.durations.clone());
        to.register("node_requests", "Requests to a node", metrics.node_requests.clone());
        to.register("node_errors", "Requests to a node without a response", metrics.node_errors.clone());
        to.register(
            "node_up",
            "Whether the node replied to the last request or check",
            metrics.node_up.clone(),
        );
        to.register("node_slots", "Slots of the node", metrics.node_slots.clone());
        to.register("epoch", "The epoch of the slot table; 0 with a list of nodes", metrics.epoch.clone());
        let redirects =
            "Requests that the node rejected because of a slot that moves, and that were sent again";
        to.register("redirects", redirects, metrics.redirects.clone());
        let commands = "Redis commands sent to the node, those that were sent again included";
        to.register("resp_node_commands", commands, metrics.commands.clone());
        let unreachable = "Times that a connection for Redis commands to the node could not be opened";
        to.register("resp_node_unreachable", unreachable, metrics.resp_unreachable.clone());
        let shared = "Open connections to nodes that clients share";
        to.register("resp_node_connections", shared, metrics.resp_node_connections.clone());
        to.register(
            "resp_connections",
            "Open connections of Redis clients",
            metrics.resp_connections.clone(),
        );
        let waiting =
            "Bytes of large requests that are arriving and of replies that Redis clients have not read";
        to.register("resp_waiting_bytes", waiting, metrics.resp_waiting_bytes.clone());
        to.register("http_connections", "Open HTTP connections", metrics.connections.clone());
        let refused = "HTTP connections rejected because there were too many";
        to.register("http_connections_refused", refused, metrics.connections_refused.clone());
        let failures = "HTTP requests with a wrong token";
        to.register("http_auth_failures", failures, metrics.auth_failures.clone());
        metrics
    }

    pub(super) fn record_request(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&RequestLabels { route, method, status }).inc();
        self.durations.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64());
    }

    pub(super) fn record_call(&self, node: &Node, failed: Option<&CallError>) {
        let label = || node.id.as_str().to_owned();
        self.node_requests.get_or_create(&NodeLabel { node: label() }).inc();
        if let Some(error) = failed {
            self.node_errors.get_or_create(&ErrorLabels { node: label(), code: error.code() }).inc();
        }
    }

    /// Counts commands that were sent to a node.
    pub(super) fn record_commands(&self, node: &Node, count: u64) {
        self.commands.get_or_create(&NodeLabel { node: node.id.as_str().to_owned() }).inc_by(count);
    }

    /// Counts a connection that could not be opened.
    pub(super) fn record_down(&self, node: &Node) {
        self.resp_unreachable.get_or_create(&NodeLabel { node: node.id.as_str().to_owned() }).inc();
    }

    /// Counts a request that a node did not apply because of a slot that moves.
    pub(super) fn record_redirect(&self, node: &Node) {
        self.redirects.get_or_create(&NodeLabel { node: node.id.as_str().to_owned() }).inc();
    }

    /// The metrics as text.
    pub(super) fn text(&self, map: &Map) -> String {
        // Nodes that have left are not shown.
        self.node_up.clear();
        self.node_slots.clear();
        for (node, slots) in map.shares() {
            let label = NodeLabel { node: node.id.as_str().to_owned() };
            self.node_up.get_or_create(&label).set((!node.is_broken()).into());
            self.node_slots.get_or_create(&label).set(i64::try_from(slots).unwrap_or(i64::MAX));
        }
        let epoch = map.table.as_ref().map_or(0, |table| table.epoch().0);
        self.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

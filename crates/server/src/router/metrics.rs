//! The metrics of a router, for Prometheus. Touches nothing.
//!
//! Label values are bounded: routes are rows of the route table, nodes are those of the list.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

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

    /// The metrics as text.
    pub(super) fn text(&self, nodes: &[Arc<Node>]) -> String {
        for node in nodes {
            let label = NodeLabel { node: node.id.as_str().to_owned() };
            self.node_up.get_or_create(&label).set((!node.is_broken()).into());
            self.node_slots.get_or_create(&label).set(i64::try_from(node.slots).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

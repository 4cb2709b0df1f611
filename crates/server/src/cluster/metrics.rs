//! The metrics of a node of a cluster. A server that is none has none of them. Touches nothing.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use keystead_commands::hub::Cluster;

use super::Membership;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabel {
    node: String,
}

/// Read from the node when the metrics are read.
#[derive(Default)]
pub(crate) struct ClusterMetrics {
    slots: Family<NodeLabel, Gauge>,
    epoch: Family<NodeLabel, Gauge>,
    troubled: Family<NodeLabel, Gauge>,
    redirects: Family<NodeLabel, Counter>,
}

impl ClusterMetrics {
    pub(crate) fn register(&self, to: &mut Registry) {
        for (name, help, family) in [
            ("cluster_slots", "Slots that this node serves", &self.slots),
            ("cluster_epoch", "The epoch of the slot table that this node follows", &self.epoch),
            (
                "cluster_table_broken",
                "Whether the slot table could not be read or was rejected at the last attempt",
                &self.troubled,
            ),
        ] {
            to.register(name, help, family.clone());
        }
        let help = "Requests for keys of other nodes, over RESP and HTTP";
        to.register("cluster_redirects", help, self.redirects.clone());
    }

    pub(crate) fn set(&self, cluster: &Cluster, membership: &Membership) {
        let label = NodeLabel { node: cluster.me().id.to_string() };
        let set = |family: &Family<NodeLabel, Gauge>, value: u64| {
            family.get_or_create(&label).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.slots, cluster.slots_served() as u64);
        set(&self.epoch, cluster.table().epoch().0);
        set(&self.troubled, membership.trouble().is_some().into());
        let redirects = self.redirects.get_or_create(&label);
        redirects.inc_by(cluster.redirects().saturating_sub(redirects.get()));
    }
}

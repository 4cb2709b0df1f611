//! The metrics of a node of a cluster. A server that is none has none of them. Touches nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use keystead_commands::hub::Cluster;

use super::Membership;
use super::migration::Mover;

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
    parked: Family<NodeLabel, Gauge>,
    lag: Family<NodeLabel, Gauge>,
    moves: Family<RoleLabel, Gauge>,
    moved: Family<EndLabel, Counter>,
    keys: Family<DirectionLabel, Counter>,
    bytes: Family<DirectionLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabel {
    role: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    end: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
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
            ("cluster_parked_requests", "Requests that wait for a slot that is handed over", &self.parked),
            (
                "cluster_move_lag_keys",
                "Keys of moving slots that have changed and are not on this target yet",
                &self.lag,
            ),
        ] {
            to.register(name, help, family.clone());
        }
        let help = "Requests for keys of other nodes, over RESP and HTTP";
        to.register("cluster_redirects", help, self.redirects.clone());
        to.register("cluster_moves_under_way", "Moves of slots that are under way", self.moves.clone());
        to.register("cluster_moves", "Moves of slots to this node that have ended", self.moved.clone());
        to.register("cluster_moved_keys", "Keys that were sent or received in moves", self.keys.clone());
        let help = "Bytes that were sent or received in moves";
        to.register_with_unit("cluster_moved", help, Unit::Bytes, self.bytes.clone());
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
        set(&self.parked, membership.parked() as u64);
        if let Some(mover) = membership.mover() {
            self.set_moves(mover, |lag| set(&self.lag, lag));
        }
    }

    fn set_moves(&self, mover: &Mover, set_lag: impl Fn(u64)) {
        if let Some(under_way) = mover.under_way() {
            set_lag(under_way.lag);
            for (role, count) in [("source", under_way.from), ("target", under_way.to)] {
                self.moves.get_or_create(&RoleLabel { role }).set(count as i64);
            }
        }
        let count = |counter: &Counter, value: &AtomicU64| {
            counter.inc_by(value.load(Ordering::Relaxed).saturating_sub(counter.get()));
        };
        let counts = &mover.counts;
        for (end, value) in [("finished", &counts.finished), ("aborted", &counts.aborted)] {
            count(&self.moved.get_or_create(&EndLabel { end }), value);
        }
        for (direction, keys, bytes) in [
            ("sent", &counts.sent_keys, &counts.sent_bytes),
            ("received", &counts.received_keys, &counts.received_bytes),
        ] {
            count(&self.keys.get_or_create(&DirectionLabel { direction }), keys);
            count(&self.bytes.get_or_create(&DirectionLabel { direction }), bytes);
        }
    }
}

//! The metrics of sinks. Touches nothing. Labels are bounded: the number of sinks is.

use keystead_engine::Engine;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Sinks;
use crate::metrics::DURATION_BUCKETS_SECONDS;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabel {
    sink: String,
}

/// The metrics of all sinks.
#[derive(Clone)]
pub struct SinkMetrics {
    pending: Family<SinkLabel, Gauge>,
    oldest_ms: Family<SinkLabel, Gauge>,
    lag: Family<SinkLabel, Gauge>,
    quarantined: Family<SinkLabel, Gauge>,
    broken: Family<SinkLabel, Gauge>,
    resyncing: Family<SinkLabel, Gauge>,
    changes: Family<SinkLabel, Counter>,
    rows: Family<SinkLabel, Counter>,
    batches: Family<SinkLabel, Counter>,
    resyncs: Family<SinkLabel, Counter>,
    gaps: Family<SinkLabel, Counter>,
    rejected: Family<SinkLabel, Counter>,
    compacted: Family<SinkLabel, Counter>,
    latency: Family<SinkLabel, Histogram, fn() -> Histogram>,
}

impl SinkMetrics {
    pub(crate) fn new() -> SinkMetrics {
        SinkMetrics {
            pending: Family::default(),
            oldest_ms: Family::default(),
            lag: Family::default(),
            quarantined: Family::default(),
            broken: Family::default(),
            resyncing: Family::default(),
            changes: Family::default(),
            rows: Family::default(),
            batches: Family::default(),
            resyncs: Family::default(),
            gaps: Family::default(),
            rejected: Family::default(),
            compacted: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS)),
        }
    }

    pub(crate) fn register(&self, to: &mut Registry) {
        for (name, help, family) in [
            ("sink_pending_rows", "Changed keys that are not in the target yet", &self.pending),
            ("sink_oldest_pending_ms", "How long the oldest of them has waited", &self.oldest_ms),
            ("sink_lag_revisions", "Revisions that the target is behind", &self.lag),
            ("sink_quarantined_keys", "Keys whose rows the target rejects", &self.quarantined),
            ("sink_broken", "Whether the target cannot be written", &self.broken),
            ("sink_resyncing", "Whether all keys are being written again", &self.resyncing),
        ] {
            to.register(name, help, family.clone());
        }
        for (name, help, family) in [
            (
                "sink_changes",
                "Changes of the sink's keys: divided by the rows, the coalescing ratio",
                &self.changes,
            ),
            ("sink_rows", "Rows that were written", &self.rows),
            ("sink_batches", "Batches that were written", &self.batches),
            ("sink_resyncs", "How often all keys were written again", &self.resyncs),
            ("sink_gaps", "How often changes were missing in an event log", &self.gaps),
            ("sink_rejected_events", "Changes without a form as JSON in an event log", &self.rejected),
            ("sink_compacted_rows", "Rows that compactions have removed or made whole", &self.compacted),
        ] {
            to.register(name, help, family.clone());
        }
        let help = "Time to write a batch";
        to.register_with_unit("sink_flush_duration", help, Unit::Seconds, self.latency.clone());
    }

    /// The histogram of one sink.
    pub(crate) fn latency(&self, sink: &str) -> Histogram {
        self.latency.get_or_create(&SinkLabel { sink: sink.to_owned() }).clone()
    }

    /// Reads all sinks.
    pub(crate) fn set(&self, sinks: &Sinks, engine: &Engine) {
        for running in sinks.all() {
            let label = SinkLabel { sink: running.definition.name.clone() };
            let status = running.status();
            let set = |family: &Family<SinkLabel, Gauge>, value: u64| {
                family.get_or_create(&label).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            set(&self.pending, status.pending as u64);
            set(&self.oldest_ms, status.oldest().as_millis() as u64);
            set(&self.lag, running.lag(engine));
            set(&self.quarantined, running.quarantined_len() as u64);
            set(&self.broken, status.problem.is_some().into());
            set(&self.resyncing, status.resyncing.is_some().into());
            let count = |family: &Family<SinkLabel, Counter>, value: u64| {
                let counter = family.get_or_create(&label);
                counter.inc_by(value.saturating_sub(counter.get()));
            };
            count(&self.changes, status.changes);
            count(&self.rows, status.rows);
            count(&self.batches, status.batches);
            count(&self.resyncs, status.resyncs);
            count(&self.gaps, status.gaps);
            count(&self.rejected, status.rejected);
            count(&self.compacted, status.compacted);
        }
    }
}

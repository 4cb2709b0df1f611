//! The metrics of policies. Touches nothing.
//!
//! Labels are bounded: the number of policies is, and each has only a few of its most denied keys.

use std::borrow::Cow;
use std::sync::PoisonError;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Set;
use crate::bounds::DENIED_KEYS_LISTED;
use crate::metrics::DURATION_BUCKETS_SECONDS;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    policy: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    policy: String,
    store: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    policy: String,
    key: String,
}

const OUTCOMES: [&str; 4] = ["allowed", "denied", "failed_open", "error"];

/// The metrics of all policies.
#[derive(Clone)]
pub struct PolicyMetrics {
    checks: Family<CheckLabels, Counter>,
    durations: Family<PolicyLabel, Histogram, fn() -> Histogram>,
    denied_keys: Family<KeyLabels, Gauge>,
    store_broken: Family<StoreLabels, Gauge>,
    stale: Gauge,
}

/// The metrics of one.
pub struct PolicyCounts {
    /// Checks that were allowed.
    pub allowed: Counter,
    /// Checks that were denied.
    pub denied: Counter,
    /// Checks that were allowed because the store failed and the policy fails open.
    pub failed_open: Counter,
    /// Checks that failed.
    pub errors: Counter,
    /// How long they took.
    pub durations: Histogram,
}

impl PolicyMetrics {
    pub(crate) fn new() -> PolicyMetrics {
        PolicyMetrics {
            checks: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_SECONDS)),
            denied_keys: Family::default(),
            store_broken: Family::default(),
            stale: Gauge::default(),
        }
    }

    pub(crate) fn register(&self, to: &mut Registry) {
        to.register("limit_checks", "Checks of rate limits by policy and outcome", self.checks.clone());
        to.register_with_unit(
            "limit_check_duration",
            "Time of a check, including the wait until it is durable",
            Unit::Seconds,
            self.durations.clone(),
        );
        to.register(
            "limit_denied_key",
            "Approximate number of denials of the most denied keys since the policy became active",
            self.denied_keys.clone(),
        );
        to.register(
            "limit_store_broken",
            "Whether the policy's own store failed at the last check",
            self.store_broken.clone(),
        );
        to.register(
            "limit_file_refused",
            "Whether the settings file has changed and its policies were rejected",
            self.stale.clone(),
        );
    }

    /// The metrics of the policy of this name.
    #[must_use]
    pub fn of(&self, policy: &str) -> PolicyCounts {
        let [allowed, denied, failed_open, errors] = OUTCOMES.map(|outcome| {
            self.checks.get_or_create(&CheckLabels { policy: policy.to_owned(), outcome }).clone()
        });
        let durations = self.durations.get_or_create(&PolicyLabel { policy: policy.to_owned() }).clone();
        PolicyCounts { allowed, denied, failed_open, errors, durations }
    }

    /// Removes the metrics of a policy that is no longer active.
    pub fn forget(&self, policy: &str) {
        for outcome in OUTCOMES {
            self.checks.remove(&CheckLabels { policy: policy.to_owned(), outcome });
        }
        self.durations.remove(&PolicyLabel { policy: policy.to_owned() });
    }

    /// Sets the metrics that are read from the policies.
    pub(crate) fn set(&self, set: &Set) {
        self.stale.set(set.problem.is_some().into());
        self.denied_keys.clear();
        self.store_broken.clear();
        for (name, active) in &set.by_name {
            if !active.backend.is_engine() {
                let store = active.definition.store.shown().to_owned();
                let labels = StoreLabels { policy: name.clone(), store };
                self.store_broken.get_or_create(&labels).set(active.is_store_broken().into());
            }
            let top = active.denied.lock().unwrap_or_else(PoisonError::into_inner).top(DENIED_KEYS_LISTED);
            for (key, count) in top {
                let labels = KeyLabels { policy: name.clone(), key: shown(&key).into_owned() };
                self.denied_keys.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }
}

/// A key as text. Different keys have different texts, also where they are not UTF-8.
fn shown(key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(key) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(format!("base64:{}", data_encoding::BASE64.encode(key))),
    }
}

//! One policy in force: its limiter, where its state is, and what is counted of it. Touches its store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keystead_core::{Millis, Store};
use keystead_limit::headers::retry_after_s;
use keystead_limit::{Decision, Fail, HeaderStyles, Headers, Limiter};

use super::counts::PolicyCounts;
use super::denied::Denied;
use super::file::Definition;

/// Where the state of a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With the keys of the database, on the shard of the key.
    Engine,
    /// In a store that answers at once.
    Sync,
    /// In a store that answers later.
    Elsewhere,
}

/// A policy in force.
pub struct Named {
    /// As it is written.
    pub definition: Definition,
    /// Where its state is.
    pub place: Place,
    /// Asks it.
    pub limiter: Limiter<Arc<dyn Store>>,
    /// What is counted.
    pub counts: PolicyCounts,
    /// Who is denied most.
    pub denied: Mutex<Denied>,
    headers: Headers,
}

impl Named {
    pub(super) fn new(
        definition: Definition,
        place: Place,
        store: Arc<dyn Store>,
        counts: PolicyCounts,
    ) -> Named {
        let policy = definition.policy.clone();
        // A policy of another kind has another state: under a prefix of its own it begins anew, and the old one expires.
        let prefix = format!("limit:{}:{}", definition.name, policy.strategy().word());
        let headers = Headers::new(&policy, definition.headers);
        let fail = policy.fail().unwrap_or(Fail::Closed);
        let limiter = Limiter::new(policy, store, fail).prefix(prefix);
        Named { definition, place, limiter, counts, denied: Mutex::default(), headers }
    }

    /// Counts an answer about `key`; nothing is an error.
    pub fn count(&self, key: &[u8], answer: Option<&Decision>, took: Duration) {
        match answer {
            Some(decision) if decision.allowed => self.counts.allowed.inc(),
            Some(_) => {
                self.denied.lock().unwrap_or_else(PoisonError::into_inner).add(key);
                self.counts.denied.inc()
            }
            None => self.counts.errors.inc(),
        };
        self.counts.durations.observe(took.as_secs_f64());
    }

    /// The headers of an answer.
    #[must_use]
    pub fn headers(&self, decision: &Decision, now: Millis) -> Vec<(&'static str, String)> {
        match self.definition.headers == HeaderStyles::NONE {
            true if decision.allowed => Vec::new(),
            true => vec![("Retry-After", retry_after_s(decision).to_string())],
            false => self.headers.of(decision, now),
        }
    }

    /// Whether two policies keep their state in the same store.
    #[must_use]
    pub fn is_beside(&self, other: &Named) -> bool {
        self.definition.store == other.definition.store
    }
}

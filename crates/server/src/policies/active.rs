//! One active policy: its limiter, its backend and its counts. Touches its store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keystead_core::{Error, Millis, Store};
use keystead_limit::fail_mode::is_broken;
use keystead_limit::headers::retry_after_s;
use keystead_limit::{Decision, FailMode, HeaderStyles, Headers, Limiter};

use super::counts::PolicyCounts;
use super::denied::Denied;
use super::file::Definition;

/// Where the state of a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In the server's own database, on the shard of the key.
    Engine,
    /// In a store with synchronous operations.
    Sync,
    /// In a store with asynchronous operations.
    Async,
}

impl Backend {
    /// Whether the state is in the server's own database.
    #[must_use]
    pub fn is_engine(self) -> bool {
        match self {
            Backend::Engine => true,
            Backend::Sync | Backend::Async => false,
        }
    }
}

/// An active policy.
pub struct ActivePolicy {
    /// Its definition.
    pub definition: Definition,
    /// Where its state is.
    pub backend: Backend,
    /// Makes its decisions.
    pub limiter: Limiter<Arc<dyn Store>>,
    /// Its metrics.
    pub counts: PolicyCounts,
    /// The keys that are denied most.
    pub denied: Mutex<Denied>,
    /// The prefix of its keys in the store, without the colon.
    pub prefix: String,
    headers: Headers,
    broken: AtomicBool,
}

impl ActivePolicy {
    pub(super) fn new(
        definition: Definition,
        backend: Backend,
        store: Arc<dyn Store>,
        counts: PolicyCounts,
    ) -> ActivePolicy {
        let policy = definition.policy.clone();
        // A policy of another kind has another state: it starts under a prefix of its own, and the old state expires.
        let prefix = format!("limit:{}:{}", definition.name, policy.strategy().word());
        let headers = Headers::new(&policy, definition.headers);
        let fail = policy.fail().unwrap_or(FailMode::Closed);
        let limiter = Limiter::new(policy, store, fail).prefix(&prefix);
        let (denied, broken) = (Mutex::default(), AtomicBool::new(false));
        ActivePolicy { definition, backend, limiter, counts, denied, prefix, headers, broken }
    }

    /// Counts a decision about `key`.
    pub fn count(&self, key: &[u8], decided: Result<&Decision, &Error>) {
        match decided {
            // It was allowed without a check.
            Ok(decision) if decision.failed_open => self.counts.failed_open.inc(),
            Ok(decision) if decision.allowed => self.counts.allowed.inc(),
            Ok(_) => {
                self.denied.lock().unwrap_or_else(PoisonError::into_inner).add(key);
                self.counts.denied.inc()
            }
            Err(_) => self.counts.errors.inc(),
        };
        if !self.backend.is_engine() {
            self.broken.store(decided.map_or_else(is_broken, |it| it.failed_open), Ordering::Relaxed);
        }
    }

    /// Records the duration of a request, whatever number of keys it checked.
    pub fn observe(&self, time: Duration) {
        self.counts.durations.observe(time.as_secs_f64());
    }

    /// Whether its own store failed at the last check. The server's database has a health check of its own.
    #[must_use]
    pub fn is_store_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// The headers of a response.
    #[must_use]
    pub fn headers(&self, decision: &Decision, now: Millis) -> Vec<(&'static str, String)> {
        match self.definition.headers == HeaderStyles::NONE {
            true if decision.allowed => Vec::new(),
            true => vec![("Retry-After", retry_after_s(decision).to_string())],
            false => self.headers.of(decision, now),
        }
    }

    /// Whether two policies have their state in the same store.
    #[must_use]
    pub fn shares_store_with(&self, other: &ActivePolicy) -> bool {
        self.definition.store == other.definition.store
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::MemoryStore;

    use super::super::counts::PolicyMetrics;
    use super::super::file;
    use super::*;

    #[tokio::test]
    async fn a_check_that_fails_open_is_not_counted_as_allowed() {
        let text = "[limit.a]\nlimit = 1\nperiodMs = \"60s\"\nfail = \"open\"\nstore = \"memory\"\n";
        let definition = file::parse(text, "k.toml").unwrap().remove(0);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let active =
            ActivePolicy::new(definition, Backend::Sync, Arc::clone(&store), PolicyMetrics::new().of("a"));
        let counted = |active: &ActivePolicy| {
            let counts = &active.counts;
            (counts.allowed.get(), counts.failed_open.get(), counts.errors.get(), active.is_store_broken())
        };
        active.count(b"k", active.limiter.check("k", 1).await.as_ref());
        assert_eq!(counted(&active), (1, 0, 0, false));
        store.close().await.unwrap();
        active.count(b"k", active.limiter.check("k", 1).await.as_ref());
        assert_eq!(counted(&active), (1, 1, 0, true));
        let error = store.reset(&keystead_core::Key::new("k").unwrap()).await.unwrap_err();
        active.count(b"k", Err(&error));
        assert_eq!(counted(&active), (1, 1, 1, true));
        // An invalid request is not a failure of the store.
        active.count(b"k", active.limiter.check("", 1).await.as_ref());
        assert_eq!(counted(&active), (1, 1, 2, false));
    }
}

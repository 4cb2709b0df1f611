//! The Redis server or cluster that the Upstash-compatible REST API stands in front of (`--upstream`). Accesses that server.
//!
//! Its calls run on the server's own runtime, as those of stores do: connections and timers are shared by all shards. A call that
//! has begun goes on if the client disconnects.

pub(crate) mod scripts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use keystead_core::{Code, Error, Result};
use keystead_stores::redis::{Upstream, UpstreamBounds};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::bounds::{
    REST_RESPONSE_BYTES_MAX, UPSTREAM_CALLS_MAX, UPSTREAM_CONNECTIONS_MAX, UPSTREAM_PROBE_EVERY,
    UPSTREAM_SUBSCRIPTIONS_MAX,
};
use crate::failure::failure;
use crate::settings::Settings;
use scripts::Scripts;

/// Sends commands to the upstream.
#[derive(Clone)]
pub struct Forwarder {
    upstream: Arc<Upstream>,
    runtime: Handle,
    status: Arc<Status>,
    scripts: Arc<Scripts>,
}

#[derive(Default)]
struct Status {
    broken: AtomicBool,
    errors: AtomicU64,
}

impl Status {
    /// Notes whether the upstream has replied. A change is logged.
    fn set(&self, upstream: &Upstream, failed: Option<&Error>) {
        let was_broken = self.broken.swap(failed.is_some(), Ordering::Relaxed);
        match failed {
            Some(error) if !was_broken => {
                tracing::warn!("the upstream {} does not reply: {error}", upstream.shown());
            }
            None if was_broken => tracing::warn!("the upstream {} replies again", upstream.shown()),
            _ => {}
        }
    }
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.upstream.shown())
    }
}

impl Forwarder {
    /// The upstream of the settings, if they name one. It does not connect. Its calls run on the present runtime.
    ///
    /// # Errors
    /// `config_invalid` for an invalid URL. The message contains no password.
    pub fn open(settings: &Settings) -> Result<Option<Forwarder>> {
        let Some(url) = &settings.upstream else { return Ok(None) };
        let bounds = UpstreamBounds {
            calls_max: UPSTREAM_CALLS_MAX,
            connections_max: UPSTREAM_CONNECTIONS_MAX,
            subscriptions_max: UPSTREAM_SUBSCRIPTIONS_MAX,
            reply_bytes_max: REST_RESPONSE_BYTES_MAX,
        };
        let upstream = Upstream::open(url.as_str(), bounds).map_err(|error| {
            failure(format_args!("--upstream: {}", error.message()), "see docs/upstash.md")
        })?;
        let runtime = Handle::try_current().map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        Ok(Some(Forwarder {
            upstream: Arc::new(upstream),
            runtime,
            status: Arc::default(),
            scripts: Arc::default(),
        }))
    }

    /// Checks now and then whether the upstream replies, for as long as the server runs.
    pub fn start_probing(&self) {
        let (upstream, status) = (Arc::clone(&self.upstream), Arc::clone(&self.status));
        self.runtime.spawn(async move {
            loop {
                status.set(&upstream, upstream.ping().await.err().as_ref());
                sleep(UPSTREAM_PROBE_EVERY).await;
            }
        });
    }

    /// Its scheme and addresses, without the login.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.upstream.shown()
    }

    /// The scheme of its URL.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.upstream.scheme()
    }

    /// Whether keys are on several nodes.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.upstream.is_cluster()
    }

    /// Whether it did not reply to the last request or check.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.status.broken.load(Ordering::Relaxed)
    }

    /// How many requests have failed because of the upstream.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.status.errors.load(Ordering::Relaxed)
    }

    /// Counts a request. `failed` is its error, if it failed because of the upstream.
    pub(crate) fn count(&self, failed: Option<&Error>) {
        match failed {
            Some(error) => {
                self.status.errors.fetch_add(1, Ordering::Relaxed);
                if error.code() == Code::StoreUnavailable {
                    self.status.set(&self.upstream, Some(error));
                }
            }
            // One node that replies says nothing about the others.
            None if self.is_cluster() => {}
            None => self.status.set(&self.upstream, None),
        }
    }

    /// Runs something with the upstream on the server's runtime.
    ///
    /// # Errors
    /// `internal` if it was stopped.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce(Arc<Upstream>) -> F) -> Result<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let ran = self.runtime.spawn(work(Arc::clone(&self.upstream))).await;
        ran.map_err(|error| {
            let message = "the call of the upstream was stopped: the server is stopping, or has a defect";
            Error::unknown(Code::Internal, message).with_source(error)
        })
    }

    /// The scripts that are changed for it.
    pub(crate) fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// The runtime of its calls.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Closes its connections.
    pub(crate) fn close(&self) {
        self.upstream.close();
    }
}

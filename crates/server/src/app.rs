//! What all handlers of both listeners share: the settings in force, the database, the metrics, and whether the server is
//! stopping. Touches nothing by itself.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use keystead_commands::hub::{Hub, ShutDown};
use keystead_core::{Clock, Millis, Stopwatch, SystemClock};
use keystead_engine::{Engine, LoadProgress};
use tokio::sync::watch;

use crate::cluster::Membership;
use crate::documents::DocumentStore;
use crate::http::body::Bodies;
use crate::metrics::Metrics;
use crate::notice::Notices;
use crate::policies::Policies;
use crate::settings::Settings;
use crate::sinks::Sinks;
use crate::starting::{Load, Starting};
use crate::upstream::Forwarder;

/// The running server, as handlers see it.
pub struct App {
    /// The values in force.
    pub settings: Settings,
    /// The database.
    pub engine: Engine,
    /// Its metrics.
    pub metrics: Metrics,
    /// What Redis commands share, over RESP and HTTP.
    pub hub: Arc<Hub>,
    /// The rate limits in force.
    pub policies: Policies,
    /// The store of the documents, if they are not in the database. Set before the server is ready.
    pub documents: OnceLock<DocumentStore>,
    /// The Redis server that the REST API stands in front of, if there is one. Set before the server is ready.
    pub upstream: OnceLock<Forwarder>,
    /// The membership of a cluster, if it is a node of one. Set before the server is ready, like the cluster of the hub.
    pub cluster: OnceLock<Membership>,
    /// The sinks that follow the database. Set before the server is ready.
    pub sinks: OnceLock<Sinks>,
    /// Rate-limited log lines that clients without the token can cause.
    pub notices: Notices,
    /// The memory of all HTTP request bodies.
    pub bodies: Arc<Bodies>,
    requests: AtomicU64,
    started: Stopwatch,
    stopping: watch::Sender<bool>,
    shut_down: Arc<watch::Sender<Option<ShutDown>>>,
}

impl App {
    /// The server of a hub whose host has this engine, and sends to `shut_down`.
    pub(crate) fn new(
        settings: Settings,
        engine: Engine,
        hub: Arc<Hub>,
        shut_down: Arc<watch::Sender<Option<ShutDown>>>,
        started: Stopwatch,
    ) -> App {
        let metrics = Metrics::new();
        App {
            hub,
            settings,
            policies: Policies::new(engine.clone(), metrics.policies.clone()),
            documents: OnceLock::new(),
            upstream: OnceLock::new(),
            cluster: OnceLock::new(),
            sinks: OnceLock::new(),
            engine,
            metrics,
            notices: Notices::default(),
            bodies: Arc::default(),
            requests: AtomicU64::new(0),
            started,
            stopping: watch::Sender::new(false),
            shut_down,
        }
    }

    /// A server with this database, whose RESP listener is on `resp_port` and accepts at most `clients_max` clients.
    #[must_use]
    pub fn with_database(settings: Settings, engine: Engine, resp_port: u16, clients_max: usize) -> App {
        let load = Load::begin(LoadProgress::new());
        Starting::new(settings, load, resp_port, clients_max).with_engine(engine)
    }

    /// The time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Millis {
        SystemClock.now()
    }

    /// A seed for the random number generator of one connection.
    #[must_use]
    pub fn seed(&self, id: u64) -> u64 {
        RandomState::new().hash_one(id)
    }

    /// The number of a request: unique since the start.
    #[must_use]
    pub fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// All metrics as text, with their current values.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.set_stores(self.documents.get(), self.upstream.get());
        if let (Some(cluster), Some(membership)) = (self.hub.cluster.get(), self.cluster.get()) {
            self.metrics.cluster.set(cluster, membership);
        }
        if let Some(sinks) = self.sinks.get() {
            self.metrics.sinks.set(sinks, &self.engine);
        }
        let policies = self.policies.set();
        self.metrics.text(self.uptime(), &self.engine.health(), &self.hub.clients, &policies)
    }

    /// Makes both listeners stop accepting and finish the requests in flight. Cannot be undone.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the server is stopping.
    pub async fn stopping(&self) {
        // The sender is not dropped before `self`, so the wait cannot fail.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Waits until a client ends the server with SHUTDOWN.
    pub async fn shut_down(&self) -> ShutDown {
        let mut shut_down = self.shut_down.subscribe();
        // The sender is not dropped before `self`, so the wait cannot fail.
        let how = shut_down.wait_for(Option::is_some).await.ok().and_then(|how| *how);
        how.unwrap_or(ShutDown::Graceful)
    }

    /// A server with the default settings and an empty database in memory.
    #[cfg(test)]
    pub(crate) fn for_test() -> App {
        let settings = crate::settings::Loaded::from_sources(Default::default()).unwrap().settings;
        App::with_database(settings, Engine::open(&keystead_engine::Options::in_memory()).unwrap(), 0, 100)
    }
}

//! What every handler of every door shares: the settings in force, the database, the metrics, whether the server is
//! stopping. Touches nothing by itself.

use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_engine::Engine;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::settings::Settings;

/// The running server, as its doors see it.
pub struct App {
    /// The values in force.
    pub settings: Settings,
    /// The database.
    pub engine: Engine,
    /// What is counted and measured.
    pub metrics: Metrics,
    started: Stopwatch,
    stopping: watch::Sender<bool>,
}

impl App {
    /// A server that starts now.
    #[must_use]
    pub fn new(settings: Settings, engine: Engine) -> App {
        App {
            settings,
            engine,
            metrics: Metrics::new(),
            started: Stopwatch::start(),
            stopping: watch::Sender::new(false),
        }
    }

    /// The time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Every metric as text, at this moment.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text(self.uptime(), &self.engine.health())
    }

    /// Tells every door to stop accepting and to finish what is in flight. There is no way back.
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
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// A server with the default settings and an empty database in memory.
    #[cfg(test)]
    pub(crate) fn for_test() -> App {
        let settings = crate::settings::Loaded::from_sources(Default::default()).unwrap().settings;
        App::new(settings, Engine::open(&keystead_engine::Options::in_memory()).unwrap())
    }
}

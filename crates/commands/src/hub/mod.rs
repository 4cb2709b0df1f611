//! What all connections of a server share, whatever their protocol: Pub/Sub, the list of clients, settings, statistics.
//!
//! It touches nothing but memory. Locks are short and never held across a wait.

use std::sync::{Arc, OnceLock};

use keystead_core::key;

mod bus;
mod clients;
mod cluster;
mod config;
mod host;
mod mailbox;
mod monitors;
mod scripts;
mod stats;
mod waiting;

pub use bus::{Bus, Subscribed};
pub use clients::{Client, ClientId, Clients, Kind, Shown, Unblock};
pub(crate) use cluster::slots_of;
#[cfg(test)]
pub(crate) use cluster::tests as cluster_tests;
pub use cluster::{Cluster, Rejection, endpoint};
pub(crate) use config::page as config_page;
pub use config::{Config, ConfigError, OutputLimit};
pub use host::{Facts, Host, Loading, ShutDown};
pub use mailbox::{Mailbox, Message, MessageKind};
pub use monitors::{Monitors, SCRIPT};
pub(crate) use scripts::Origin;
pub use scripts::Scripts;
pub use stats::{Rates, Stats};
pub use waiting::{Waiting, WaitingBytes};

/// Shared by all connections.
pub struct Hub {
    /// Channels and their subscribers.
    pub bus: Bus,
    /// The connected clients.
    pub clients: Clients,
    /// The settings of CONFIG.
    pub config: Config,
    /// Counters for INFO.
    pub stats: Stats,
    /// The MONITOR clients.
    pub monitors: Monitors,
    /// Replies that clients have not read yet.
    pub waiting: Arc<Waiting>,
    /// Scripts and function libraries.
    pub scripts: Scripts,
    /// The cluster that this server is a node of, if it is one. Set before the server is ready.
    pub cluster: OnceLock<Cluster>,
    /// The interface to the server.
    pub host: Box<dyn Host>,
}

impl Hub {
    /// A hub without connections.
    #[must_use]
    pub fn new(host: Box<dyn Host>) -> Self {
        let (clients, config, stats) = Default::default();
        Hub {
            bus: Bus::default(),
            clients,
            config,
            stats,
            monitors: Monitors::default(),
            waiting: Arc::default(),
            scripts: Scripts::default(),
            cluster: OnceLock::new(),
            host,
        }
    }

    /// Ends the subscriptions to shard channels whose slots this node of a cluster does not own, as Redis does.
    pub fn end_foreign_shard_channels(&self) {
        let Some(cluster) = self.cluster.get() else { return };
        // A subscriber that does not read is closed by its limit, or gets this one more message.
        self.bus.end_shard_channels(|channel| cluster.owns(key::slot(channel)), 0);
    }

    /// Restores the function libraries that [`Host::keep_functions`] stored last, before this start.
    ///
    /// # Errors
    /// When it is not a dump, or a library in it cannot be loaded.
    pub fn restore_functions(&self, dump: &[u8]) -> Result<(), crate::Fail> {
        crate::families::scripting::restore_stored(self, dump)
    }

    /// The mode in Redis's words: `cluster` or `standalone`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        if self.cluster.get().is_some() { "cluster" } else { "standalone" }
    }

    /// Kills all running scripts and functions; they are rolled back. False if none runs.
    pub fn kill_scripts(&self) -> bool {
        let killed = [self.scripts.scripts.kill(), self.scripts.functions.kill()];
        killed.contains(&true)
    }

    /// Redis's error while a command runs so long that others are not served.
    #[must_use]
    pub fn busy(&self) -> crate::Fail {
        if self.scripts.scripts.is_running() {
            return crate::errors::BUSY_SCRIPT;
        } else if self.scripts.functions.is_running() {
            return crate::errors::BUSY_FUNCTION;
        }
        crate::errors::BUSY_COMMAND
    }

    /// The number of cached scripts, their bytes, and the numbers of libraries and functions.
    #[must_use]
    pub fn script_counts(&self) -> [usize; 4] {
        let ((scripts, bytes), (libraries, functions)) =
            (self.scripts.count(), self.scripts.libraries().counts());
        [scripts, bytes, libraries, functions]
    }
}

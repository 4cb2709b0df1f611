//! What all connections of a server share, whatever their door: messages, the list of clients, settings, facts.
//!
//! It touches nothing but memory. Locks are short and never held across a wait.

use std::sync::Arc;

mod bus;
mod clients;
mod config;
mod host;
mod mailbox;
mod monitors;
mod scripts;
mod stats;
mod waiting;

pub use bus::{Bus, Subscribed};
pub use clients::{Client, ClientId, Clients, Kind, Shown, Unblock};
pub(crate) use config::page as config_page;
pub use config::{Config, ConfigError, OutputLimit};
pub use host::{Facts, Host, ShutDown};
pub use mailbox::{Mailbox, Message};
pub use monitors::{Monitors, SCRIPT};
pub(crate) use scripts::Origin;
pub use scripts::Scripts;
pub use stats::{Rates, Stats};
pub use waiting::{Waiting, WaitingBytes};

/// Shared by all connections.
pub struct Hub {
    /// Channels and who listens.
    pub bus: Bus,
    /// Who is connected.
    pub clients: Clients,
    /// What CONFIG knows.
    pub config: Config,
    /// Counters for INFO.
    pub stats: Stats,
    /// Who sees every command.
    pub monitors: Monitors,
    /// Replies that wait for their clients.
    pub waiting: Arc<Waiting>,
    /// Scripts and libraries of functions.
    pub scripts: Scripts,
    /// What the server knows of itself.
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
            host,
        }
    }

    /// Brings back the libraries of functions that [`Host::keep_functions`] was given last, before this start.
    ///
    /// # Errors
    /// When it is no dump, or a library in it cannot be loaded.
    pub fn restore_functions(&self, dump: &[u8]) -> Result<(), crate::Fail> {
        crate::families::scripting::restore_kept(self, dump)
    }

    /// Kills every script and function that runs; what they changed is undone. False when none runs.
    pub fn kill_scripts(&self) -> bool {
        let killed = [self.scripts.scripts.kill(), self.scripts.functions.kill()];
        killed.contains(&true)
    }

    /// What Redis answers while a command takes so long that others are not served.
    #[must_use]
    pub fn busy(&self) -> crate::Fail {
        if self.scripts.scripts.is_running() {
            return crate::errors::BUSY_SCRIPT;
        } else if self.scripts.functions.is_running() {
            return crate::errors::BUSY_FUNCTION;
        }
        crate::errors::BUSY_COMMAND
    }

    /// Scripts that are remembered, their bytes, libraries and functions.
    #[must_use]
    pub fn script_counts(&self) -> [usize; 4] {
        let ((scripts, bytes), (libraries, functions)) =
            (self.scripts.count(), self.scripts.libraries().counts());
        [scripts, bytes, libraries, functions]
    }
}

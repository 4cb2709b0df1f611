//! What commands that run in the router read about it. Touches the figures of the process.

use keystead_commands::hub::{Facts, Host};
use keystead_core::Stopwatch;

use crate::VERSION;
use crate::resp::process;
use crate::settings::{Settings, Token};

/// The router, as commands see it.
pub(super) struct RouterHost {
    token: Option<Token>,
    started: Stopwatch,
    port: u16,
    clients_max: usize,
    log_level: &'static str,
    run_id: String,
}

impl RouterHost {
    pub(super) fn new(settings: &Settings, port: u16, clients_max: usize) -> RouterHost {
        RouterHost {
            token: settings.token.clone(),
            started: Stopwatch::start(),
            port,
            clients_max,
            log_level: process::log_level(settings.log_level),
            run_id: process::run_id(),
        }
    }
}

impl Host for RouterHost {
    fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    fn is_token(&self, token: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|known| known.matches(token))
    }

    fn shards(&self) -> usize {
        1
    }

    fn facts(&self) -> Facts {
        Facts {
            version: VERSION,
            port: self.port,
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            process_id: std::process::id(),
            // A router keeps nothing.
            durability: "memory",
            log_level: self.log_level,
            shards: 1,
            resident_bytes: process::resident_bytes(),
            clients_max: self.clients_max,
            cpu_us: process::cpu_us(),
            run_id: self.run_id.clone(),
            ..Facts::default()
        }
    }
}

//! What commands read about the server. Touches the engine's health, the figures of the process, and the file of functions.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use keystead_commands::hub::{Facts, Host, ShutDown};
use keystead_commands::{Args, Spec};
use keystead_core::{Result, Stopwatch};
use keystead_engine::{Durability, Engine, Health};
use tokio::sync::watch;

use super::process::{cpu_us, log_level, resident_bytes, run_id};
use crate::VERSION;
use crate::allocator;
use crate::functions;
use crate::settings::{Settings, Token};
use crate::starting::Load;

/// The server, as commands see it.
pub struct Server {
    engine: Arc<OnceLock<Engine>>,
    load: Load,
    token: Option<Token>,
    started: Stopwatch,
    port: u16,
    data: String,
    /// The directory for the libraries of functions, if they are persisted.
    functions: Option<PathBuf>,
    limit_bytes: Option<u64>,
    clients_max: usize,
    log_level: &'static str,
    run_id: String,
    shut_down: Arc<watch::Sender<Option<ShutDown>>>,
    durability: Durability,
    cluster: bool,
}

impl Server {
    /// The server with these settings, whose RESP listener is on `port`. SHUTDOWN sends to `shut_down`. There is no engine until `load`
    /// is over.
    #[must_use]
    pub fn new(
        settings: &Settings,
        engine: Arc<OnceLock<Engine>>,
        load: Load,
        port: u16,
        clients_max: usize,
        shut_down: Arc<watch::Sender<Option<ShutDown>>>,
    ) -> Self {
        Server {
            engine,
            load,
            durability: settings.durability,
            cluster: settings.cluster.is_some(),
            token: settings.token.clone(),
            started: Stopwatch::start(),
            port,
            data: settings.data.display().to_string(),
            functions: (settings.durability != Durability::Memory).then(|| settings.data.clone()),
            limit_bytes: settings.memory_bytes.map(|bytes| bytes as u64),
            clients_max,
            log_level: log_level(settings.log_level),
            run_id: run_id(),
            shut_down,
        }
    }
}

impl Host for Server {
    fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    fn is_token(&self, token: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|known| known.matches(token))
    }

    fn shards(&self) -> usize {
        self.engine.get().map(Engine::shards).or(self.load.shards()).unwrap_or(1)
    }

    fn facts(&self) -> Facts {
        let health = self.engine.get().map_or(Health { shards: Vec::new() }, Engine::health);
        let sum = |of: fn(&keystead_engine::ShardHealth) -> u64| health.shards.iter().map(of).sum();
        let durability = self.durability;
        let unwell =
            health.shards.iter().find_map(|shard| shard.poisoned.clone().or(shard.archive_failing.clone()));
        Facts {
            version: VERSION,
            port: self.port,
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            process_id: std::process::id(),
            durability: durability.as_str(),
            log_level: self.log_level,
            shards: self.shards(),
            data: if durability == Durability::Memory { String::new() } else { self.data.clone() },
            keys: sum(|shard| shard.size.keys),
            keys_that_expire: sum(|shard| shard.size.keys_that_expire),
            used_bytes: sum(|shard| shard.size.used_bytes),
            limit_bytes: self.limit_bytes,
            memory_full: health.shards.iter().any(|shard| shard.memory_full),
            resident_bytes: resident_bytes(),
            journal_bytes: sum(|shard| shard.journal_bytes),
            unwell,
            clients_max: self.clients_max,
            expired_keys: sum(|shard| shard.size.expired),
            cpu_us: cpu_us(),
            run_id: self.run_id.clone(),
            cluster: self.cluster,
            loading: self.engine.get().is_none().then(|| self.load.now()),
        }
    }

    fn is_out_of_memory(&self, spec: &Spec, args: Args<'_>) -> bool {
        if self.limit_bytes.is_none() {
            return false;
        }
        let Some(engine) = self.engine.get() else { return false };
        let keys = spec.keys(args).unwrap_or_default();
        keys.first().is_some_and(|key| engine.is_memory_full(engine.shard_of(args.at(*key))))
    }

    fn purge_memory(&self) -> bool {
        allocator::purge()
    }

    fn keep_functions(&self, dump: &[u8]) -> Result<()> {
        self.functions.as_deref().map_or(Ok(()), |dir| functions::save(dir, dump))
    }

    fn compact(&self) {
        if let Some(engine) = self.engine.get() {
            engine.compact();
        }
    }

    fn shut_down(&self, how: ShutDown) -> bool {
        self.shut_down.send_replace(Some(how));
        true
    }

    fn log(&self, level: u8, line: &str) {
        match level {
            0 => tracing::trace!(target: "script", "{line}"),
            1 => tracing::debug!(target: "script", "{line}"),
            2 => tracing::info!(target: "script", "{line}"),
            _ => tracing::warn!(target: "script", "{line}"),
        }
    }
}

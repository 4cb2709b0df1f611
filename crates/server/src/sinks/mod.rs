//! Write-behind: the `[sink.NAME]` tables of the settings file, and a task for each that keeps another database up to date.
//!
//! | To find                                          | open         |
//! |--------------------------------------------------|--------------|
//! | how a sink is written                            | [`mod@file`] |
//! | the task: positions, triggers; one batch         | `follower`; `flush` |
//! | where it begins; positions that the target does not keep | `judge`; `kept` |
//! | sinks with an event log                          | `log`        |
//! | keys that have changed                           | `pending`    |
//! | writing all keys again                           | `resync`     |
//! | reading keys from the shards                     | `source`     |
//! | rows that the target rejects                     | [`quarantine`] |
//! | what requests see of the task                    | [`shared`]   |
//! | comparing source and target                      | `verify`     |
//! | metrics                                          | [`metrics`]  |
//!
//! Touches the targets, the journal through feeds, and files of the data directory.

pub mod file;
mod flush;
mod follower;
mod judge;
mod kept;
mod log;
pub mod metrics;
mod pending;
pub mod quarantine;
mod resync;
pub mod shared;
mod source;
mod stored;
mod verify;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use keystead_core::{Clock, Code, Error, Result, Revision, ShardId, SystemClock};
use keystead_engine::{Durability, Engine};
use keystead_model::Bytes;
use keystead_sinks::{LogTarget, Position, Sink};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::app::App;
use crate::failure::failure;
use file::{Definition, Mode};
use follower::Follower;
use log::{LogFollower, compactor};
use quarantine::{Case, Quarantine};
use shared::{Shared, Status};
pub use verify::{Difference, Differences, Side};

/// How often the journal that no sink needs any longer is released.
const RELEASE_EVERY: Duration = Duration::from_secs(1);

/// A sink that runs.
pub struct Running {
    /// As it is written in the settings.
    pub definition: Arc<Definition>,
    sink: Arc<dyn Sink>,
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
    /// A connection of its own for reading and compacting an event log.
    reader: Option<Arc<dyn Sink>>,
    at_start: AtStart,
}

/// Where a target was when the server started.
enum AtStart {
    /// It could not be reached.
    Unknown,
    /// It has no position of this database.
    Nowhere,
    Reached(Vec<Revision>),
}

impl AtStart {
    fn of(found: Result<Option<Position>>, engine: &Engine) -> AtStart {
        match found {
            Err(_) => AtStart::Unknown,
            Ok(Some(at)) if engine.id() == Some(&at.database) && at.resync.is_none() => {
                AtStart::Reached(at.revisions)
            }
            Ok(_) => AtStart::Nowhere,
        }
    }
}

/// What became of a change in the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// No sink has this key.
    None,
    /// It is in all of them.
    Flushed,
    /// It is not in all of them yet.
    Pending,
    /// A target rejects it: its key is in quarantine.
    Quarantined,
}

/// The sinks of a server.
pub struct Sinks {
    engine: Engine,
    all: Vec<Running>,
    release: Option<AbortHandle>,
    runtime: Handle,
}

impl Sinks {
    /// Opens the targets, and begins to follow.
    ///
    /// # Errors
    /// `config_invalid` with the one line for the user, for example when a target does not have a column. A target that cannot be reached is
    /// tried again later.
    pub(crate) async fn start(app: &App) -> Result<Sinks> {
        let (engine, settings) = (&app.engine, &app.settings);
        let mut sinks =
            Sinks { engine: engine.clone(), all: Vec::new(), release: None, runtime: Handle::current() };
        if settings.sinks.is_empty() {
            return Ok(sinks);
        }
        if settings.durability == Durability::Memory {
            return Err(failure(
                "a sink needs a journal to follow, and durability memory has none",
                "use durability fsync or commit, or remove the [sink.NAME] tables",
            ));
        }
        if settings.cluster.is_some() {
            return Err(failure(
                "a node of a cluster cannot have sinks yet: a slot that moves would take its rows along",
                "remove the [sink.NAME] tables or --cluster",
            ));
        }
        for definition in &settings.sinks {
            let at = |error: Error| {
                let what = format!("{}: sink.{}: {}", definition.location, definition.name, error.message());
                Error::new(error.code(), what)
            };
            let running = sinks.begin(app, definition).await.map_err(at)?;
            sinks.all.push(running);
        }
        sinks.release = Some(tokio::spawn(release(engine.clone(), sinks.shared())).abort_handle());
        Ok(sinks)
    }

    async fn begin(&self, app: &App, definition: &Definition) -> Result<Running> {
        let definition = Arc::new(definition.clone());
        let sink = keystead_sinks::open(definition.target.as_str(), definition.layout.clone())?;
        let dir = app.settings.data.clone();
        let at_start = match sink.probe().await {
            Err(error) if error.code() == Code::ConfigInvalid => return Err(error),
            Err(error) => {
                tracing::warn!(sink = definition.name, %error, "the target cannot be reached: it is tried again");
                AtStart::Unknown
            }
            Ok(()) => AtStart::of(kept::position(&*sink, &dir, &definition).await, &self.engine),
        };
        let quarantine = Quarantine::open(&dir, &definition.name, SystemClock.now())?;
        let latency = app.metrics.sinks.latency(&definition.name);
        let shared = Arc::new(Shared::new(self.engine.shards(), quarantine, latency));
        let parts = (Arc::clone(&definition), Arc::clone(&sink), Arc::clone(&shared));
        let (mut tasks, mut reader) = (Vec::new(), None);
        if definition.mode == Mode::Events {
            let follower = LogFollower::new(&self.engine, dir, parts.0, parts.1, parts.2)?;
            tasks.push(tokio::spawn(follower.run()).abort_handle());
            let log = keystead_sinks::open(definition.target.as_str(), definition.layout.clone())?;
            if definition.compact_after.is_some() || definition.compact_rows.is_some() {
                let compaction =
                    compactor::run(Arc::clone(&log), Arc::clone(&definition), Arc::clone(&shared));
                tasks.push(tokio::spawn(compaction).abort_handle());
            }
            reader = Some(log);
        } else {
            let follower = Follower::new(&self.engine, dir, parts.0, parts.1, parts.2)?;
            tasks.push(tokio::spawn(follower.run()).abort_handle());
        }
        Ok(Running { definition, sink, shared, tasks, reader, at_start })
    }

    fn shared(&self) -> Vec<Arc<Shared>> {
        self.all.iter().map(|running| Arc::clone(&running.shared)).collect()
    }

    /// The runtime of their tasks, for calls of targets.
    #[must_use]
    pub fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    /// All of them, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Running] {
        &self.all
    }

    /// The sink whose event log has the keys with this prefix: the one with the longest prefix of its own.
    #[must_use]
    pub fn log_of(&self, prefix: &str) -> Option<&Running> {
        let logs = self.all.iter().filter(|running| running.definition.mode == Mode::Events);
        let own = |running: &Running| running.definition.layout.prefix.len();
        logs.filter(|running| prefix.starts_with(&running.definition.layout.prefix))
            .max_by_key(|running| own(running))
    }

    /// The sink of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Running> {
        self.all.iter().find(|running| running.definition.name == name)
    }

    /// The last durable revision of each shard.
    fn durable(&self) -> Vec<(ShardId, Revision)> {
        self.engine.shard_ids().map(|shard| (shard, self.engine.revision(shard))).collect()
    }

    /// Writes what is pending within the grace time of each sink, and ends them.
    pub(crate) async fn stop(&self) {
        let durable = self.durable();
        let flushes = self.all.iter().map(|running| async {
            let grace = running.definition.grace;
            let flushed = tokio::time::timeout(grace, running.shared.reach(&durable)).await;
            running.tasks.iter().for_each(AbortHandle::abort);
            if flushed.is_err() {
                let (sink, pending) = (&running.definition.name, running.shared.status().pending);
                tracing::warn!(
                    sink,
                    pending,
                    "stopped before everything was in the target: it follows after the next start"
                );
            }
            let _ = running.sink.close().await;
            if let Some(reader) = &running.reader {
                let _ = reader.close().await;
            }
        });
        // All at the same time: each has its own grace.
        let mut flushes: Vec<_> = flushes.map(Box::pin).collect();
        poll_fn(|cx| {
            flushes.retain_mut(|flush| flush.as_mut().poll(cx).is_pending());
            if flushes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if let Some(release) = &self.release {
            release.abort();
        }
    }

    /// Waits until changes of keys are in the targets, but not longer than this.
    pub async fn receipt(&self, keys: &[&[u8]], longest: Duration) -> Receipt {
        let all = async {
            let mut receipts = Vec::new();
            for key in keys {
                let shard = self.engine.shard_of(key);
                // The change is durable, so it is not after this revision.
                let at = [(shard, self.engine.revision(shard))];
                receipts.push(self.wait_for(key, &at).await);
            }
            let has = |receipt| receipts.contains(&receipt).then_some(receipt);
            has(Receipt::Quarantined).or(has(Receipt::Flushed)).unwrap_or(Receipt::None)
        };
        tokio::time::timeout(longest, all).await.unwrap_or(Receipt::Pending)
    }

    /// Whether a change of this key must reach a target before it is acknowledged.
    #[must_use]
    pub fn writes_through(&self, key: &[u8]) -> bool {
        self.all.iter().any(|running| running.definition.mode == Mode::WriteThrough && running.has(key))
    }

    async fn wait_for(&self, key: &[u8], at: &[(ShardId, Revision)]) -> Receipt {
        let mut receipt = Receipt::None;
        for running in self.all.iter().filter(|running| running.has(key)) {
            running.shared.reach(at).await;
            receipt = match running.shared.quarantine().contains(key) {
                true => return Receipt::Quarantined,
                false => Receipt::Flushed,
            };
        }
        receipt
    }
}

impl Running {
    fn has(&self, key: &[u8]) -> bool {
        source::is_followed(key, self.definition.layout.prefix.as_bytes())
    }

    /// Its state.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status().clone()
    }

    /// How long its oldest change has waited, if that is longer than it may.
    #[must_use]
    pub fn behind(&self) -> Option<Duration> {
        let oldest = self.status().oldest();
        (oldest > self.definition.flush_every() + self.definition.behind_after).then_some(oldest)
    }

    /// What the ready block says of it.
    #[must_use]
    pub fn line(&self, engine: &Engine) -> String {
        let Definition { name, target, .. } = &*self.definition;
        let pending = match &self.at_start {
            AtStart::Unknown => "not reached yet".to_owned(),
            AtStart::Nowhere => "all keys pending".to_owned(),
            AtStart::Reached(revisions) => format!("at most {} changes pending", behind(engine, revisions)),
        };
        let quarantined = self.quarantined_len();
        format!("{name} to {}: {pending}, {quarantined} keys in quarantine", target.shown())
    }

    /// How many revisions the target is behind.
    #[must_use]
    pub fn lag(&self, engine: &Engine) -> u64 {
        behind(engine, &self.shared.reached())
    }

    /// Writes everything that is durable now. It returns when that is in the target or in quarantine.
    pub async fn flush(&self, engine: &Engine) {
        let durable: Vec<_> = engine.shard_ids().map(|shard| (shard, engine.revision(shard))).collect();
        self.shared.reach(&durable).await;
    }

    /// Writes everything up to these revisions. It returns when that is in the target or in quarantine.
    pub async fn reach(&self, revisions: &[(ShardId, Revision)]) {
        self.shared.reach(revisions).await;
    }

    /// The keys in quarantine.
    #[must_use]
    pub fn quarantined(&self) -> Vec<(Bytes, Case)> {
        self.shared.quarantine().cases().iter().map(|(key, case)| (key.clone(), case.clone())).collect()
    }

    /// How many keys are in quarantine.
    #[must_use]
    pub fn quarantined_len(&self) -> usize {
        self.shared.quarantine().cases().len()
    }

    /// Tries one key in quarantine again, or all. Returns how many.
    #[must_use]
    pub fn retry(&self, key: Option<&[u8]>) -> usize {
        let retried = self.shared.quarantine().retry(key, SystemClock.now());
        self.shared.wake();
        retried
    }

    /// Removes one key from the quarantine, or all: the target keeps what it has until the key changes. Returns how many.
    ///
    /// # Errors
    /// `store_unavailable` when the file cannot be written.
    pub fn skip(&self, key: Option<&[u8]>) -> Result<usize> {
        let mut quarantine = self.shared.quarantine();
        let keys: Vec<Bytes> = match key {
            Some(key) => vec![Bytes::from(key)],
            None => quarantine.cases().keys().cloned().collect(),
        };
        quarantine.remove(&keys)
    }

    /// Writes all keys again, also to a target of another database; to an event log as a snapshot.
    pub fn resync(&self) {
        self.shared.request_resync();
    }

    /// Its event log, on a connection of its own.
    ///
    /// # Errors
    /// `unsupported` when it has none.
    pub fn log(&self) -> Result<&dyn LogTarget> {
        let log = self.reader.as_ref().and_then(|reader| reader.log());
        log.ok_or_else(|| {
            let (name, mode) = (&self.definition.name, self.definition.mode.as_str());
            Error::new(Code::Unsupported, format!("the sink {name} has no event log: its mode is {mode}"))
        })
    }

    /// Compacts its event log: events of at least this age, or as the settings say. Returns how many rows were removed or became whole.
    ///
    /// # Errors
    /// `unsupported` when it has none; `store_unavailable`.
    pub async fn compact(&self, age: Option<Duration>) -> Result<u64> {
        self.log()?;
        match &self.reader {
            Some(reader) => compactor::compact(&**reader, &self.definition, &self.shared, age).await,
            None => Ok(0),
        }
    }

    /// Compares all keys with the target.
    ///
    /// # Errors
    /// `unsupported` when the target cannot be read, or its error.
    pub async fn verify(&self, engine: &Engine) -> Result<Differences> {
        verify::verify(self, engine).await
    }
}

/// How many revisions of the database come after these.
fn behind(engine: &Engine, reached: &[Revision]) -> u64 {
    let of = |(shard, reached): (ShardId, &Revision)| engine.revision(shard).0.saturating_sub(reached.0);
    engine.shard_ids().zip(reached).map(of).sum()
}

/// Releases the journal that no sink needs, from time to time.
async fn release(engine: Engine, sinks: Vec<Arc<Shared>>) {
    loop {
        tokio::time::sleep(RELEASE_EVERY).await;
        for shard in engine.shard_ids() {
            if let Some(least) = sinks.iter().map(|shared| shared.written(shard)).min() {
                engine.release_journal(shard, least);
            }
        }
    }
}

//! The task of one sink: it follows the changes of all shards and writes what has changed. Touches the journal through feeds, the shards
//! through turns, the target, and files of the data directory.
//!
//! Invariants: the position in the target never passes a change that is neither in the target nor in the quarantine on disk; one batch at a
//! time is under way; nothing waits without a bound, because the journal is read only as far as there is room.

use std::path::PathBuf;
use std::sync::Arc;

use keystead_core::{Clock, Code, Error, Result, Revision, ShardId, Stopwatch, SystemClock};
use keystead_engine::{Engine, Feed};
use keystead_model::effect::Fact;
use keystead_sinks::{Position, Sink};

use super::file::Definition;
use super::judge::{Begin, History};
use super::kept::Kept;
use super::pending::{Dirty, Pending};
use super::resync::Resync;
use super::shared::{Problem, Shared};
use super::source;
use crate::bounds::{
    SINK_PENDING_BYTES_MAX, SINK_PENDING_KEYS_MAX, SINK_POLL_CHANGES, SINK_POLL_INTERVAL,
    SINK_POSITION_EVERY, SINK_RECONNECT_AFTER, SINK_RECONNECT_AFTER_MAX,
};
use crate::data_file;

/// A shard, as a sink follows it.
#[derive(Default)]
pub(super) struct Followed {
    feed: Option<Feed>,
    /// Up to which revision its changes were read.
    read: Revision,
    pub(super) pending: Pending,
}

/// A batch whose outcome is not known yet.
pub(super) struct InFlight {
    pub(super) next: Position,
    pub(super) taken: Vec<(ShardId, Vec<Dirty>)>,
}

pub(super) struct Follower {
    pub(super) engine: Engine,
    pub(super) database: String,
    pub(super) definition: Arc<Definition>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) shared: Arc<Shared>,
    pub(super) dir: PathBuf,
    pub(super) shards: Vec<Followed>,
    /// What the target has, as far as it is known.
    pub(super) position: Option<Position>,
    /// Where that is, if the target does not keep it.
    kept: Option<Kept>,
    /// The last batch that may have been sent, also by an earlier process; as a file says that travels with the database.
    pub(super) last_batch: Option<u64>,
    /// No target that has followed this history is further than this.
    known: Vec<Revision>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) resync: Option<Resync>,
    /// Up to where the present flush goes.
    flush_until: Option<Vec<Revision>>,
    /// When the position was written last.
    positioned: Stopwatch,
}

impl Follower {
    pub(super) fn new(
        engine: &Engine,
        dir: PathBuf,
        definition: Arc<Definition>,
        sink: Arc<dyn Sink>,
        shared: Arc<Shared>,
    ) -> Result<Follower> {
        let Some(database) = engine.id().cloned() else {
            return Err(Error::new(Code::Unsupported, "a database in memory has no journal to follow"));
        };
        let last_batch = data_file::read(&dir, &batch_file(&definition.name))?;
        let keeps_position = sink.capabilities().keeps_position;
        Ok(Follower {
            kept: (!keeps_position).then(|| Kept::new(dir.clone(), &definition)),
            database,
            shards: engine.shard_ids().map(|_| Followed::default()).collect(),
            known: engine.shard_ids().map(|shard| engine.revision(shard)).collect(),
            engine: engine.clone(),
            last_batch: last_batch.and_then(|text| text.trim().parse().ok()),
            definition,
            sink,
            shared,
            dir,
            position: None,
            in_flight: None,
            resync: None,
            flush_until: None,
            positioned: Stopwatch::start(),
        })
    }

    /// Follows until the task is aborted.
    pub(super) async fn run(mut self) {
        let mut pause = SINK_RECONNECT_AFTER;
        loop {
            let error = match self.connect().await {
                Ok(()) => {
                    self.shared.set_problem(None);
                    let since = Stopwatch::start();
                    let error = self.follow().await;
                    if since.elapsed() > SINK_RECONNECT_AFTER_MAX {
                        pause = SINK_RECONNECT_AFTER;
                    }
                    error
                }
                Err(error) => error,
            };
            if self.shared.set_problem(Some(Problem::of(&error))) {
                tracing::warn!(sink = self.definition.name, %error, "the target cannot be written: it is tried again");
            }
            self.shared.wait(pause).await;
            pause = (pause * 2).min(SINK_RECONNECT_AFTER_MAX);
        }
    }

    /// Finds out where the target is, and goes on from there.
    async fn connect(&mut self) -> Result<()> {
        self.sink.probe().await?;
        let found = match &self.kept {
            Some(kept) => kept.read()?,
            None => self.sink.position().await?,
        };
        if let Some(in_flight) = self.in_flight.take() {
            if found.as_ref() == Some(&in_flight.next) {
                self.landed(in_flight.next)?;
                return Ok(());
            }
            self.put_back(in_flight.taken);
        }
        let is_following = self.shards.iter().all(|followed| followed.feed.is_some());
        let is_requested = self.shared.take_resync();
        if is_following && found == self.position && !is_requested {
            return Ok(());
        }
        let history = History {
            engine: &self.engine,
            database: &self.database,
            sink: &self.definition.name,
            last_batch: self.last_batch,
            known: &self.known,
        };
        let begin = history.judge(found.as_ref(), is_requested)?;
        self.position = found;
        match begin {
            _ if is_requested => self.begin_resync("it was requested"),
            Begin::Continue(revisions) => {
                if let Err(error) = self.subscribe(&revisions) {
                    if error.code() != Code::Gone {
                        return Err(error);
                    }
                    return self.begin_resync("the journal no longer has what the target needs");
                }
                self.resync = None;
                self.publish();
                Ok(())
            }
            Begin::Interrupted(_) => self.begin_resync("writing all keys was interrupted"),
            Begin::First => self.begin_resync("the target has no position yet"),
            Begin::Anew(why) => self.begin_resync(why),
        }
    }

    /// Follows all shards from these revisions on.
    fn subscribe(&mut self, after: &[Revision]) -> Result<()> {
        for (shard, (followed, after)) in self.engine.shard_ids().zip(self.shards.iter_mut().zip(after)) {
            let feed = self.engine.subscribe(shard, *after)?.without_values();
            *followed = Followed { feed: Some(feed), read: *after, pending: Pending::default() };
        }
        self.flush_until = None;
        Ok(())
    }

    /// Writes all keys again, and then deletes the rows of keys that are not there.
    fn begin_resync(&mut self, why: &str) -> Result<()> {
        tracing::info!(sink = self.definition.name, why, "writing all keys to the target");
        let now: Vec<Revision> = self.engine.shard_ids().map(|shard| self.engine.revision(shard)).collect();
        self.subscribe(&now)?;
        self.resync = Some(Resync::begin(self.next_batch()));
        self.shared.status().begin_resync(why);
        Ok(())
    }

    /// A number after those of all batches that the target can have seen.
    pub(super) fn next_batch(&self) -> u64 {
        let last = self.position.as_ref().map(|position| position.batch).max(self.last_batch);
        // Without any memory, the time is after them: there are far fewer than a thousand a second.
        last.map_or_else(|| SystemClock.now().0, |last| last + 1)
    }

    async fn follow(&mut self) -> Error {
        loop {
            match self.pass().await {
                Ok(Pass::More) => tokio::task::yield_now().await,
                Ok(Pass::Idle) => self.shared.wait(SINK_POLL_INTERVAL).await,
                Err(error) => return error,
            }
        }
    }

    /// Reads some changes, and writes a batch if one is due.
    async fn pass(&mut self) -> Result<Pass> {
        if self.shared.wants_resync() {
            self.connect().await?;
            return Ok(Pass::More);
        }
        let is_all_read = match self.poll() {
            Ok(is_all_read) => is_all_read,
            Err(error) if error.code() == Code::Gone => {
                self.begin_resync("the target was behind for longer than the journal is kept")?;
                return Ok(Pass::More);
            }
            Err(error) => return Err(error),
        };
        self.publish();
        if self.is_due() {
            self.flush().await?;
            if self.resync.is_none() {
                return Ok(Pass::More);
            }
        }
        if let Some(before) = self.resync.take() {
            let mut resync = before.clone();
            self.resync = Some(before.clone());
            let page = resync.next_page(self).await?;
            // A target learns that it has ended only if it knows that it has begun.
            let has_begun = self.position.as_ref().is_some_and(|at| at.resync == Some(resync.first()));
            let is_end = page.is_none() && has_begun;
            self.resync = (!is_end).then_some(resync);
            if let Err(error) = self.write(page.unwrap_or_default(), Vec::new()).await {
                // The page is written again.
                self.resync = Some(before);
                return Err(error);
            }
            if is_end {
                self.shared.status().resyncing = None;
                tracing::info!(sink = self.definition.name, "all keys are in the target");
            }
            return Ok(Pass::More);
        }
        if !is_all_read {
            return Ok(Pass::More);
        }
        if self.positioned.elapsed() >= SINK_POSITION_EVERY && self.reached() != self.written() {
            self.write(Vec::new(), Vec::new()).await?;
        }
        Ok(Pass::Idle)
    }

    /// Notes changes from the journal while there is room. Returns whether all of them are read.
    fn poll(&mut self) -> Result<bool> {
        let now = Stopwatch::start();
        let (prefix, mut left) = (self.definition.layout.prefix.as_bytes(), SINK_POLL_CHANGES);
        let (mut seen, mut is_flushed) = (0, false);
        let mut rows: usize = self.shards.iter().map(|followed| followed.pending.len()).sum();
        let mut bytes: usize = self.shards.iter().map(|followed| followed.pending.bytes()).sum();
        let mut is_all_read = true;
        for followed in &mut self.shards {
            let Some(feed) = &mut followed.feed else { continue };
            let before = (followed.pending.len(), followed.pending.bytes());
            loop {
                let (len, size) = (followed.pending.len(), followed.pending.bytes());
                if left == 0
                    || rows + len - before.0 >= SINK_PENDING_KEYS_MAX
                    || bytes + size - before.1 >= SINK_PENDING_BYTES_MAX
                {
                    is_all_read = false;
                    break;
                }
                let Some(changes) = feed.try_next_sized()? else { break };
                left = left.saturating_sub(changes.len());
                for (effect, size) in &changes {
                    followed.read = effect.revision;
                    if effect.fact == Fact::Flushed {
                        is_flushed = true;
                    } else if source::is_followed(&effect.key, prefix) {
                        seen += 1;
                        followed.pending.note(effect, *size, now);
                    }
                }
            }
            rows += followed.pending.len() - before.0;
            bytes += followed.pending.bytes() - before.1;
        }
        self.shared.status().changes += seen;
        if is_flushed {
            self.begin_resync("all keys were deleted at once")?;
        }
        Ok(is_all_read)
    }

    /// Whether a batch is to be written now.
    fn is_due(&mut self) -> bool {
        if let Some(until) = &self.flush_until {
            if self
                .shards
                .iter()
                .zip(until)
                .any(|(followed, until)| followed.pending.position(followed.read) < *until)
            {
                return true;
            }
            self.flush_until = None;
        }
        let retries = !self.shared.quarantine().due(SystemClock.now(), 1).is_empty();
        let rows: usize = self.shards.iter().map(|followed| followed.pending.len()).sum();
        let bytes: usize = self.shards.iter().map(|followed| followed.pending.value_bytes()).sum();
        let reached = self.reached();
        let wanted =
            self.shared.is_wanted(&reached) && self.shards.iter().any(|followed| followed.pending.len() > 0);
        let mut since = self.shards.iter().filter_map(|followed| followed.pending.since());
        let every = self.definition.flush_every();
        let is_due = rows >= self.definition.flush_rows
            || bytes >= self.definition.flush_bytes
            || wanted
            || since.any(|since| since.elapsed() >= every);
        if is_due {
            self.flush_until = Some(self.shards.iter().map(|followed| followed.read).collect());
        }
        is_due || retries
    }

    /// The target has reached this position.
    pub(super) fn landed(&mut self, next: Position) -> Result<()> {
        if let Some(kept) = &self.kept {
            kept.write(&next)?;
        }
        self.in_flight = None;
        for (known, reached) in self.known.iter_mut().zip(&next.revisions) {
            *known = (*known).max(*reached);
        }
        self.position = Some(next);
        self.positioned = Stopwatch::start();
        self.publish();
        Ok(())
    }

    pub(super) fn put_back(&mut self, taken: Vec<(ShardId, Vec<Dirty>)>) {
        for (shard, dirty) in taken {
            self.shards[shard.0].pending.put_back(dirty);
        }
    }

    /// Of each shard, the revision up to which nothing is pending.
    pub(super) fn reached(&self) -> Vec<Revision> {
        self.shards.iter().map(|followed| followed.pending.position(followed.read)).collect()
    }

    /// Of each shard, the revision in the target's position.
    fn written(&self) -> Vec<Revision> {
        self.position.as_ref().map_or_else(Vec::new, |position| position.revisions.clone())
    }

    /// Publishes how far the target is. While all keys are being written it is nowhere.
    fn publish(&self) {
        let reached = self.reached();
        {
            let mut status = self.shared.status();
            status.pending = self.shards.iter().map(|followed| followed.pending.len()).sum();
            status.since = self
                .shards
                .iter()
                .filter_map(|followed| followed.pending.since())
                .max_by_key(Stopwatch::elapsed);
        }
        if self.resync.is_none() && self.in_flight.is_none() {
            self.shared.publish(&reached);
        }
        // Only what the target itself has is not needed after a crash.
        let written = if self.resync.is_some() { reached } else { self.written() };
        self.shared.set_written(&written);
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    pub(super) fn prefix(&self) -> &str {
        &self.definition.layout.prefix
    }

    pub(super) fn is_quarantined(&self, key: &[u8]) -> bool {
        self.shared.quarantine().contains(key)
    }
}

/// Whether there is more to do.
enum Pass {
    More,
    Idle,
}

pub(super) fn batch_file(sink: &str) -> String {
    format!("sink-{sink}.batch")
}

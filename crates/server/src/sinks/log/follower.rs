//! The task of a sink with an event log: it follows the changes of all shards and appends each. Touches the journal through feeds, the shards
//! through turns, the target, and files of the data directory.
//!
//! A log begins with a snapshot of all keys, between the marks `begin` and `complete`, while changes go on being appended. Where changes are
//! missing, because the journal no longer has them or the database is another one, there is a snapshot that begins with `gap`.
//!
//! Invariants: a row of a snapshot is after every event that it includes, and before every later one; one batch at a time is under way;
//! nothing waits without a bound.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use keystead_core::{Clock, Code, Error, Result, Revision, ShardId, Stopwatch, SystemClock};
use keystead_engine::{Engine, Feed};
use keystead_sinks::log::{Event, Kind, Seq, extent};
use keystead_sinks::{LogTarget, Position, Sink};

use super::super::file::Definition;
use super::super::follower::batch_file;
use super::super::judge::{Begin, History};
use super::super::shared::{Problem, Shared};
use super::super::source;
use super::change;
use super::queue::{Queued, ShardQueue};
use super::snapshot::Snapshot;
use crate::bounds::{
    SINK_PENDING_BYTES_MAX, SINK_PENDING_KEYS_MAX, SINK_POLL_CHANGES, SINK_POLL_INTERVAL,
    SINK_POSITION_EVERY, SINK_RECONNECT_AFTER, SINK_RECONNECT_AFTER_MAX,
};
use crate::data_file;

/// A shard, as the log follows it.
#[derive(Default)]
pub(super) struct Followed {
    feed: Option<Feed>,
    /// Up to which revision its changes were read.
    pub(super) read: Revision,
    pub(super) queue: ShardQueue,
}

/// A batch whose outcome is not known yet.
pub(super) struct InFlight {
    pub(super) next: Position,
    pub(super) marks: Vec<Event>,
    pub(super) taken: Vec<(ShardId, Vec<Queued>)>,
    pub(super) last: Seq,
}

pub(in super::super) struct LogFollower {
    pub(super) engine: Engine,
    pub(super) database: String,
    pub(super) definition: Arc<Definition>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) shared: Arc<Shared>,
    pub(super) dir: PathBuf,
    pub(super) shards: Vec<Followed>,
    /// Marks, which are appended before what waits in the shards.
    pub(super) marks: VecDeque<Event>,
    /// What the target has, as far as it is known.
    pub(super) position: Option<Position>,
    /// The last event there.
    pub(super) last: Seq,
    pub(super) last_batch: Option<u64>,
    known: Vec<Revision>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) snapshot: Option<Snapshot>,
    /// Up to where the present flush goes.
    flush_until: Option<Vec<Revision>>,
    /// When the position was written last.
    positioned: Stopwatch,
}

impl LogFollower {
    pub(in super::super) fn new(
        engine: &Engine,
        dir: PathBuf,
        definition: Arc<Definition>,
        sink: Arc<dyn Sink>,
        shared: Arc<Shared>,
    ) -> Result<LogFollower> {
        let Some(database) = engine.id().cloned() else {
            return Err(Error::new(Code::Unsupported, "a database in memory has no journal to follow"));
        };
        let last_batch = data_file::read(&dir, &batch_file(&definition.name))?;
        Ok(LogFollower {
            database,
            shards: engine.shard_ids().map(|_| Followed::default()).collect(),
            known: engine.shard_ids().map(|shard| engine.revision(shard)).collect(),
            engine: engine.clone(),
            last_batch: last_batch.and_then(|text| text.trim().parse().ok()),
            definition,
            sink,
            shared,
            dir,
            marks: VecDeque::new(),
            position: None,
            last: Seq(0),
            in_flight: None,
            snapshot: None,
            flush_until: None,
            positioned: Stopwatch::start(),
        })
    }

    /// Follows until the task is aborted.
    pub(in super::super) async fn run(mut self) {
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

    pub(super) fn log(&self) -> Result<&dyn LogTarget> {
        self.sink.log().ok_or_else(|| Error::new(Code::Internal, "the target has no event log"))
    }

    /// Finds out where the target is, and goes on from there.
    async fn connect(&mut self) -> Result<()> {
        self.sink.probe().await?;
        let found = self.sink.position().await?;
        let last = extent(self.log()?).await?.last;
        let is_requested = self.shared.wants_resync();
        if let Some(in_flight) = self.in_flight.take() {
            if found.as_ref() == Some(&in_flight.next) {
                self.landed(in_flight);
            } else {
                self.put_back(in_flight);
            }
        }
        // Their rows are not there, and they are appended with numbers that may be others.
        self.shared.quarantine().forget_after(last)?;
        let is_following = self.shards.iter().all(|followed| followed.feed.is_some());
        if is_following && found == self.position && last == self.last {
            if self.shared.take_resync() {
                self.begin(Kind::Begin, "it was requested");
            }
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
        (self.position, self.last, self.snapshot) = (found, last, None);
        self.marks.clear();
        match begin {
            // The position may be one of another mode.
            Begin::First | Begin::Continue(_) | Begin::Interrupted(_) if last == Seq(0) => {
                self.anew(Kind::Begin, "the log begins")?;
            }
            Begin::Continue(revisions) => {
                if self.subscribe(&revisions)? && self.shared.take_resync() {
                    self.begin(Kind::Begin, "it was requested");
                }
            }
            Begin::Interrupted(revisions) => {
                if self.subscribe(&revisions)? {
                    self.begin(Kind::Begin, "the snapshot before was interrupted");
                }
            }
            Begin::First => self.anew(Kind::Gap, "the target has lost its position")?,
            Begin::Anew(why) => self.anew(Kind::Gap, why)?,
        }
        self.shared.take_resync();
        self.publish();
        Ok(())
    }

    /// Follows all shards from these revisions on. Returns whether it does: otherwise some changes are missing, and it begins anew.
    fn subscribe(&mut self, after: &[Revision]) -> Result<bool> {
        let ids = self.engine.shard_ids().zip(after);
        let feeds: Result<Vec<Feed>> =
            ids.map(|(shard, after)| self.engine.subscribe(shard, *after)).collect();
        let feeds = match feeds {
            Err(error) if error.code() == Code::Gone => {
                self.anew(Kind::Gap, "the journal no longer has what the log needs")?;
                return Ok(false);
            }
            feeds => feeds?,
        };
        for ((followed, feed), after) in self.shards.iter_mut().zip(feeds).zip(after) {
            *followed = Followed { feed: Some(feed), read: *after, queue: ShardQueue::default() };
        }
        self.flush_until = None;
        Ok(true)
    }

    /// Follows from now on, with a snapshot first.
    fn anew(&mut self, kind: Kind, why: &'static str) -> Result<()> {
        let now: Vec<Revision> = self.engine.shard_ids().map(|shard| self.engine.revision(shard)).collect();
        for (shard, (followed, after)) in self.engine.shard_ids().zip(self.shards.iter_mut().zip(&now)) {
            let feed = self.engine.subscribe(shard, *after)?;
            *followed = Followed { feed: Some(feed), read: *after, queue: ShardQueue::default() };
        }
        self.flush_until = None;
        self.begin(kind, why);
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
        let is_all_read = match self.read().await {
            Ok(is_all_read) => is_all_read,
            Err(error) if error.code() == Code::Gone => {
                self.anew(Kind::Gap, "the target was behind for longer than the journal is kept")?;
                return Ok(Pass::More);
            }
            Err(error) => return Err(error),
        };
        if self.is_due() {
            self.append().await?;
            return Ok(Pass::More);
        }
        if !is_all_read || self.snapshot.is_some() {
            return Ok(Pass::More);
        }
        if self.positioned.elapsed() >= SINK_POSITION_EVERY && self.reached() != self.written() {
            self.append().await?;
        }
        Ok(Pass::Idle)
    }

    /// Reads what has changed, and some more of a snapshot. Returns whether all changes are read.
    async fn read(&mut self) -> Result<bool> {
        let is_all_read = self.poll(None)?;
        self.publish();
        if self.snapshot.is_some() && self.waiting() < self.definition.flush_rows {
            self.next_page().await?;
        }
        Ok(is_all_read)
    }

    /// Queues changes from the journal while there is room, and of one shard up to a revision in any case. Returns whether all are read.
    pub(super) fn poll(&mut self, until: Option<(ShardId, Revision)>) -> Result<bool> {
        let (now, time) = (Stopwatch::start(), SystemClock.now());
        let (prefix, mut left) = (self.definition.layout.prefix.as_bytes(), SINK_POLL_CHANGES);
        let mut waiting: usize = self.shards.iter().map(|followed| followed.queue.len()).sum();
        let mut bytes: usize = self.shards.iter().map(|followed| followed.queue.bytes()).sum();
        let (mut seen, mut rejected, mut is_all_read) = (0, 0, true);
        for (shard, followed) in self.engine.shard_ids().zip(&mut self.shards) {
            let Some(feed) = &mut followed.feed else { continue };
            loop {
                let must = until.is_some_and(|(of, at)| of == shard && followed.read < at);
                let has_room = left > 0 && waiting < SINK_PENDING_KEYS_MAX && bytes < SINK_PENDING_BYTES_MAX;
                if !must && (!has_room || until.is_some()) {
                    is_all_read = false;
                    break;
                }
                let Some(effects) = feed.try_next()? else { break };
                left = left.saturating_sub(effects.len());
                for effects in change::changes(&effects) {
                    let (Some(first), Some(last)) = (effects.first(), effects.last()) else { continue };
                    followed.read = last.revision;
                    let is_flush = first.fact == keystead_model::effect::Fact::Flushed;
                    if is_flush || source::is_followed(&first.key, prefix) {
                        let event = change::event(effects, shard, time);
                        seen += 1;
                        rejected += u64::from(event.kind == Kind::Rejected);
                        let queued = Queued::new(event, first.revision, false, now);
                        (waiting, bytes) = (waiting + 1, bytes + queued.bytes);
                        followed.queue.push(queued);
                    }
                }
            }
        }
        let mut status = self.shared.status();
        (status.changes, status.rejected) = (status.changes + seen, status.rejected + rejected);
        Ok(is_all_read)
    }

    /// Whether a batch is to be written now.
    fn is_due(&mut self) -> bool {
        if let Some(until) = &self.flush_until {
            let mut left = self.shards.iter().zip(until);
            if left.any(|(followed, until)| followed.queue.position(followed.read) < *until) {
                return true;
            }
            self.flush_until = None;
        }
        let retries = !self.shared.quarantine().due(SystemClock.now(), 1).is_empty();
        let rows: usize = self.shards.iter().map(|followed| followed.queue.len()).sum();
        let bytes: usize = self.shards.iter().map(|followed| followed.queue.bytes()).sum();
        let wanted = rows > 0 && self.shared.is_wanted(&self.reached());
        let mut since = self.shards.iter().filter_map(|followed| followed.queue.since());
        let is_due = rows >= self.definition.flush_rows
            || bytes >= self.definition.flush_bytes
            || wanted
            || since.any(|since| since.elapsed() >= self.definition.flush_every);
        if is_due {
            self.flush_until = Some(self.shards.iter().map(|followed| followed.read).collect());
        }
        let is_read = |one: &Snapshot| one.rows > 0 && one.scan.is_none() && one.left.is_empty();
        is_due || retries || !self.marks.is_empty() || self.snapshot.as_ref().is_some_and(is_read)
    }

    /// The target has reached this position.
    pub(super) fn landed(&mut self, in_flight: InFlight) {
        for (known, reached) in self.known.iter_mut().zip(&in_flight.next.revisions) {
            *known = (*known).max(*reached);
        }
        let rows = in_flight.taken.iter().flat_map(|(_, taken)| taken).filter(|queued| queued.is_snapshot);
        let rows = rows.count();
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.rows = snapshot.rows.saturating_sub(rows);
        }
        if in_flight.marks.iter().any(|mark| mark.kind == Kind::Complete) {
            self.snapshot = None;
            self.shared.status().resyncing = None;
            tracing::info!(sink = self.definition.name, "the snapshot is complete");
        }
        (self.position, self.last) = (Some(in_flight.next), in_flight.last);
        self.positioned = Stopwatch::start();
        self.publish();
    }

    pub(super) fn put_back(&mut self, in_flight: InFlight) {
        for mark in in_flight.marks.into_iter().rev() {
            self.marks.push_front(mark);
        }
        for (shard, taken) in in_flight.taken {
            self.shards[shard.0].queue.put_back(taken);
        }
    }

    fn waiting(&self) -> usize {
        self.marks.len() + self.shards.iter().map(|followed| followed.queue.len()).sum::<usize>()
    }

    /// Of each shard, the revision up to which nothing waits.
    pub(super) fn reached(&self) -> Vec<Revision> {
        self.shards.iter().map(|followed| followed.queue.position(followed.read)).collect()
    }

    /// Of each shard, the revision in the target's position.
    fn written(&self) -> Vec<Revision> {
        self.position.as_ref().map_or_else(Vec::new, |position| position.revisions.clone())
    }

    /// Publishes how far the target is. Until a snapshot is complete it is nowhere.
    fn publish(&self) {
        {
            let mut status = self.shared.status();
            status.pending = self.waiting();
            let since = self.shards.iter().filter_map(|followed| followed.queue.since());
            status.since = since.max_by_key(Stopwatch::elapsed);
        }
        if self.snapshot.is_none() && self.in_flight.is_none() {
            self.shared.publish(&self.reached());
        }
        self.shared.set_written(&self.written());
    }
}

/// Whether there is more to do.
enum Pass {
    More,
    Idle,
}

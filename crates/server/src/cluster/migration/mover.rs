//! The node's part in migrations: one machine behind one lock, whose outputs are executed in order.
//!
//! Invariant: an output is done, and what it persists is durable, before the next one begins. What takes long is begun here, and
//! reported to the machine when it is done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use keystead_cluster::bounds::SLOTS;
use keystead_cluster::migration::source::{Feed, SourcePhase};
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{Digest, Member, Message, MigrationId, NodeId, Output, SlotSet, SlotTable};
use keystead_core::{Code, Error, Result, Stopwatch};
use keystead_model::keyspace::SlotAccess;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use super::call::Peer;
use super::counts::Counts;
use super::follower::Follower;
use super::records::Records;
use super::source::not_source;
use super::target::{Staged, TargetStage};
use super::throttle::Throttle;
use super::tracker::Tracker;
use super::{data, source, target};
use crate::app::App;
use crate::cluster::copy;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The migrations of this node.
pub(crate) struct Mover {
    pub(super) inner: Mutex<Inner>,
    /// Counts the times that slots were opened, closed or given away.
    pub(super) changed: watch::Sender<u64>,
    runtime: Handle,
    pub(super) throttle: Throttle,
    pub(crate) counts: Counts,
}

pub(super) struct Inner {
    pub(super) member: Member,
    /// What the machine has said and what is not done yet. After an error it is tried again, and nothing follows before.
    pending: VecDeque<Output>,
    /// Whether the fence may differ from what the machine says.
    is_dirty: bool,
    records: Records,
    /// Whether the records on the disk are older.
    is_unsaved: bool,
    dir: PathBuf,
    /// What requests may do with each slot, as the shards have it.
    pub(super) applied: Vec<SlotAccess>,
    /// The slots that this node has and that the table does not give to it yet, as requests have it.
    pub(super) expected: SlotSet,
    /// Of the migrations from this node.
    pub(super) trackers: BTreeMap<MigrationId, Arc<Tracker>>,
    follower: Weak<Follower>,
    /// What is staged of the migrations to this node. Each has a task.
    pub(super) pulls: BTreeMap<MigrationId, Arc<Mutex<Staged>>>,
    /// Long work that has begun and not ended.
    pub(super) busy: BTreeSet<(Work, MigrationId)>,
    /// Since when the slots of a migration from this node are not served.
    pub(super) frozen: BTreeMap<MigrationId, Stopwatch>,
    /// Why a migration does not go on.
    pub(super) troubles: BTreeMap<MigrationId, Error>,
}

impl Inner {
    /// Whether everything that the machine has said is done: only then may others see how far it is.
    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Writes the records to the disk if that is needed, for all outputs together that only change them and follow one another.
    async fn save_records(&mut self, is_needed: bool) -> Result<()> {
        self.is_unsaved |= is_needed;
        let changes_records = |output: &Output| {
            matches!(
                output,
                Output::PersistSource(_)
                    | Output::ForgetSource(_)
                    | Output::PersistTarget(_)
                    | Output::ForgetTarget(_)
            )
        };
        // The first one is being executed.
        if !self.is_unsaved || self.pending.get(1).is_some_and(changes_records) {
            return Ok(());
        }
        let (records, dir) = (self.records.clone(), self.dir.clone());
        on_disk(move || records.save(&dir)).await?;
        self.is_unsaved = false;
        Ok(())
    }
}

/// How far a target is.
pub(super) struct TargetNow {
    pub(super) stage: TargetStage,
    pub(super) is_comparing: bool,
    /// Whether it knows how far it is behind.
    pub(super) has_asked: bool,
}

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Seal,
    Compare,
    Delete,
    Conclude,
}

impl Mover {
    /// Continues what was persisted, with this table. Returns when the fence is up.
    pub(crate) async fn start(app: &Arc<App>, table: Arc<SlotTable>, id: NodeId) -> Result<Arc<Mover>> {
        let dir = app.settings.data.clone();
        let records = Records::load(&dir)?;
        let mut outputs = Vec::new();
        let member =
            Member::restart(id, table, records.sources.clone(), records.targets.clone(), &mut outputs);
        let inner = Inner {
            member,
            pending: VecDeque::new(),
            is_dirty: true,
            records,
            is_unsaved: false,
            dir,
            applied: vec![SlotAccess::Open; usize::from(SLOTS)],
            expected: SlotSet::default(),
            trackers: BTreeMap::new(),
            follower: Weak::new(),
            pulls: BTreeMap::new(),
            busy: BTreeSet::new(),
            frozen: BTreeMap::new(),
            troubles: BTreeMap::new(),
        };
        let mover = Arc::new(Mover {
            inner: Mutex::new(inner),
            changed: watch::Sender::new(0),
            runtime: Handle::current(),
            throttle: Throttle::default(),
            counts: Counts::default(),
        });
        let mut inner = mover.inner.lock().await;
        // Behind the fence from the first moment: what this node must not serve, it does not.
        let all: SlotSet = (0..SLOTS).collect();
        data::set_access(&app.engine, &all, SlotAccess::Foreign, |_| {}).await?;
        inner.applied.fill(SlotAccess::Foreign);
        mover.finish(app, &mut inner, outputs).await?;
        drop(inner);
        Ok(mover)
    }

    /// Makes the node that is in the cluster now follow the machine.
    pub(crate) async fn announce(&self, app: &Arc<App>) {
        let inner = self.inner.lock().await;
        if let Some(cluster) = app.hub.cluster.get() {
            let is_closed = |slot: u16, _| inner.applied[usize::from(slot)] == SlotAccess::Closed;
            cluster.learn(Arc::clone(inner.member.table()), is_closed);
            cluster.set_moving(!inner.member.sources().is_empty() || !inner.member.targets().is_empty());
        }
    }

    /// Changes when slots are opened, closed or given away.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How many bytes a second this node takes in; 0: no limit.
    pub(crate) fn set_rate(&self, bytes_per_second: u64) {
        self.throttle.set(bytes_per_second);
    }

    /// The server's runtime.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Follows a table that it may follow.
    pub(crate) async fn learn(self: &Arc<Self>, app: &Arc<App>, table: Arc<SlotTable>) -> Result<()> {
        self.step(app, |member, out| Ok(member.learn(table, out)?)).await
    }

    /// Does again what may have been lost.
    pub(crate) async fn tick(self: &Arc<Self>, app: &Arc<App>) -> Result<()> {
        self.step(app, |member, out| {
            member.tick(out);
            Ok(())
        })
        .await?;
        self.begin_conclusions(app, &mut *self.inner.lock().await);
        Ok(())
    }

    /// Gives the machine something, and executes what follows.
    pub(super) fn step<'a>(
        self: &'a Arc<Self>,
        app: &'a Arc<App>,
        run: impl FnOnce(&mut Member, &mut Vec<Output>) -> Result<()> + Send + 'a,
    ) -> BoxFuture<'a, Result<()>> {
        // Boxed, here and below, because what follows may begin a task that calls it.
        Box::pin(async move {
            let mut inner = self.inner.lock().await;
            self.finish(app, &mut inner, Vec::new()).await?;
            let mut outputs = Vec::new();
            run(&mut inner.member, &mut outputs)?;
            self.finish(app, &mut inner, outputs).await
        })
    }

    /// A message of a target to this node as its source. Returns what to send back.
    pub(super) async fn ask(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
        body: Body,
        feed: Feed,
    ) -> Result<Option<Body>> {
        let mut inner = self.inner.lock().await;
        self.finish(app, &mut inner, Vec::new()).await?;
        let mut outputs = Vec::new();
        inner.member.receive(&Message { id, body }, feed, &mut outputs);
        let reply = outputs.iter().find_map(|output| match output {
            Output::Send(_, message) if message.id == id => Some(message.body),
            _ => None,
        });
        self.finish(app, &mut inner, outputs).await?;
        Ok(reply)
    }

    /// Long work has ended.
    pub(super) fn done<'a>(
        self: &'a Arc<Self>,
        app: &'a Arc<App>,
        work: Work,
        id: MigrationId,
        result: Done,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut inner = self.inner.lock().await;
            inner.busy.remove(&(work, id));
            let mut outputs = Vec::new();
            match result {
                Done::Sealed(attempt, sealed) => inner.member.sealed(id, attempt, sealed, &mut outputs),
                Done::NotSealed => inner.member.give_up_sealing(id, &mut outputs),
                Done::Compared(digest) => inner.member.compared(id, digest, &mut outputs),
                Done::Deleted => inner.member.deleted(id, &mut outputs),
                Done::Failed(error) => {
                    inner.troubles.insert(id, error);
                }
            }
            inner.is_dirty = true;
            if let Err(error) = self.finish(app, &mut inner, outputs).await {
                tracing::warn!(migration = id.0, %error, "a migration does not go on");
            }
        })
    }

    /// Executes outputs after those that could not be, and what they lead to, then makes the fence follow the machine.
    async fn finish(self: &Arc<Self>, app: &Arc<App>, inner: &mut Inner, outputs: Vec<Output>) -> Result<()> {
        inner.pending.extend(outputs);
        while let Some(output) = inner.pending.front().cloned() {
            inner.is_dirty |= may_change_access(&output);
            let more = self.execute(app, inner, output).await?;
            inner.pending.pop_front();
            inner.pending.extend(more);
        }
        if !inner.is_dirty {
            return Ok(());
        }
        self.open_and_close(app, inner).await?;
        inner.is_dirty = false;
        self.begin_pulls(app, inner);
        let Inner { member, trackers, troubles, frozen, .. } = inner;
        let frozen_now = |id: &MigrationId| {
            let source = member.sources().iter().find(|source| source.migration().id == *id);
            source.map(|source| matches!(source.phase(), SourcePhase::Durable(_)))
        };
        trackers.retain(|id, tracker| {
            let is_frozen = frozen_now(id);
            tracker.following().set_sealed(is_frozen == Some(true));
            is_frozen.is_some()
        });
        let all_frozen = member.sources().iter().map(|source| source.migration().id);
        for id in all_frozen.filter(|id| frozen_now(id) == Some(true)) {
            frozen.entry(id).or_insert_with(Stopwatch::start);
        }
        frozen.retain(|id, _| frozen_now(id) == Some(true));
        let is_known = |id: &MigrationId| member.table().migration(*id).is_some();
        troubles.retain(|id, _| is_known(id));
        self.begin_conclusions(app, inner);
        Ok(())
    }

    async fn execute(
        self: &Arc<Self>,
        app: &Arc<App>,
        inner: &mut Inner,
        output: Output,
    ) -> Result<Vec<Output>> {
        let Inner { member, records, dir, busy, .. } = inner;
        let mut more = Vec::new();
        match output {
            Output::PersistTable(table) => {
                let dir = dir.clone();
                on_disk(move || copy::save(&dir, &table)).await?;
            }
            Output::PersistSource(record) => {
                records.put_source(record);
                inner.save_records(true).await?;
            }
            Output::ForgetSource(id) => {
                records.forget_source(id);
                inner.save_records(true).await?;
            }
            Output::PersistTarget(record) => {
                // A position need not be durable: an older one is as good, because what was staged since is durable, and is staged again.
                let is_needed = !records.put_target(record);
                inner.save_records(is_needed).await?;
            }
            Output::ForgetTarget(id) => {
                records.forget_target(id);
                inner.save_records(true).await?;
            }
            Output::ClearStaging(id) => {
                // Where the migration goes on, its task does that before it copies. Where it has ended, nothing may be staged any more.
                if member.targets().iter().any(|target| target.migration().id == id) {
                    return Ok(more);
                }
                if let Some(staged) = inner.pulls.get(&id) {
                    staged.lock().await.has_ended = true;
                }
                let slots = inner.records.targets.iter().find(|record| record.migration.id == id);
                if let Some(slots) = slots.map(|record| record.migration.slots.clone()) {
                    data::delete(&app.engine, &slots).await?;
                    self.counts.aborted.fetch_add(1, Ordering::Relaxed);
                }
                inner.pulls.remove(&id);
            }
            // It is in the keyspace already, behind the fence.
            Output::Promote(id) => {
                self.counts.finished.fetch_add(1, Ordering::Relaxed);
                member.promoted(id, &mut more);
            }
            Output::Seal(id, attempt) => {
                let source = member.sources().iter().find(|source| source.migration().id == id);
                if let Some(source) = source
                    && busy.insert((Work::Seal, id))
                {
                    let (slots, tracker) =
                        (source.migration().slots.clone(), inner.trackers.get(&id).cloned());
                    self.runtime.spawn(source::seal(
                        Arc::clone(app),
                        Arc::clone(self),
                        id,
                        attempt,
                        slots,
                        tracker,
                    ));
                }
            }
            Output::Compare(id) => {
                let target = member.targets().iter().find(|target| target.migration().id == id);
                if let Some((target, sealed)) = target.and_then(|target| Some((target, target.sealed()?)))
                    && busy.insert((Work::Compare, id))
                {
                    let (slots, staged) = (target.migration().slots.clone(), inner.pulls.get(&id).cloned());
                    self.runtime.spawn(target::compare(
                        Arc::clone(app),
                        Arc::clone(self),
                        id,
                        slots,
                        sealed,
                        staged,
                    ));
                }
            }
            Output::Delete(id) => {
                let record = records.sources.iter().find(|record| record.migration.id == id);
                if let Some(record) = record
                    && busy.insert((Work::Delete, id))
                {
                    let slots = record.migration.slots.clone();
                    self.runtime.spawn(source::delete(Arc::clone(app), Arc::clone(self), id, slots));
                }
            }
            // A target asks its source, and an operator asks a target, until they have an answer. Data is staged before the machine
            // gets the message. Requests that wait are woken when the fence has changed.
            Output::Send(..) | Output::Stage(_) | Output::Release(..) => {}
        }
        Ok(more)
    }

    /// Every migration to this node has a task that copies and follows.
    fn begin_pulls(self: &Arc<Self>, app: &Arc<App>, inner: &mut Inner) {
        let Inner { member, pulls, .. } = inner;
        pulls.retain(|id, _| member.targets().iter().any(|target| target.migration().id == *id));
        for target in member.targets() {
            let migration = target.migration();
            let Some(from) = member.table().node(&migration.from) else { continue };
            pulls.entry(migration.id).or_insert_with(|| {
                let staged = Arc::new(Mutex::new(Staged::default()));
                let pull = target::Pull {
                    app: Arc::clone(app),
                    mover: Arc::clone(self),
                    migration: migration.clone(),
                    source: Peer::new(from.clone(), member.table().cluster(), app.settings.token.as_ref()),
                    staged: Arc::clone(&staged),
                    page: 0,
                };
                self.runtime.spawn(pull.run());
                staged
            });
        }
    }

    /// How far a target is; `None` if there is no such migration to this node. What is not done yet is tried before.
    pub(super) async fn target_now(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
    ) -> Result<Option<TargetNow>> {
        let mut inner = self.inner.lock().await;
        if !inner.is_settled() {
            self.finish(app, &mut inner, Vec::new()).await?;
        }
        let target = inner.member.targets().iter().find(|target| target.migration().id == id);
        Ok(target.map(|target| TargetNow {
            stage: target.stage(),
            is_comparing: target.is_comparing(),
            has_asked: target.progress().is_some(),
        }))
    }

    pub(super) async fn trouble(&self, id: MigrationId, trouble: Option<Error>) {
        let mut inner = self.inner.lock().await;
        match trouble {
            Some(why) => drop(inner.troubles.insert(id, why)),
            None => drop(inner.troubles.remove(&id)),
        }
    }

    /// The tracker of a migration from this node. It begins with the first request for it.
    pub(super) async fn tracker_of(&self, app: &App, id: MigrationId) -> Result<Arc<Tracker>> {
        let mut inner = self.inner.lock().await;
        let source = inner.member.sources().iter().find(|source| source.migration().id == id);
        let slots = source.ok_or_else(|| not_source(id))?.migration().slots.clone();
        if let Some(tracker) = inner.trackers.get(&id).filter(|tracker| !tracker.following().is_broken()) {
            return Ok(Arc::clone(tracker));
        }
        let follower = match inner.follower.upgrade().filter(|follower| !follower.is_broken()) {
            Some(follower) => follower,
            None => Follower::start(&app.engine)?,
        };
        inner.follower = Arc::downgrade(&follower);
        let tracker = Arc::new(Tracker::start(&app.engine, &slots, &follower));
        inner.trackers.insert(id, Arc::clone(&tracker));
        inner.is_dirty = true;
        Ok(tracker)
    }
}

/// Whether the fence, or what is expected of this node, may be another one after this.
fn may_change_access(output: &Output) -> bool {
    match output {
        Output::Send(..) | Output::Stage(_) | Output::Compare(_) => false,
        Output::PersistTarget(record) => record.stage == TargetStage::Ready,
        _ => true,
    }
}

/// The end of long work.
pub(super) enum Done {
    Sealed(u32, Sealed),
    NotSealed,
    Compared(Digest),
    Deleted,
    Failed(Error),
}

/// Writes to the disk, on a thread that may wait for it.
async fn on_disk(write: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

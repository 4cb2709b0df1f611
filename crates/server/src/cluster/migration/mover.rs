//! The node's part in migrations: one machine behind one lock, whose outputs are executed in order.
//!
//! Invariant: an output is done, and what it persists is durable, before the next one begins. What takes long is begun here, and
//! reported to the machine when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use keystead_cluster::bounds::SLOTS;
use keystead_cluster::migration::source::{Feed, SourcePhase};
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{Access, Digest, Member, Message, MigrationId, NodeId, Output, SlotSet, SlotTable};
use keystead_core::{Code, Error, Result};
use keystead_model::keyspace::SlotAccess;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::call::Peer;
use super::records::Records;
use super::tracker::Tracker;
use super::{data, source, target};
use crate::app::App;
use crate::cluster::copy;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The migrations of this node.
pub(crate) struct Mover {
    inner: Mutex<Inner>,
    /// Counts the times that slots were opened, closed or given away.
    changed: watch::Sender<u64>,
    runtime: Handle,
}

struct Inner {
    member: Member,
    records: Records,
    dir: PathBuf,
    /// What requests may do with each slot, as the shards have it.
    applied: Vec<SlotAccess>,
    /// Of the migrations from this node.
    trackers: BTreeMap<MigrationId, Arc<Tracker>>,
    /// For each migration to this node that has a task, whether that may still stage.
    pulls: BTreeMap<MigrationId, Arc<Mutex<bool>>>,
    /// Long work that has begun and not ended.
    busy: BTreeSet<(Work, MigrationId)>,
    /// Why a migration does not go on.
    troubles: BTreeMap<MigrationId, String>,
}

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Seal,
    Compare,
    Delete,
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
            records,
            dir,
            applied: vec![SlotAccess::Open; usize::from(SLOTS)],
            trackers: BTreeMap::new(),
            pulls: BTreeMap::new(),
            busy: BTreeSet::new(),
            troubles: BTreeMap::new(),
        };
        let mover = Arc::new(Mover {
            inner: Mutex::new(inner),
            changed: watch::Sender::new(0),
            runtime: Handle::current(),
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
        .await
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
                    inner.troubles.insert(id, error.message().to_owned());
                }
            }
            if let Err(error) = self.finish(app, &mut inner, outputs).await {
                tracing::warn!(migration = id.0, %error, "a migration does not go on");
            }
        })
    }

    /// Executes outputs, and what they lead to, then makes the fence follow the machine.
    async fn finish(
        self: &Arc<Self>,
        app: &Arc<App>,
        inner: &mut MutexGuard<'_, Inner>,
        outputs: Vec<Output>,
    ) -> Result<()> {
        let mut outputs: std::collections::VecDeque<Output> = outputs.into();
        while let Some(output) = outputs.pop_front() {
            outputs.extend(self.execute(app, inner, output).await?);
        }
        self.open_and_close(app, inner).await?;
        self.begin_pulls(app, inner);
        let Inner { member, trackers, troubles, .. } = &mut **inner;
        trackers.retain(|id, tracker| {
            let source = member.sources().iter().find(|source| source.migration().id == *id);
            tracker
                .set_sealed(source.is_some_and(|source| matches!(source.phase(), SourcePhase::Durable(_))));
            source.is_some()
        });
        let is_known = |id: &MigrationId| member.table().migration(*id).is_some();
        troubles.retain(|id, _| is_known(id));
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
                save(records, dir).await?;
            }
            Output::ForgetSource(id) => {
                records.forget_source(id);
                save(records, dir).await?;
            }
            Output::PersistTarget(record) => {
                records.put_target(record);
                save(records, dir).await?;
            }
            Output::ForgetTarget(id) => {
                records.forget_target(id);
                save(records, dir).await?;
            }
            Output::ClearStaging(id) => {
                // The task itself asks for it when it must copy again. When the migration has ended, nothing may be staged any more.
                if !member.targets().iter().any(|target| target.migration().id == id)
                    && let Some(may_stage) = inner.pulls.remove(&id)
                {
                    *may_stage.lock().await = false;
                }
                let slots = inner.records.targets.iter().find(|record| record.migration.id == id);
                if let Some(slots) = slots.map(|record| record.migration.slots.clone()) {
                    data::delete(&app.engine, &slots).await?;
                }
            }
            // It is in the keyspace already, behind the fence.
            Output::Promote(id) => member.promoted(id, &mut more),
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
                    let slots = target.migration().slots.clone();
                    self.runtime.spawn(target::compare(Arc::clone(app), Arc::clone(self), id, slots, sealed));
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

    /// Opens and closes slots as the machine says. Only sealing closes an open slot, on the thread of its shard.
    async fn open_and_close(&self, app: &Arc<App>, inner: &mut Inner) -> Result<()> {
        let Some(cluster) = app.hub.cluster.get() else { return self.open_first(app, inner).await };
        let is_me = |id: &NodeId| inner.member.table().node(id).is_some_and(|node| cluster.is_me(node));
        let serves = is_me(inner.member.id());
        let wanted = |slot: u16| match inner.member.access(slot) {
            Access::Serve if serves => SlotAccess::Open,
            Access::Park(_) if serves => SlotAccess::Closed,
            _ => SlotAccess::Foreign,
        };
        let is_moving = !inner.member.sources().is_empty() || !inner.member.targets().is_empty();
        let mut next = [const { Vec::new() }; 3];
        for slot in 0..SLOTS {
            match (inner.applied[usize::from(slot)], wanted(slot)) {
                // A slot that is sealed closes itself.
                (before, after)
                    if before == after || before == SlotAccess::Open && after == SlotAccess::Closed => {}
                (_, after) => next[after as usize].push(slot),
            }
        }
        cluster.set_moving(is_moving);
        let is_changed = next.iter().any(|slots| !slots.is_empty());
        for access in [SlotAccess::Foreign, SlotAccess::Closed, SlotAccess::Open] {
            let slots: SlotSet = next[access as usize].iter().copied().collect();
            if !slots.is_empty() {
                // Foreign first for requests, then for the shard; open first for the shard, then for requests.
                data::set_access(&app.engine, &slots, access, |_| {}).await?;
                slots.iter().for_each(|slot| inner.applied[usize::from(slot)] = access);
            }
        }
        let (table, applied) = (Arc::clone(inner.member.table()), &inner.applied);
        if is_changed || *cluster.table() != *table {
            // One that is being sealed has been closed, and that is noted a moment later.
            cluster.learn(table, |slot, is_parked| {
                applied[usize::from(slot)] == SlotAccess::Closed
                    || is_parked && wanted(slot) == SlotAccess::Closed
            });
            self.changed.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Before the node is in the cluster: its slots are open for the moment when it is.
    async fn open_first(&self, app: &Arc<App>, inner: &mut Inner) -> Result<()> {
        for access in [SlotAccess::Open, SlotAccess::Closed] {
            let is_wanted = |slot: &u16| match inner.member.access(*slot) {
                Access::Serve => access == SlotAccess::Open,
                Access::Park(_) => access == SlotAccess::Closed,
                _ => false,
            };
            let slots: SlotSet = (0..SLOTS).filter(is_wanted).collect();
            data::set_access(&app.engine, &slots, access, |_| {}).await?;
            slots.iter().for_each(|slot| inner.applied[usize::from(slot)] = access);
        }
        Ok(())
    }

    /// A slot is closed on its shard's thread, with the requests for it.
    pub(super) async fn closed(&self, slots: &SlotSet) {
        let mut inner = self.inner.lock().await;
        slots.iter().for_each(|slot| inner.applied[usize::from(slot)] = SlotAccess::Closed);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Every migration to this node has a task that copies and follows.
    fn begin_pulls(self: &Arc<Self>, app: &Arc<App>, inner: &mut Inner) {
        let Inner { member, pulls, .. } = inner;
        pulls.retain(|id, _| member.targets().iter().any(|target| target.migration().id == *id));
        for target in member.targets() {
            let migration = target.migration();
            let Some(from) = member.table().node(&migration.from) else { continue };
            pulls.entry(migration.id).or_insert_with(|| {
                let may_stage = Arc::new(Mutex::new(true));
                let pull = target::Pull {
                    app: Arc::clone(app),
                    mover: Arc::clone(self),
                    migration: migration.clone(),
                    source: Peer::new(from.clone(), member.table().cluster(), app.settings.token.as_ref()),
                    may_stage: Arc::clone(&may_stage),
                };
                self.runtime.spawn(pull.run());
                may_stage
            });
        }
    }

    /// What a target is doing; `None` if there is no such migration to this node.
    pub(super) async fn target_stage(&self, id: MigrationId) -> Option<(target::TargetStage, bool)> {
        let inner = self.inner.lock().await;
        let target = inner.member.targets().iter().find(|target| target.migration().id == id)?;
        Some((target.stage(), target.is_comparing()))
    }

    pub(super) async fn trouble(&self, id: MigrationId, trouble: Option<String>) {
        let mut inner = self.inner.lock().await;
        match trouble {
            Some(why) => drop(inner.troubles.insert(id, why)),
            None => drop(inner.troubles.remove(&id)),
        }
    }

    /// The tracker of a migration from this node, if it has begun; or the slots, if this node is the source and there is none yet.
    pub(super) async fn tracker(
        &self,
        id: MigrationId,
    ) -> Option<std::result::Result<Arc<Tracker>, SlotSet>> {
        let inner = self.inner.lock().await;
        let source = inner.member.sources().iter().find(|source| source.migration().id == id)?;
        let tracker = inner.trackers.get(&id).filter(|tracker| !tracker.is_broken());
        Some(tracker.cloned().ok_or_else(|| source.migration().slots.clone()))
    }

    pub(super) async fn put_tracker(&self, id: MigrationId, tracker: Arc<Tracker>) {
        self.inner.lock().await.trackers.insert(id, tracker);
    }

    /// For operators: the migrations of this node, and how far they are.
    pub(crate) async fn report(&self) -> Value {
        let inner = self.inner.lock().await;
        let trouble = |id: MigrationId| inner.troubles.get(&id);
        let sources = inner.member.sources().iter().map(|source| {
            let id = source.migration().id;
            let phase = match source.phase() {
                SourcePhase::Serving => "serving",
                SourcePhase::Sealing => "sealing",
                SourcePhase::Durable(stage) => match stage {
                    keystead_cluster::migration::source::SourceStage::Frozen(_) => "frozen",
                    keystead_cluster::migration::source::SourceStage::Cleaning => "cleaning",
                },
            };
            let keys = inner.trackers.get(&id).map(|tracker| tracker.keys());
            json!({ "id": id, "role": "source", "phase": phase, "keys": keys, "trouble": trouble(id) })
        });
        let targets = inner.member.targets().iter().map(|target| {
            let id = target.migration().id;
            json!({ "id": id, "role": "target", "progress": target.progress(), "trouble": trouble(id) })
        });
        json!({
            "node": inner.member.id().as_str(),
            "epoch": inner.member.table().epoch().0,
            "migrations": sources.chain(targets).collect::<Vec<_>>(),
        })
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

async fn save(records: &Records, dir: &Path) -> Result<()> {
    let (records, dir) = (records.clone(), dir.to_owned());
    on_disk(move || records.save(&dir)).await
}

/// Writes to the disk, on a thread that may wait for it.
async fn on_disk(write: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

//! What a node reports of its migrations to operators and to the metrics. Touches the keys, to count them.

use std::sync::atomic::Ordering;

use keystead_cluster::migration::Progress;
use keystead_cluster::migration::source::{SourcePhase, SourceStage};
use keystead_cluster::{Migration, MigrationId};
use keystead_core::{Code, Result};
use serde_json::{Value, json};

use super::data;
use super::mover::{Inner, Mover};
use crate::app::App;
use crate::free_memory::free_bytes;

/// The migrations of a node, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Keys that have changed and are not at a target yet, where that is known.
    pub(crate) lag: u64,
}

impl Mover {
    /// For operators: the migrations of this node, and how far they are.
    pub(crate) async fn report(&self, app: &App) -> Value {
        let inner = self.inner.lock().await;
        let sources = inner.member.sources().iter().map(|source| {
            let id = source.migration().id;
            let phase = match source.phase() {
                _ if !inner.is_settled() => "waiting",
                SourcePhase::Serving => "serving",
                SourcePhase::Sealing => "sealing",
                SourcePhase::Durable(SourceStage::Frozen(_)) => "frozen",
                SourcePhase::Durable(SourceStage::Cleaning) => "cleaning",
            };
            let keys = inner.trackers.get(&id).and_then(|tracker| tracker.keys());
            let own = json!({ "role": "source", "phase": phase, "keys": keys });
            row(&inner, source.migration(), own)
        });
        let targets = inner.member.targets().iter().map(|target| {
            // What is not durable yet may not be acted on.
            let progress = target.progress().filter(|_| inner.is_settled());
            let staged =
                inner.pulls.get(&target.migration().id).and_then(|staged| staged.try_lock().ok()?.keys());
            let stage = match target {
                target if target.is_promoting() => "promoting",
                target if target.is_comparing() => "comparing",
                _ => "following",
            };
            let own = json!({ "role": "target", "progress": progress, "keys": staged, "stage": stage });
            row(&inner, target.migration(), own)
        });
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "node": inner.member.id().as_str(),
            "epoch": inner.member.table().epoch().0,
            "migrations": sources.chain(targets).collect::<Vec<_>>(),
            "redirects": app.hub.cluster.get().map(|cluster| cluster.redirects()),
            "parked": app.cluster.get().map(|membership| membership.parked()),
            "received_keys": count(&self.counts.received_keys),
            "received_bytes": count(&self.counts.received_bytes),
        })
    }

    /// The migrations of this node, counted; nothing while the machine is busy.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let inner = self.inner.try_lock().ok()?;
        let (sources, targets) = (inner.member.sources(), inner.member.targets());
        let lag = |progress| match progress {
            Some(Progress::Tailing { lag }) if lag < u64::MAX => lag,
            _ => 0,
        };
        let lag = targets.iter().map(|target| lag(target.progress())).sum();
        Some(UnderWay { from: sources.len(), to: targets.len(), lag })
    }

    /// For operators: keys and bytes of each slot of this node that has some, and how much more fits.
    pub(crate) async fn sizes(&self, app: &App) -> Result<Value> {
        let sizes = data::sizes(&app.engine).await?;
        let slots: Vec<Value> = (0u16..)
            .zip(&sizes)
            .filter(|(_, size)| size.keys > 0)
            .map(|(slot, size)| json!([slot, size.keys, size.entry_bytes, size.bytes]))
            .collect();
        let entry_bytes: u64 = sizes.iter().map(|size| size.entry_bytes).sum();
        let limited = app.settings.memory_bytes.map(|most| (most as u64).saturating_sub(entry_bytes));
        let memory = match limited {
            Some(free) => Some(free),
            None => free_bytes(),
        };
        let disk = rustix::fs::statvfs(&app.settings.data)
            .ok()
            .map(|system| system.f_bavail.saturating_mul(system.f_frsize));
        Ok(json!({ "slots": slots, "memory_free": memory, "evicts": limited.is_some(), "disk_free": disk }))
    }
}

/// What every row has.
fn row(inner: &Inner, migration: &Migration, own: Value) -> Value {
    let id: MigrationId = migration.id;
    let trouble = inner.troubles.get(&id);
    // What will not go away by itself.
    let is_final = |code| matches!(code, Code::OutOfMemory | Code::TooLarge | Code::Unsupported);
    let mut row = json!({
        "id": id,
        "from": migration.from.as_str(),
        "to": migration.to.as_str(),
        "slots": migration.slots.len(),
        "trouble": trouble.map(|error| error.message()),
        "refused": trouble.is_some_and(|error| is_final(error.code())),
    });
    if let (Some(row), Value::Object(own)) = (row.as_object_mut(), own) {
        row.extend(own);
    }
    row
}

//! Opens and closes slots, for requests and on the shards. Touches the shards, and the cluster of the hub.
//!
//! Invariant: a node serves a slot only while its machine says so. Foreign comes first for requests, then for the shard; open comes first
//! for the shard, then for requests. Only sealing closes an open slot, on the thread of its shard.

use std::sync::Arc;

use keystead_cluster::bounds::SLOTS;
use keystead_cluster::migration::target::TargetStage;
use keystead_cluster::{Access, NodeId, SlotSet};
use keystead_core::Result;
use keystead_model::keyspace::SlotAccess;

use super::data;
use super::mover::{Inner, Mover};
use crate::app::App;

impl Mover {
    /// Opens and closes slots as the machine says. Only sealing closes an open slot, on the thread of its shard.
    pub(super) async fn open_and_close(&self, app: &Arc<App>, inner: &mut Inner) -> Result<()> {
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
        let table = Arc::clone(inner.member.table());
        let ready = inner.member.targets().iter().filter(|target| target.stage() == TargetStage::Ready);
        let expected: SlotSet = ready.flat_map(|target| target.migration().slots.iter()).collect();
        let is_expected_now = std::mem::replace(&mut inner.expected, expected) != inner.expected;
        let (applied, expected) = (&inner.applied, &inner.expected);
        if is_changed || is_expected_now || *cluster.table() != *table {
            // One that is being sealed has been closed, and that is noted a moment later.
            cluster.learn(table, |slot, is_parked| {
                applied[usize::from(slot)] == SlotAccess::Closed
                    || is_parked && wanted(slot) == SlotAccess::Closed
                    || expected.contains(slot)
            });
            app.hub.end_foreign_shard_channels();
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
}

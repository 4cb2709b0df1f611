//! Ends migrations without an operator, so that nobody waits for one that has died: a target that has everything makes itself the owner, and a
//! source whose slots nobody serves for too long takes them back. Touches the store of the table, and the other node.
//!
//! Both name the migration, which ends one time: whichever comes first is what happens, and any number of nodes and operators may try.

use std::sync::Arc;

use keystead_cluster::migration::target::TargetStage;
use keystead_cluster::{Edit, MigrationId, NodeId, TableStep};

use super::call::{PATH, Peer};
use super::mover::{Inner, Mover, Work};
use crate::app::App;
use crate::bounds::FROZEN_TIMEOUT;

impl Mover {
    /// Begins what is due. Called again regularly while slots move.
    pub(super) fn begin_conclusions(self: &Arc<Self>, app: &Arc<App>, inner: &mut Inner) {
        let Inner { member, busy, frozen, .. } = inner;
        let table = member.table();
        let ready = member.targets().iter().filter(|target| target.stage() == TargetStage::Ready);
        let finish = ready.map(|target| (target.migration(), &target.migration().from, Edit::Finish));
        let late = member.sources().iter().filter(|source| {
            frozen.get(&source.migration().id).is_some_and(|since| since.elapsed() > FROZEN_TIMEOUT)
        });
        let abort = late.map(|source| (source.migration(), &source.migration().to, Edit::Abort));
        let due: Vec<(MigrationId, &NodeId, Edit)> = finish
            .map(|(migration, other, edit)| (migration.id, other, edit(migration.id)))
            .chain(abort.map(|(migration, other, edit)| (migration.id, other, edit(migration.id))))
            .filter(|(id, ..)| table.migration(*id).is_some())
            .collect();
        for (id, other, edit) in due {
            if busy.insert((Work::Conclude, id)) {
                let other = table
                    .node(other)
                    .map(|node| Peer::new(node.clone(), table.cluster(), app.settings.token.as_ref()));
                self.runtime().spawn(conclude(Arc::clone(app), Arc::clone(self), id, edit, other));
            }
        }
    }
}

async fn conclude(app: Arc<App>, mover: Arc<Mover>, id: MigrationId, edit: Edit, other: Option<Peer>) {
    if let Some(membership) = app.cluster.get() {
        let changed = membership.change(&app, &TableStep::from(edit)).await;
        if let Err(error) = &changed {
            tracing::debug!(migration = id.0, %error, "the table is not changed yet");
        }
        if let (Ok(true), Some(mut other)) = (changed, other) {
            // It would read the table by itself a little later.
            let _ = other.call(hyper::Method::POST, &format!("{PATH}/refresh"), Vec::new()).await;
        }
    }
    mover.inner.lock().await.busy.remove(&(Work::Conclude, id));
}

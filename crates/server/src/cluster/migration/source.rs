//! The node that has the slots: what it sends to the target, how it seals, how it deletes. Touches the shards.

use std::sync::Arc;

use keystead_cluster::migration::source::Feed;
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{MigrationId, SlotSet};
use keystead_core::{Code, Error, Result, Revision};
use keystead_model::Bytes;
use keystead_model::keyspace::SlotAccess;
use tokio::time::timeout;

use super::data;
use super::mover::{Done, Mover, Work};
use super::tracker::Tracker;
use crate::app::App;
use crate::bounds::{
    MIGRATION_BATCH_BYTES, MIGRATION_BATCH_KEYS, MIGRATION_CLOCK_SKEW, MIGRATION_TAIL_WAIT, SEAL_TIMEOUT,
};

/// A part of a copy.
pub(crate) struct Page {
    /// The last name in it; `None`: this was everything.
    pub(crate) last: Option<Bytes>,
    /// The position at which the copy began.
    pub(crate) began: Revision,
    /// With the last page: what the protocol says.
    pub(crate) message: Option<Body>,
    pub(crate) data: Vec<u8>,
}

impl Mover {
    async fn tracker_of(&self, app: &App, id: MigrationId) -> Result<Arc<Tracker>> {
        match self.tracker(id).await {
            None => Err(not_source(id)),
            Some(Ok(tracker)) => Ok(tracker),
            Some(Err(slots)) => {
                let tracker = Arc::new(Tracker::start(&app.engine, &slots).await?);
                self.put_tracker(id, Arc::clone(&tracker)).await;
                Ok(tracker)
            }
        }
    }

    /// The next part of a copy that began at a position, after the last name that the target has.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
        after: Option<Bytes>,
        began: Option<Revision>,
    ) -> Result<Page> {
        let tracker = self.tracker_of(app, id).await?;
        let began = match began {
            // A tracker that began later does not know what has changed since the copy began.
            Some(began) if began >= tracker.oldest() => began,
            Some(_) => return Err(Error::new(Code::Gone, "the changes since this copy began are not known")),
            None => tracker.position(),
        };
        let names = tracker.names_after(after.as_ref(), MIGRATION_BATCH_KEYS);
        let (count, data) = export(app, &names).await?;
        let last = names.get(count.wrapping_sub(1)).cloned();
        let message = match last {
            Some(_) => None,
            None => {
                let feed = Feed { oldest: tracker.oldest(), through: began };
                self.ask(app, id, Body::Copy, feed).await?.ok_or_else(|| not_source(id)).map(Some)?
            }
        };
        Ok(Page { last, began, message, data })
    }

    /// What has changed after a position. Waits a little for the first change.
    pub(crate) async fn tail(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
        after: Revision,
    ) -> Result<(Body, Vec<u8>)> {
        let tracker = self.tracker_of(app, id).await?;
        let _ = timeout(MIGRATION_TAIL_WAIT, tracker.changed_after(after)).await;
        let batch = tracker.batch(after, MIGRATION_BATCH_KEYS);
        let names: Vec<Bytes> = batch.names.iter().map(|(_, name)| name.clone()).collect();
        let (count, data) = export(app, &names).await?;
        let through = match batch.names.get(count.wrapping_sub(1)) {
            Some((changed_at, _)) if count < names.len() => *changed_at,
            _ => batch.through,
        };
        let feed = Feed { oldest: batch.oldest, through };
        let message = self.ask(app, id, Body::Tail { after }, feed).await?.ok_or_else(|| not_source(id))?;
        Ok((message, data))
    }

    /// The operator wants the slots handed over.
    pub(crate) async fn hand_over(self: &Arc<Self>, app: &Arc<App>, id: MigrationId) -> Result<()> {
        // So that sealing only has to read what changes meanwhile.
        self.tracker_of(app, id).await?;
        self.ask(app, id, Body::HandOver, Feed::default()).await.map(drop)
    }
}

/// The keys of these names, up to a bound: how many of the names, and their bytes.
async fn export(app: &App, names: &[Bytes]) -> Result<(usize, Vec<u8>)> {
    let (mut done, mut bytes) = (0, Vec::new());
    while done < names.len() && bytes.len() < MIGRATION_BATCH_BYTES {
        let shard = app.engine.shard_of(&names[done]);
        let run = names[done..].iter().take_while(|name| app.engine.shard_of(name) == shard);
        let (count, part) = data::export(&app.engine, shard, run.cloned().collect()).await?;
        done += count;
        bytes.extend(part);
    }
    Ok((done, bytes))
}

fn not_source(id: MigrationId) -> Error {
    Error::new(Code::Conflict, format!("this node is not the source of migration {} now", id.0))
}

/// Closes the slots, waits until everything before that is durable and known, and compares.
pub(super) async fn seal(
    app: Arc<App>,
    mover: Arc<Mover>,
    id: MigrationId,
    attempt: u32,
    slots: SlotSet,
    tracker: Option<Arc<Tracker>>,
) {
    let result = match tracker {
        None => Done::NotSealed,
        Some(tracker) => match try_seal(&app, &mover, &slots, &tracker).await {
            Ok(sealed) => Done::Sealed(attempt, sealed),
            Err(error) => {
                tracing::warn!(migration = id.0, %error, "a hand over failed, and is tried again");
                Done::NotSealed
            }
        },
    };
    mover.done(&app, Work::Seal, id, result).await;
}

async fn try_seal(app: &Arc<App>, mover: &Mover, slots: &SlotSet, tracker: &Tracker) -> Result<Sealed> {
    let hub = Arc::clone(&app.hub);
    let park = move |slots: &[u16]| {
        if let Some(cluster) = hub.cluster.get() {
            slots.iter().for_each(|slot| cluster.park(*slot));
        }
    };
    // Without a deadline, and noted even if it fails: what is closed here must be opened again.
    let revisions = data::set_access(&app.engine, slots, SlotAccess::Closed, park).await;
    mover.closed(slots).await;
    let revisions = revisions?;
    let sealed = timeout(SEAL_TIMEOUT, async {
        tracker.read_up_to(&revisions).await;
        if tracker.is_broken() {
            return Err(Error::new(Code::Gone, "the changes of the slots cannot be followed"));
        }
        let revision = tracker.position();
        let after = app.now().plus_ms(MIGRATION_CLOCK_SKEW.as_millis() as u64);
        let digest = data::digest(&app.engine, &tracker.names(), after).await?;
        Ok(Sealed { revision, digest, compares_after_ms: after.0 })
    });
    sealed.await.unwrap_or_else(|_| Err(Error::new(Code::StoreUnavailable, "sealing takes too long")))
}

/// Deletes what belongs to another node now.
pub(super) async fn delete(app: Arc<App>, mover: Arc<Mover>, id: MigrationId, slots: SlotSet) {
    let result = match data::delete(&app.engine, &slots).await {
        Ok(()) => Done::Deleted,
        Err(error) => Done::Failed(error),
    };
    mover.done(&app, Work::Delete, id, result).await;
}

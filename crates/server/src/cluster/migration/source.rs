//! The node that has the slots: what it sends to the target, how it seals, how it deletes. Touches the shards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keystead_cluster::migration::source::Feed;
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{MigrationId, SlotSet};
use keystead_core::{Code, Error, Result, Revision};
use keystead_model::keyspace::SlotAccess;
use tokio::time::timeout;

use super::data;
use super::mover::{Done, Mover, Work};
use super::tracker::{Part, Tracker};
use crate::app::App;
use crate::bounds::{MIGRATION_CLOCK_SKEW, MIGRATION_TAIL_WAIT, SEAL_TIMEOUT};

impl Mover {
    /// A page of a copy, and with the last one what the protocol says.
    pub(crate) async fn copy(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
        page: u64,
    ) -> Result<(Part, Option<Body>)> {
        let tracker = self.tracker_of(app, id).await?;
        let part = tracker.page(page).await?;
        self.count_sent(part.keys, part.bytes.len());
        if !part.is_last {
            return Ok((part, None));
        }
        let feed = Feed { oldest: tracker.following().oldest, through: part.began, lag: 0 };
        let message = self.ask(app, id, Body::Copy, feed).await?.ok_or_else(|| not_source(id))?;
        Ok((part, Some(message)))
    }

    /// What has changed after a position. If the target wants that, it waits a little, so that more changes are sent together.
    pub(crate) async fn tail(
        self: &Arc<Self>,
        app: &Arc<App>,
        id: MigrationId,
        after: Revision,
        waits: bool,
    ) -> Result<(Body, Vec<u8>)> {
        let tracker = self.tracker_of(app, id).await?;
        if waits {
            let _ = timeout(MIGRATION_TAIL_WAIT, tracker.following().until_sealed()).await;
        }
        let tail = tracker.tail(after).await?;
        self.count_sent(tail.keys, tail.bytes.len());
        let feed = Feed { oldest: tracker.following().oldest, through: tail.through, lag: tail.lag };
        let message = self.ask(app, id, Body::Tail { after }, feed).await?.ok_or_else(|| not_source(id))?;
        Ok((message, tail.bytes))
    }

    fn count_sent(&self, keys: usize, bytes: usize) {
        self.counts.sent_keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.counts.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The operator wants the slots handed over.
    pub(crate) async fn hand_over(self: &Arc<Self>, app: &Arc<App>, id: MigrationId) -> Result<()> {
        // So that sealing only has to read what changes meanwhile.
        self.tracker_of(app, id).await?.prepare().await?;
        self.ask(app, id, Body::HandOver, Feed::default()).await.map(drop)
    }
}

pub(super) fn not_source(id: MigrationId) -> Error {
    Error::new(Code::Conflict, format!("this node is not the source of migration {} now", id.0))
}

/// Closes the slots, waits until everything before that is durable and known, and computes their digest.
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
        tracker.following().read_up_to(&revisions).await;
        let after = app.now().plus_ms(MIGRATION_CLOCK_SKEW.as_millis() as u64);
        let (revision, digest) = tracker.seal(after).await?;
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

//! The node that gets the slots: it copies and follows until it has everything, then compares. Touches the shards and the source.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::Method;
use keystead_cluster::migration::source::Feed;
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{Member, Message, Migration, MigrationId, Output, SlotSet};
use keystead_core::{Code, Error, Millis, Result, Revision};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::call::{Peer, path_of};
use super::data;
use super::digests::{KeyDigests, Names};
use super::mover::{Done, Mover, TargetNow, Work};
use crate::app::App;
use crate::bounds::{MIGRATION_IDLE, MIGRATION_POLL_INTERVAL};

pub(super) use keystead_cluster::migration::target::TargetStage;

/// What a target asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// A copy: which page. Page 0 begins a new copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<u64>,
    /// Changes: after this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Revision>,
    /// Changes: whether to wait a little for more.
    #[serde(default)]
    pub(crate) waits: bool,
}

/// What comes with the data: with changes, and with the last page of a copy, what the protocol says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Body>,
}

/// What is staged of one migration.
#[derive(Default)]
pub(super) struct Staged {
    /// The migration has ended: nothing may be staged any more.
    pub(super) has_ended: bool,
    names: Names,
    /// Of everything that is staged; nothing where an earlier process has staged it.
    digests: Option<KeyDigests>,
}

impl Staged {
    pub(super) fn keys(&self) -> Option<usize> {
        self.digests.as_ref().map(KeyDigests::len)
    }
}

/// The task of one migration to this node.
pub(super) struct Pull {
    pub(super) app: Arc<App>,
    pub(super) mover: Arc<Mover>,
    pub(super) migration: Migration,
    pub(super) source: Peer,
    pub(super) staged: Arc<Mutex<Staged>>,
    /// The next page of the copy.
    pub(super) page: u64,
}

impl Pull {
    /// Copies and follows until everything is there. Ends with the migration.
    pub(super) async fn run(mut self) {
        let id = self.migration.id;
        loop {
            let pulled = match self.mover.target_now(&self.app, id).await {
                Ok(None) => return,
                Ok(Some(now)) => self.pull(&now).await,
                Err(error) => Err(error),
            };
            match pulled {
                Ok(Pulled::Something) => {}
                Ok(Pulled::Nothing) => sleep(MIGRATION_IDLE).await,
                Err(error) => {
                    tracing::debug!(migration = id.0, %error, "a migration waits");
                    if error.code() == Code::Gone {
                        self.page = 0;
                    }
                    self.mover.trouble(id, Some(error)).await;
                    sleep(MIGRATION_POLL_INTERVAL).await;
                }
            }
        }
    }

    async fn pull(&mut self, now: &TargetNow) -> Result<Pulled> {
        match now.stage {
            TargetStage::Ready => Ok(Pulled::Nothing),
            TargetStage::Tailing(_) if now.is_comparing => Ok(Pulled::Nothing),
            TargetStage::Copying => self.copy().await,
            TargetStage::Tailing(after) => self.tail(after, now).await,
        }
    }

    /// Stages a page of the copy. Before the first one, what an attempt before has staged is removed: the source may have deleted some of
    /// it since. A page that did not arrive is asked for again.
    async fn copy(&mut self) -> Result<Pulled> {
        if self.page == 0 {
            let mut staged = self.staged.lock().await;
            if !staged.has_ended {
                data::delete(&self.app.engine, &self.migration.slots).await?;
                staged.digests = Some(KeyDigests::default());
            }
        }
        let ask = Ask { page: Some(self.page), ..Ask::default() };
        let (sent, data) = call(&mut self.source, self.migration.id, "copy", &ask).await?;
        self.mover.throttle.take(data.len()).await;
        self.stage(&data).await?;
        self.page += 1;
        let Some(message) = sent.message else {
            self.mover.trouble(self.migration.id, None).await;
            return Ok(Pulled::Something);
        };
        self.page = 0;
        self.receive(message).await?;
        Ok(Pulled::Something)
    }

    /// Stages what has changed.
    async fn tail(&mut self, after: Revision, now: &TargetNow) -> Result<Pulled> {
        // The first time the answer is how far behind it is, and that is not worth waiting for.
        let ask = Ask { after: Some(after), waits: now.has_asked, page: None };
        let (sent, data) = call(&mut self.source, self.migration.id, "tail", &ask).await?;
        let message = sent.message.ok_or_else(|| bad("a message is missing"))?;
        if let Body::Changes { sealed, .. } = message {
            if sealed.is_none() {
                // Not when it is handed over: requests wait for it.
                self.mover.throttle.take(data.len()).await;
            }
            self.stage(&data).await?;
        }
        self.receive(message).await?;
        Ok(Pulled::Something)
    }

    async fn stage(&self, data: &[u8]) -> Result<()> {
        let mut staged = self.staged.lock().await;
        if staged.has_ended {
            return Err(Error::new(Code::Conflict, "the migration has ended"));
        }
        let (engine, slots) = (&self.app.engine, &self.migration.slots);
        let (keys, digested) = data::stage(engine, slots, data, &staged.names).await?;
        if let Some(digests) = &mut staged.digests {
            digests.put(digested);
        }
        self.mover.counts.received_keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.mover.counts.received_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn receive(&self, body: Body) -> Result<()> {
        let id = self.migration.id;
        self.mover.trouble(id, None).await;
        let give = |member: &mut Member, out: &mut Vec<Output>| {
            member.receive(&Message { id, body }, Feed::default(), out);
            Ok(())
        };
        self.mover.step(&self.app, give).await
    }
}

/// Whether there may be more at once.
enum Pulled {
    Something,
    Nothing,
}

async fn call(source: &mut Peer, id: MigrationId, action: &str, ask: &Ask) -> Result<(Sent, bytes::Bytes)> {
    let body = serde_json::to_vec(ask).map_err(|error| bad(&error.to_string()))?;
    let answered = source.call(Method::POST, &path_of(id, action), body).await?;
    let sent = answered.message.and_then(|message| serde_json::from_value(message).ok());
    Ok((sent.ok_or_else(|| bad("a message cannot be read"))?, answered.body))
}

fn bad(why: &str) -> Error {
    Error::new(Code::Corrupt, format!("the source of a migration: {why}"))
}

/// The digest of what is staged.
pub(super) async fn compare(
    app: Arc<App>,
    mover: Arc<Mover>,
    id: MigrationId,
    slots: SlotSet,
    sealed: Sealed,
    staged: Option<Arc<Mutex<Staged>>>,
) {
    let result = match digest(&app, &slots, Millis(sealed.compares_after_ms), staged).await {
        Ok(digest) => Done::Compared(digest),
        Err(error) => Done::Failed(error),
    };
    mover.done(&app, Work::Compare, id, result).await;
}

async fn digest(
    app: &App,
    slots: &SlotSet,
    after: Millis,
    staged: Option<Arc<Mutex<Staged>>>,
) -> Result<keystead_cluster::Digest> {
    let Some(staged) = staged else { return Err(bad("nothing is staged")) };
    let mut staged = staged.lock().await;
    if staged.digests.is_none() {
        // It was staged by a process before this one.
        staged.digests = Some(data::digest_all(&app.engine, slots, &staged.names).await?);
    }
    Ok(staged.digests.as_ref().map(|digests| digests.sum(after)).unwrap_or_default())
}

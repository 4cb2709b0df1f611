//! The node that gets the slots: it copies and follows until it has everything, then compares. Touches the shards and the source.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::Method;
use keystead_cluster::migration::source::Feed;
use keystead_cluster::migration::{Body, Sealed};
use keystead_cluster::{Member, Message, Migration, MigrationId, Output, SlotSet};
use keystead_core::{Code, Error, Millis, Result, Revision};
use keystead_model::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::call::{Peer, path_of};
use super::data;
use super::mover::{Done, Mover, Work};
use crate::app::App;
use crate::bounds::{MIGRATION_IDLE, MIGRATION_POLL_INTERVAL};

pub(super) use keystead_cluster::migration::target::TargetStage;

/// What a target asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// A copy: after this name. A name may be any bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Vec<u8>>,
    /// A copy: the position at which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Revision>,
    /// Changes: after this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Revision>,
}

/// What comes with the data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// A copy: the last name in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Vec<u8>>,
    /// A copy: the position at which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Revision>,
    /// What the protocol says: with changes, and with the last part of a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Body>,
}

/// The task of one migration to this node.
pub(super) struct Pull {
    pub(super) app: Arc<App>,
    pub(super) mover: Arc<Mover>,
    pub(super) migration: Migration,
    pub(super) source: Peer,
    /// Not after the migration has ended. Held while something is staged.
    pub(super) may_stage: Arc<Mutex<bool>>,
}

impl Pull {
    /// Copies and follows until everything is there. Ends with the migration.
    pub(super) async fn run(mut self) {
        let id = self.migration.id;
        while let Some((stage, is_comparing)) = self.mover.target_stage(id).await {
            let pulled = match stage {
                TargetStage::Ready => Ok(Pulled::Nothing),
                TargetStage::Tailing(_) if is_comparing => Ok(Pulled::Nothing),
                TargetStage::Copying => self.copy().await,
                TargetStage::Tailing(after) => self.tail(after).await,
            };
            match pulled {
                Ok(Pulled::Something) => {}
                Ok(Pulled::Nothing) => sleep(MIGRATION_IDLE).await,
                Err(error) => {
                    tracing::debug!(migration = id.0, %error, "a migration waits");
                    self.mover.trouble(id, Some(error.message().to_owned())).await;
                    sleep(MIGRATION_POLL_INTERVAL).await;
                }
            }
        }
    }

    /// Stages all keys. What an attempt before has staged is removed: the source may have deleted some of it since.
    async fn copy(&mut self) -> Result<Pulled> {
        let mut ask = Ask::default();
        let may_stage = self.may_stage.lock().await;
        if *may_stage {
            data::delete(&self.app.engine, &self.migration.slots).await?;
        }
        drop(may_stage);
        loop {
            let (sent, data) = call(&mut self.source, self.migration.id, "copy", &ask).await?;
            self.stage(&data).await?;
            if let Some(message) = sent.message {
                self.receive(message).await?;
                return Ok(Pulled::Something);
            }
            (ask.name, ask.began) = (sent.name, sent.began);
        }
    }

    /// Stages what has changed.
    async fn tail(&mut self, after: Revision) -> Result<Pulled> {
        let ask = Ask { after: Some(after), ..Ask::default() };
        let (sent, data) = call(&mut self.source, self.migration.id, "tail", &ask).await?;
        let message = sent.message.ok_or_else(|| bad("a message is missing"))?;
        if let Body::Changes { .. } = message {
            self.stage(&data).await?;
        }
        self.receive(message).await?;
        Ok(Pulled::Something)
    }

    async fn stage(&self, data: &[u8]) -> Result<()> {
        let may_stage = self.may_stage.lock().await;
        match *may_stage {
            true => data::stage(&self.app.engine, &self.migration.slots, data).await,
            false => Err(Error::new(Code::Conflict, "the migration has ended")),
        }
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
) {
    let result = match staged(&app, &slots, Millis(sealed.compares_after_ms)).await {
        Ok(digest) => Done::Compared(digest),
        Err(error) => Done::Failed(error),
    };
    mover.done(&app, Work::Compare, id, result).await;
}

async fn staged(app: &App, slots: &SlotSet, after: Millis) -> Result<keystead_cluster::Digest> {
    let mut names: BTreeSet<Bytes> = BTreeSet::new();
    for shard in data::shards(&app.engine, slots) {
        names.extend(data::names(&app.engine, shard, slots).await?);
    }
    data::digest(&app.engine, &names, after).await
}

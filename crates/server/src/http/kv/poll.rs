//! The next change of a document (`wait=30s&sinceVersion=N`). Touches the shard of the key.
//!
//! Invariant: the wait ends at the latest when its time is over, also if the slot of the key is handed over meanwhile. Only if another node
//! owns it then, or this takes too long, is that an error.

use std::future::Future;
use std::pin::Pin;

use keystead_commands::documents::{self, Document};
use keystead_core::{Code, Millis, Result, ShardId, Stopwatch, key};
use keystead_engine::{Engine, Job, Local, Ran, Wait};
use keystead_model::Bytes;
use keystead_model::keyspace::{Keyspace, Miss};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::read;
use crate::bounds::{PARKED_RETRY_INTERVAL, WAIT_MS_MAX};

/// Waits until a document has another version than `since` (0: until it exists).
pub(super) async fn next_change(
    context: &HttpContext,
    key: &Bytes,
    since: u64,
    wait_ms: u64,
) -> std::result::Result<Option<Document>, ApiError> {
    if wait_ms > WAIT_MS_MAX {
        return Err(ApiError::bad(format!("wait is at most {} seconds", WAIT_MS_MAX / 1000)));
    }
    let (stopwatch, mut attempts) = (Stopwatch::start(), 0);
    loop {
        let left_ms = wait_ms.saturating_sub(stopwatch.elapsed().as_millis() as u64);
        let found = wait_for_change(context, key, since, left_ms).await;
        if !matches!(&found, Err(ApiError::Broken(error)) if error.code() == Code::TryAgain) {
            return found;
        }
        // Its slot is handed over. This node may keep it.
        if let (Some(membership), Some(cluster)) = (context.app.cluster.get(), context.app.hub.cluster.get())
        {
            membership.until_served(cluster, &[key::slot(key)]).await;
        }
        context.require_served([&key[..]])?;
        attempts += 1;
        if attempts > 1 {
            sleep(PARKED_RETRY_INTERVAL).await;
        }
    }
}

async fn wait_for_change(
    context: &HttpContext,
    key: &Bytes,
    since: u64,
    wait_ms: u64,
) -> std::result::Result<Option<Document>, ApiError> {
    let engine = context.app.engine.clone();
    let (shard, ticket) = (engine.shard_of(key), engine.ticket());
    let (sender, found) = oneshot::channel();
    let wait = Wait { ticket, keys: vec![key.clone()], on_delete: true, timeout_ms: Some(wait_ms) };
    engine.submit(shard, Box::new(NextChange { key: key.clone(), since, wait, found: None, sender }))?;
    // The wait ends when the client disconnects.
    let mut leaving = Leaving { engine, shard, ticket, is_over: false };
    let stopping = context.app.stopping();
    let found = tokio::select! {
        found = found => found,
        // A server that stops returns the current document.
        () = stopping => return read::read(context, key).await,
    };
    leaving.is_over = true;
    let found = found.map_err(|_| ApiError::Broken(crate::call::ended()))??;
    Ok(found?)
}

type Found = std::result::Result<Option<Document>, Miss>;

/// A read of a document that waits until it has changed.
struct NextChange {
    key: Bytes,
    since: u64,
    wait: Wait,
    found: Option<Found>,
    sender: oneshot::Sender<Result<Found>>,
}

impl Job for NextChange {
    fn writes(&self) -> bool {
        false
    }

    fn run(&mut self, keyspace: &mut Keyspace, now: Millis) -> Ran {
        let found = documents::get(keyspace, &self.key, now);
        let is_same = match &found {
            Ok(document) => document.as_ref().map_or(0, |document| document.version) == self.since,
            Err(_) => false,
        };
        self.found = Some(found);
        if is_same { Ran::Waits(self.wait.clone()) } else { Ran::Done }
    }

    fn complete(self: Box<Self>, gate: Result<()>) {
        let found = self.found.unwrap_or(Ok(None));
        // The client may have disconnected.
        let _ = self.sender.send(gate.map(|()| found));
    }
}

/// Ends a wait when its request is dropped.
struct Leaving {
    engine: Engine,
    shard: ShardId,
    ticket: u64,
    is_over: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (engine, shard, ticket) = (self.engine.clone(), self.shard, self.ticket);
        let task = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(async move { local.end_wait(ticket) })
        };
        // If the shard's queue is full, the wait ends with its timeout.
        let _ = engine.spawn(shard, Box::new(task));
    }
}

//! Hands a new connection to a shard's loop. While the loop runs a long command, the connection goes back to the listener, which serves
//! what needs no keys until the loop is free. Touches the queues of shards.
//!
//! Invariant: a connection belongs to the listener or to a loop, never to both: the one that takes it out of its cell owns it.
//! See docs/adr/0010-busy.md.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keystead_core::ShardId;
use keystead_engine::{Engine, Local};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::bounds::{BUSY_AFTER, BUSY_CHECK_INTERVAL, TAKE_BACK_AFTER};

/// The task of a connection on a loop.
pub(crate) type OnLoop = Pin<Box<dyn Future<Output = ()>>>;

/// The next shard, round robin, whose loop is not busy; if all are, the next shard.
pub(crate) fn next_shard(engine: &Engine, last: ShardId) -> ShardId {
    let shards = engine.shards();
    let after = |n: usize| ShardId((last.0 + n) % shards);
    let turns = |shard: &ShardId| Duration::from_millis(engine.busy_ms(*shard)) < TAKE_BACK_AFTER;
    (1..=shards).map(after).find(turns).unwrap_or(after(1))
}

/// Offers a connection to a shard's loop, which serves it with `begin`. Returns it when the loop does not take it in time; a closed
/// database drops it.
pub(crate) async fn offer<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    connection: T,
    begin: fn(T, Local) -> OnLoop,
) -> Option<T> {
    let cell = Arc::new(Mutex::new(Some(connection)));
    let at_loop = Arc::clone(&cell);
    let (took, taken) = oneshot::channel();
    let task = move |local: Local| -> OnLoop {
        let taken = take(&at_loop);
        let _ = took.send(());
        match taken {
            Some(connection) => begin(connection, local),
            None => Box::pin(std::future::ready(())),
        }
    };
    let offered = async {
        engine.spawn_when_free(shard, Box::new(task)).await?;
        // A task that is dropped without running belonged to a shard that has ended, and the connection is dropped with it.
        let _ = taken.await;
        Ok(())
    };
    match timeout(TAKE_BACK_AFTER, offered).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            let error: keystead_core::Error = error;
            tracing::warn!(%error, "cannot hand over a connection");
            None
        }
        Err(_) => take(&cell),
    }
}

fn take<T>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Waits until a shard's loop takes new tasks.
pub(crate) async fn loop_is_free(engine: &Engine, shard: ShardId) {
    let (sender, is_free) = oneshot::channel();
    let task = move |_: Local| -> OnLoop {
        let _ = sender.send(());
        Box::pin(std::future::ready(()))
    };
    // A shard that has ended takes none, and the offer that follows fails.
    let _ = engine.spawn_when_free(shard, Box::new(task)).await;
    let _ = is_free.await;
}

/// Whether a shard has been in one turn for so long that other clients get `BUSY`.
pub(crate) fn is_busy(app: &App, shard: ShardId) -> bool {
    Duration::from_millis(app.engine.busy_ms(shard)) >= busy_after(app)
}

/// Waits until [`is_busy`] holds.
pub(crate) async fn until_busy(app: &App, shard: ShardId) {
    while !is_busy(app, shard) {
        sleep(BUSY_CHECK_INTERVAL).await;
    }
}

/// The time limit of scripts if there is one, as in Redis.
fn busy_after(app: &App) -> Duration {
    match app.hub.config.script_ms_max() {
        0 => BUSY_AFTER,
        ms => Duration::from_millis(ms).max(TAKE_BACK_AFTER),
    }
}

//! How a new connection gets to a shard's loop, and what happens when the loop is at a command that takes long: the connection
//! comes back, and the listener serves what needs no keys until the loop goes on. Touches the queues of shards.
//!
//! Invariant: a connection is with the listener or with a loop, never with both; whoever takes it out of its cell has it.
//! See docs/adr/0010-busy.md.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keystead_engine::{Engine, Local};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::bounds::{BUSY_AFTER, BUSY_LOOK, TAKE_BACK_AFTER};

/// A connection's life on a loop.
pub(crate) type OnLoop = Pin<Box<dyn Future<Output = ()>>>;

/// The next shard in turn whose loop goes on; where none does, the next in turn.
pub(crate) fn next_shard(engine: &Engine, last: usize) -> usize {
    let shards = engine.shards();
    let mut in_turn = (1..=shards).map(|n| (last + n) % shards);
    let turns = |shard: &usize| Duration::from_millis(engine.busy_ms(*shard)) < TAKE_BACK_AFTER;
    in_turn.find(turns).unwrap_or((last + 1) % shards)
}

/// Offers a connection to a shard's loop, which lives it with `begin`. Gives it back when the loop does not take it in time; a
/// database that is closed drops it.
pub(crate) async fn offer<T: Send + 'static>(
    engine: &Engine,
    shard: usize,
    connection: T,
    begin: fn(T, Local) -> OnLoop,
) -> Option<T> {
    let cell = Arc::new(Mutex::new(Some(connection)));
    let at_loop = Arc::clone(&cell);
    let (took, taken) = oneshot::channel();
    let guest = move |local: Local| -> OnLoop {
        let taken = take(&at_loop);
        let _ = took.send(());
        match taken {
            Some(connection) => begin(connection, local),
            None => Box::pin(std::future::ready(())),
        }
    };
    let offered = async {
        engine.spawn_when_free(shard, Box::new(guest)).await?;
        // A guest that is dropped unheard was of a shard that has ended, and the connection went with it.
        let _ = taken.await;
        Ok(())
    };
    match timeout(TAKE_BACK_AFTER, offered).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            let error: keystead_core::Error = error;
            tracing::warn!(%error, "cannot take a connection");
            None
        }
        Err(_) => take(&cell),
    }
}

fn take<T>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Waits until a shard's loop takes what is new.
pub(crate) async fn goes_on(engine: &Engine, shard: usize) {
    let (went, gone_on) = oneshot::channel();
    let guest = move |_: Local| -> OnLoop {
        let _ = went.send(());
        Box::pin(std::future::ready(()))
    };
    // One that has ended takes nothing, and the offer that follows says so.
    let _ = engine.spawn_when_free(shard, Box::new(guest)).await;
    let _ = gone_on.await;
}

/// Whether a shard has been at one turn for so long that others get `BUSY`.
pub(crate) fn is_busy(app: &App, shard: usize) -> bool {
    Duration::from_millis(app.engine.busy_ms(shard)) >= busy_after(app)
}

/// Waits until [`is_busy`] holds.
pub(crate) async fn until_busy(app: &App, shard: usize) {
    while !is_busy(app, shard) {
        sleep(BUSY_LOOK).await;
    }
}

/// Where the time of scripts is limited, that limit, as on Redis.
fn busy_after(app: &App) -> Duration {
    match app.hub.config.script_ms_max() {
        0 => BUSY_AFTER,
        ms => Duration::from_millis(ms).max(TAKE_BACK_AFTER),
    }
}

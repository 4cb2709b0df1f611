//! The loop of a shard's thread: take what waits, run it, let out what is durable, reclaim, evict.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use super::{Job, Journal, Shard};
use crate::archive::keeper::Request;
use crate::limits::BATCH_JOBS_MAX;

/// How often an idle shard looks for what is expired.
const IDLE_TURN: Duration = Duration::from_millis(100);

/// What a shard's loop listens to beside its queue, and how much memory its values may take.
pub(crate) struct Pace {
    /// Told when the engine closes.
    pub(crate) closing: Arc<Notify>,
    /// Told when something is durable.
    pub(crate) durable: Arc<Notify>,
    /// Told when the archive has come further.
    pub(crate) archived: Arc<Notify>,
    pub(crate) archive: Option<Sender<Request>>,
    pub(crate) memory_bytes: Option<usize>,
}

/// Runs jobs until the queue is closed and empty, then waits until everything is answered.
pub(crate) async fn serve(mut shard: Shard, mut queue: mpsc::Receiver<Box<dyn Job>>, pace: Pace) {
    let mut jobs = Vec::new();
    let mut turn = interval(IDLE_TURN);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = true;
    while open || (shard.is_waiting() && shard.shared.vitals.poisoned().is_none()) {
        tokio::select! {
            biased;
            () = pace.durable.notified() => shard.open_gate(),
            () = pace.closing.notified() => queue.close(),
            taken = queue.recv_many(&mut jobs, BATCH_JOBS_MAX), if open => {
                open = taken > 0;
                shard.run_batch(&mut jobs);
            }
            _ = turn.tick() => shard.run_batch(&mut jobs),
        }
        pace.keep_in_memory(&mut shard).await;
    }
    shard.open_gate();
    // The journal's thread ends here, and with it everything that it was given is on disk.
    drop(std::mem::replace(&mut shard.journal, Journal::Memory(tokio::sync::broadcast::channel(1).0)));
    shard.open_gate();
    // Whoever follows the changes has read the last ones or is told so now.
    shard.shared.progress.end();
    shard.shared.news.notify_waiters();
}

impl Pace {
    /// Lets go of values until the rest fits. When too much of what is in memory is not archived yet, the shard waits for
    /// the archive: that is what bounds its memory.
    async fn keep_in_memory(&self, shard: &mut Shard) {
        let Some(budget) = self.memory_bytes else { return };
        if shard.keyspace.used_bytes() <= budget {
            return;
        }
        shard.keyspace.set_archived(shard.shared.progress.archived());
        shard.keyspace.evict(budget);
        let hard = budget + budget / 4;
        while shard.keyspace.used_bytes() > hard
            && shard.shared.progress.archived() < shard.keyspace.revision()
            && shard.shared.vitals.poisoned().is_none()
            && shard.shared.vitals.archive_failing().is_none()
        {
            if let Some(archive) = &self.archive {
                let _ = archive.send(Request::Flush);
            }
            tokio::select! {
                () = self.archived.notified() => {}
                () = self.durable.notified() => shard.open_gate(),
                () = tokio::time::sleep(IDLE_TURN) => {}
            }
            shard.keyspace.set_archived(shard.shared.progress.archived());
            shard.keyspace.evict(budget);
        }
    }
}

//! The loop of a shard's thread: take queued jobs, run them, deliver durable results, reclaim, evict.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use keystead_core::ShardId;
use tokio::sync::{Notify, mpsc};
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::throttle::TICK;
use super::{Entry, Journal, Local, LocalTask, Shard};
use crate::archive::archiver::Request;
use crate::archive::shard_keys::KeysRequest;
use crate::bounds::BATCH_JOBS_MAX;

/// How often an idle shard checks for expired keys.
const IDLE_TURN: Duration = Duration::from_millis(100);

/// What a shard's loop waits for beside its queue, and its memory budget.
pub(crate) struct Pace {
    /// Notified when the engine closes.
    pub(crate) closing: Arc<Notify>,
    /// Notified when something is durable.
    pub(crate) durable: Arc<Notify>,
    /// Notified when more has been archived.
    pub(crate) archived: Arc<Notify>,
    pub(crate) archive: Option<Sender<Request>>,
    pub(crate) memory_bytes: Option<usize>,
}

/// The queues of a shard.
pub(crate) struct Inbox {
    pub(crate) queue: mpsc::Receiver<Entry>,
    pub(crate) local_tasks: mpsc::Receiver<LocalTask>,
    /// Requests of the archive.
    pub(crate) keys: mpsc::Receiver<KeysRequest>,
}

/// Runs jobs until the queue is closed and empty, then waits until all results are delivered.
pub(crate) async fn serve(shard: Shard, id: ShardId, inbox: Inbox, pace: Pace) {
    let Inbox { mut queue, mut local_tasks, mut keys } = inbox;
    let unsent = Arc::clone(&shard.unsent);
    let vitals = Arc::clone(&shard.shared.vitals);
    let shard = Rc::new(RefCell::new(shard));
    let local = Local::new(Rc::clone(&shard), id);
    let mut batch = Vec::new();
    let mut turn = interval(IDLE_TURN);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = true;
    // A batch waits for requests that the next pass of the loop may bring.
    let mut is_collecting = false;
    while open || (shard.borrow().is_waiting() && vitals.poisoned().is_none()) {
        let next_end = shard.borrow().next_end_ms();
        let is_delaying = shard.borrow().throttle.is_delaying();
        tokio::select! {
            biased;
            () = pace.durable.notified() => is_collecting = shard.borrow_mut().after_sync(),
            () = pace.closing.notified() => {
                queue.close();
                local_tasks.close();
                shard.borrow_mut().throttle.end();
            }
            () = unsent.notified() => is_collecting = shard.borrow_mut().finish_when_due(),
            Some(request) = keys.recv() => shard.borrow().reply(request),
            () = sleep(TICK), if is_delaying => shard.borrow_mut().open_gate(),
            Some(task) = local_tasks.recv(), if open => {
                tokio::task::spawn_local(task(local.clone()));
            }
            taken = queue.recv_many(&mut batch, BATCH_JOBS_MAX), if open => {
                open = taken > 0;
                local.run_batch(&mut batch);
            }
            () = sleep(Duration::from_millis(next_end.unwrap_or(0))), if next_end.is_some() => {
                shard.borrow_mut().end_waits();
            }
            () = yield_now(), if is_collecting => is_collecting = shard.borrow_mut().finish_when_due(),
            _ = turn.tick() => local.run_batch(&mut batch),
        }
        pace.keep_in_memory(&shard, &mut keys).await;
    }
    // The archive reads no more keys.
    drop(keys);
    let shard = &mut *shard.borrow_mut();
    vitals.end_turns();
    shard.finish();
    // The journal's thread ends here, after everything it was given is on disk.
    drop(std::mem::replace(&mut shard.journal, Journal::Memory(tokio::sync::broadcast::channel(1).0)));
    shard.open_gate();
    // Change feeds have read the last changes, or see now that the shard has ended.
    shard.shared.progress.end();
    shard.shared.progressed.notify_waiters();
    // Freeing millions of keys takes a second. Nothing waits for it, and the end of the process does it at once.
    shard.keyspace.discard();
    shard.shared.collector.collect(&mut shard.keyspace);
}

impl Pace {
    /// Evicts values until the rest fits. When too much in memory is not archived yet, the shard waits for
    /// the archive: that bounds its memory.
    async fn keep_in_memory(&self, shared: &RefCell<Shard>, keys: &mut mpsc::Receiver<KeysRequest>) {
        let Some(budget) = self.memory_bytes else { return };
        if shared.borrow().keyspace.used_bytes() <= budget {
            return;
        }
        // The archive can only follow what was sent.
        shared.borrow_mut().finish();
        while self.is_over(&mut shared.borrow_mut(), budget) {
            shared.borrow_mut().set_stalled(true);
            if let Some(archive) = &self.archive {
                let _ = archive.send(Request::Flush);
            }
            tokio::select! {
                () = self.archived.notified() => {}
                Some(request) = keys.recv() => shared.borrow().reply(request),
                () = self.durable.notified() => shared.borrow_mut().open_gate(),
                () = sleep(IDLE_TURN) => {}
            }
        }
        shared.borrow_mut().set_stalled(false);
    }

    /// Evicts, and returns whether the shard must wait for the archive before it may continue.
    fn is_over(&self, shard: &mut Shard, budget: usize) -> bool {
        // The loop waits on purpose; it must not be reported as stuck.
        shard.shared.vitals.begin_turn(shard.shared.clock.now());
        shard.keyspace.set_archived(shard.shared.progress.archived());
        shard.keyspace.evict(budget);
        shard.shared.collector.collect(&mut shard.keyspace);
        shard.keyspace.used_bytes() > budget + budget / 4
            && shard.shared.progress.archived() < shard.keyspace.revision()
            && shard.shared.vitals.poisoned().is_none()
            && !shard.shared.vitals.is_archive_failing()
    }
}

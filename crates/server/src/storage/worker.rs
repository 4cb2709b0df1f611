//! The thread that executes requests, one after the other, and reclaims in between. Touches the storage service's file, from its thread.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use keystead_core::{Clock, Code, Error, Result, Stopwatch, SystemClock};
use keystead_http_api::statements::{Outcome, Request};
use tokio::sync::oneshot;

use super::database::{Database, Figures};
use crate::bounds::{STORAGE_QUEUE_MAX, STORAGE_RECLAIM_EVERY};

/// A request that waits, and where its outcomes go.
struct Job {
    request: Request,
    done: oneshot::Sender<Vec<Outcome>>,
}

/// The thread, seen from connections.
pub(super) struct Worker {
    jobs: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
    figures: Figures,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    items: AtomicU64,
    conflicts: AtomicU64,
    errors: AtomicU64,
    /// Why the file cannot be used, if that is so.
    trouble: Mutex<Option<String>>,
}

impl Worker {
    pub(super) fn open(dir: &Path) -> Result<Worker> {
        let database = Database::open(dir)?;
        let (figures, counts) = (database.figures(), Arc::new(Counts::default()));
        let (jobs, waiting) = sync_channel(STORAGE_QUEUE_MAX);
        let shared = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("ks-storage".to_owned())
            .spawn(move || work(&database, &waiting, &shared))
            .map_err(|error| Error::new(Code::Internal, format!("cannot start a thread: {error}")))?;
        Ok(Worker { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), counts, figures })
    }

    /// Executes a request, and returns the outcomes of its items.
    pub(super) async fn execute(&self, request: Request) -> Result<Vec<Outcome>> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let (done, outcomes) = oneshot::channel();
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.try_send(Job { request, done }),
            None => return Err(Error::new(Code::StoreUnavailable, "the service is stopping")),
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let words = format!("{STORAGE_QUEUE_MAX} requests are waiting: try again later");
                return Err(Error::new(Code::QueueFull, words));
            }
            Err(TrySendError::Disconnected(_)) => return Err(gone()),
        }
        outcomes.await.map_err(|_| gone())
    }

    /// Why the file cannot be used.
    pub(super) fn trouble(&self) -> Option<String> {
        let is_gone = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_none_or(JoinHandle::is_finished);
        match is_gone {
            true => Some(gone().message().to_owned()),
            false => self.counts.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Ends the thread when it has executed what waits.
    pub(super) async fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join)).await;
    }

    /// Counts in the OpenMetrics text form.
    pub(super) fn metrics(&self) -> String {
        let Counts { requests, items, conflicts, errors, .. } = &*self.counts;
        let [returned, changed] = self.figures.rows();
        let mut text = String::new();
        for (name, help, count) in [
            ("requests", "Requests of statements", requests.load(Ordering::Relaxed)),
            (
                "items",
                "Items that were executed or refused, each in a transaction of its own",
                items.load(Ordering::Relaxed),
            ),
            ("conflicts", "Items whose expectations did not hold", conflicts.load(Ordering::Relaxed)),
            ("errors", "Items that ended with an error", errors.load(Ordering::Relaxed)),
            ("rows_returned", "Rows that statements have returned", returned),
            ("rows_changed", "Rows that statements have changed", changed),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP keystead_storage_{name} {help}.\n# TYPE keystead_storage_{name} counter\nkeystead_storage_{name}_total {count}"
            );
        }
        text + "# EOF\n"
    }
}

fn gone() -> Error {
    Error::unknown(Code::Internal, "the thread of the database has ended: restart, and please report the log")
}

fn work(database: &Database, waiting: &Receiver<Job>, counts: &Counts) {
    let mut reclaimed = Stopwatch::start();
    loop {
        match waiting.recv_timeout(STORAGE_RECLAIM_EVERY.saturating_sub(reclaimed.elapsed())) {
            Ok(Job { request, done }) => {
                let outcomes = request.items().iter().map(|item| database.execute(item)).collect::<Vec<_>>();
                counts.note(&outcomes);
                // Its client may have gone.
                let _ = done.send(outcomes);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if reclaimed.elapsed() >= STORAGE_RECLAIM_EVERY {
            let done = database.reclaim(SystemClock.now());
            if let Err(error) = &done {
                tracing::error!(%error, "cannot reclaim what is expired");
            }
            let trouble = done.err().map(|error| error.to_string());
            *counts.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
            reclaimed = Stopwatch::start();
        }
    }
}

impl Counts {
    fn note(&self, outcomes: &[Outcome]) {
        let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count() as u64;
        self.items.fetch_add(outcomes.len() as u64, Ordering::Relaxed);
        self.conflicts.fetch_add(count(|outcome| matches!(outcome, Outcome::Conflict(_))), Ordering::Relaxed);
        self.errors.fetch_add(count(|outcome| matches!(outcome, Outcome::Error(_))), Ordering::Relaxed);
    }
}

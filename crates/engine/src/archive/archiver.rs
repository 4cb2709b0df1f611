//! The archive thread: reads the journal behind the shard and keeps the SQLite file up to date.
//!
//! It reads a chunk of the journal, coalesces it, and writes it in one transaction together with the revision that it reaches.
//! From time to time it checkpoints; after that, journal segments that are in the archive are recycled. When it cannot write,
//! it reports the error and tries again, and the journal grows meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use keystead_core::{Code, Error, Result, Revision, Stopwatch};
use keystead_model::effect::Decoder;
use keystead_model::sql::Pending;
use tokio::sync::{Notify, oneshot};

use super::Database;
use crate::bounds::{ARCHIVE_CHUNK_BYTES, WAL_BYTES};
use crate::health::Vitals;
use crate::journal::Progress;
use crate::journal::reader::Reader;
use crate::journal::segments::Segments;

/// How often it checks whether enough is unarchived.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// After how many checks durable changes are archived in any case. The longer, the more changes of the same key become one row.
const CHECKS_MAX: u32 = 10;

/// Number of unarchived revisions that is archived at once.
const REVISIONS_MAX: u64 = 256 * 1024;

/// Scheduling priority (nice) of the thread: lower than that of the other threads.
const NICENESS: i32 = 5;

/// Delay after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Requests to the archive thread.
pub(crate) enum Request {
    /// Archive what is durable now.
    Flush,
    /// Archive what is durable now, write a copy to this file, and return its revision.
    Copy(std::path::PathBuf, oneshot::Sender<Result<Revision>>),
    /// Archive for a while and end. There may be other senders, so dropping one cannot be the signal.
    Finish,
}

/// The handle of the archive thread.
pub(crate) struct Archiver {
    requests: Sender<Request>,
    /// The thread may be at a long backlog, where it reads no request.
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What the archive thread works on.
pub(crate) struct Work {
    pub(crate) database: Database,
    pub(crate) reader: Reader,
    pub(crate) segments: Arc<Segments>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) vitals: Arc<Vitals>,
    /// Notified whenever more has been archived.
    pub(crate) archived: Arc<Notify>,
    pub(crate) pending: Pending,
    /// Maximum size of the journal. Well before that, it is archived and checkpointed without waiting for more.
    pub(crate) journal_bytes_max: u64,
    /// How long it goes on archiving when the database is closed.
    pub(crate) close_archive_max: Duration,
}

impl Archiver {
    pub(crate) fn start(name: String, work: Work) -> Result<Self> {
        let (requests, receiver) = channel();
        let closing = Arc::new(AtomicBool::new(false));
        let work = Loop { work, wal_bytes: 1, closing: Arc::clone(&closing), closing_since: None };
        let thread = std::thread::Builder::new().name(name).spawn(move || work.run(&receiver));
        let thread =
            thread.map_err(|e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e))?;
        Ok(Archiver { requests, closing, thread })
    }

    /// The thread's request channel. After the thread has ended, requests get no reply.
    pub(crate) fn requests(&self) -> Sender<Request> {
        self.requests.clone()
    }

    /// Makes the thread end, and waits for it. It archives everything if that does not take too long.
    pub(crate) fn finish(self) {
        self.closing.store(true, Ordering::Relaxed);
        let _ = self.requests.send(Request::Finish);
        let _ = self.thread.join();
    }
}

struct Loop {
    work: Work,
    /// Bytes of journal written to SQLite's write-ahead log since the last complete checkpoint: about the size of that log. Not 0
    /// at the start, because the last process may have left a log.
    wal_bytes: u64,
    closing: Arc<AtomicBool>,
    /// Runs since it was noticed that the database is being closed.
    closing_since: Option<Stopwatch>,
}

/// How far the archive has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaughtUp {
    /// Everything that was durable is archived.
    Yes,
    /// The database is being closed, and the rest is left to the next start.
    No,
}

impl Loop {
    fn run(mut self, requests: &Receiver<Request>) {
        // Replies have priority: on a busy machine the archive gets what the shards leave. On Linux this is per thread.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let (mut wait, mut checks) = (CHECK_EVERY, 0);
        let begun_at = self.work.progress.archived();
        loop {
            let request = requests.recv_timeout(wait);
            checks += 1;
            // Best effort: without a spare the next segment is a new file. A database that is only read needs none.
            if self.work.progress.archived() > begun_at
                && matches!(request, Err(RecvTimeoutError::Timeout))
                && let Err(error) = self.work.segments.prepare_spare()
            {
                tracing::debug!(%error, "cannot prepare a journal segment");
            }
            let waiting = self.work.progress.durable().0 - self.work.progress.archived().0;
            if matches!(request, Err(RecvTimeoutError::Timeout))
                && checks < CHECKS_MAX
                && waiting < REVISIONS_MAX
                && !(self.journal_is_large() && (waiting > 0 || self.wal_bytes > 0))
            {
                continue;
            }
            checks = 0;
            let outcome = self.catch_up();
            wait = if outcome.is_ok() { CHECK_EVERY } else { RETRY_AFTER };
            self.work.vitals.set_archive_failing(outcome.as_ref().err().map(ToString::to_string));
            match request {
                Ok(Request::Flush) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Request::Copy(path, reply)) => {
                    let _ = reply.send(outcome.and_then(|caught_up| match caught_up {
                        CaughtUp::Yes => self.copy(&path),
                        CaughtUp::No => {
                            Err(Error::new(Code::StoreUnavailable, "the database is being closed"))
                        }
                    }));
                }
                Ok(Request::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let left = self.work.progress.durable().0 - self.work.progress.archived().0;
        if left > 0 {
            tracing::info!(
                revisions = left,
                "closed before everything was archived: the next start replays the journal"
            );
        } else if let Err(error) = self.checkpoint(true) {
            self.work.vitals.set_archive_failing(Some(error.to_string()));
        }
    }

    /// Archives everything that is durable, and checkpoints when that is due. Also checked when there is nothing new: a
    /// full journal rejects writes, and only a checkpoint makes it shorter. When the database is closed it stops in time.
    fn catch_up(&mut self) -> Result<CaughtUp> {
        loop {
            if self.is_out_of_time() {
                return Ok(CaughtUp::No);
            }
            self.wal_bytes += self.absorb()? as u64;
            if self.work.pending.is_empty() {
                if self.wal_bytes >= WAL_BYTES || (self.wal_bytes > 0 && self.journal_is_large()) {
                    self.checkpoint(false)?;
                }
                return Ok(CaughtUp::Yes);
            }
            let Work { database, pending, progress, archived, .. } = &mut self.work;
            database.transaction(|database| pending.write(database))?;
            pending.clear();
            progress.set_archived(pending.revision());
            archived.notify_one();
            if self.wal_bytes >= WAL_BYTES {
                self.checkpoint(false)?;
            }
        }
    }

    fn is_out_of_time(&mut self) -> bool {
        self.closing.load(Ordering::Relaxed)
            && self.closing_since.get_or_insert_with(Stopwatch::start).elapsed()
                >= self.work.close_archive_max
    }

    fn journal_is_large(&self) -> bool {
        self.work.segments.bytes() > self.work.journal_bytes_max / 4
    }

    /// Reads a chunk of the journal into `pending`, which may still hold what a failed transaction left.
    fn absorb(&mut self) -> Result<usize> {
        let Work { reader, pending, .. } = &mut self.work;
        let mut bytes = 0;
        while bytes < ARCHIVE_CHUNK_BYTES
            && pending.effects() < ARCHIVE_CHUNK_BYTES / 16
            && let Some(effects) = reader.next()?
        {
            bytes += effects.len();
            for effect in Decoder::new(effects) {
                pending.absorb(&effect?);
            }
        }
        Ok(bytes)
    }

    fn checkpoint(&mut self, last: bool) -> Result<()> {
        let archived = self.work.progress.archived();
        if self.work.database.checkpoint(last)? {
            self.wal_bytes = 0;
            if let Some(oldest) = self.work.segments.recycle(archived)? {
                self.work.progress.set_oldest(oldest);
            }
        }
        Ok(())
    }

    fn copy(&mut self, path: &std::path::Path) -> Result<Revision> {
        self.work.database.copy_to(path)?;
        Ok(self.work.progress.archived())
    }
}

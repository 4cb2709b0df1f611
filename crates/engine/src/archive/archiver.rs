//! The archive thread: reads the journal behind the shard and keeps the SQLite file up to date.
//!
//! It reads what is durable, coalesces it, and writes it in one transaction together with the revision that it reaches. After
//! that it waits some seconds, or until nothing has changed for a second, and the longer the longer the batch took: so batches grow with
//! the load and with the database until they need a quarter of a processor at most, and the more changes a batch has, the more of them become one row and one page. A batch
//! that is too large for memory reads its values from the shard. After a checkpoint, journal segments that are in the archive are
//! recycled. When it cannot write, it reports the error and tries again, and the journal grows meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use keystead_core::{Code, Error, Result, Revision, Stopwatch};
use keystead_model::effect::Decoder;
use keystead_model::sql::Pending;
use rusqlite::InterruptHandle;
use tokio::sync::{Notify, oneshot};

use super::duty_cycle::DutyCycle;
use super::shard_keys::ShardKeys;
use super::{Database, Pages};
use crate::bounds::{ARCHIVE_AFTER, ARCHIVE_HELD_BYTES, FREE_PAGES_KEPT, VACUUM_PAGES, WAL_BYTES};
use crate::directory::ShardFiles;
use crate::health::Vitals;
use crate::journal::Progress;
use crate::journal::copy::copy_records;
use crate::journal::reader::Reader;
use crate::journal::segment::Owner;
use crate::journal::segments::Segments;

/// How often it checks whether a batch is due.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How many times as long as the last batch took it waits before the next one.
const WAIT_PER_BATCH: u32 = 3;

/// Bytes of a page of SQLite.
const PAGE_BYTES: u64 = 4096;

/// Delay after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Requests to the archive thread.
pub(crate) enum Request {
    /// Archive what is durable now.
    Flush,
    /// Archive what is durable now, and return all free space of the file to the system.
    Compact,
    /// Archive what is durable now, write a copy, and return its revision.
    Copy(Copy, oneshot::Sender<Result<Revision>>),
    /// Archive for a while and end. There may be other senders, so dropping one cannot be the signal.
    Finish,
}

/// Where a copy is written, and the database that it becomes a part of.
pub(crate) struct Copy {
    pub(crate) files: ShardFiles,
    pub(crate) owner: Owner,
    pub(crate) segment_bytes: u64,
}

/// Whether the database is being closed. The thread may be in the middle of a large batch, where it reads no request.
pub(crate) struct Closing {
    since: OnceLock<Stopwatch>,
    /// How long it goes on archiving.
    max: Duration,
}

impl Closing {
    pub(crate) fn new(max: Duration) -> Self {
        Closing { since: OnceLock::new(), max }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.since.get().is_some()
    }

    fn begin(&self) {
        self.since.get_or_init(Stopwatch::start);
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.since.get().is_some_and(|since| since.elapsed() >= self.max)
    }
}

/// The handle of the archive thread.
pub(crate) struct Archiver {
    requests: Sender<Request>,
    closing: Arc<Closing>,
    /// Interrupts a statement that takes too long.
    interrupt: InterruptHandle,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

/// What the archive thread works on.
pub(crate) struct Work {
    pub(crate) database: Database,
    pub(crate) reader: Reader,
    pub(crate) owner: Owner,
    pub(crate) segments: Arc<Segments>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) vitals: Arc<Vitals>,
    /// Notified whenever more has been archived.
    pub(crate) archived: Arc<Notify>,
    pub(crate) pending: Pending,
    pub(crate) keys: ShardKeys,
    /// Bytes of elements that a batch may hold.
    pub(crate) batch_bytes: usize,
    /// Maximum size of the journal. Well before that, it is archived and checkpointed without waiting for more.
    pub(crate) journal_bytes_max: u64,
    /// The time between batches while there are changes. The longer, the more changes of the same key become one row.
    pub(crate) batch_every: Duration,
    /// How long it goes on archiving when the database is closed.
    pub(crate) close_archive_max: Duration,
}

impl Archiver {
    pub(crate) fn start(name: String, work: Work) -> Result<Self> {
        let (requests, receiver) = channel();
        let closing = Arc::new(Closing::new(work.close_archive_max));
        let interrupt = work.database.interrupt_handle();
        let (end, ended) = channel::<()>();
        let duty =
            DutyCycle::new(Arc::clone(&work.segments), work.journal_bytes_max / 2, Arc::clone(&closing));
        let checkpointed = Revision::ZERO;
        let work = Loop { work, wal_bytes: 1, checkpointed, closing: Arc::clone(&closing), duty };
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            work.run(&receiver);
            drop(end);
        });
        let thread =
            thread.map_err(|e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e))?;
        Ok(Archiver { requests, closing, interrupt, ended, thread })
    }

    /// The thread's request channel. After the thread has ended, requests get no reply.
    pub(crate) fn requests(&self) -> Sender<Request> {
        self.requests.clone()
    }

    /// Makes the thread end, and waits for it. It archives everything if that does not take too long.
    pub(crate) fn finish(self) {
        self.closing.begin();
        let _ = self.requests.send(Request::Finish);
        // What is interrupted is rolled back, and the journal has it. An interrupt between two statements has no effect.
        let mut patience = self.closing.max.max(CHECK_EVERY);
        while self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            self.interrupt.interrupt();
            patience = CHECK_EVERY;
        }
        let _ = self.thread.join();
    }
}

struct Loop {
    work: Work,
    /// Bytes of journal written to SQLite's write-ahead log since the last complete checkpoint: about the size of that log. Not 0
    /// at the start, because the last process may have left a log.
    wal_bytes: u64,
    /// Up to where the archive's file itself has everything.
    checkpointed: Revision,
    closing: Arc<Closing>,
    duty: DutyCycle,
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
        let (mut check, mut since, mut last_batch) = (CHECK_EVERY, Stopwatch::start(), Duration::ZERO);
        let (mut durable, mut unchanged) = (self.work.progress.durable(), Stopwatch::start());
        let begun_at = self.work.progress.archived();
        loop {
            let request = requests.recv_timeout(check);
            // Best effort: without a spare the next segment is a new file. A database that is only read needs none.
            if self.work.progress.archived() > begun_at
                && matches!(request, Err(RecvTimeoutError::Timeout))
                && let Err(error) = self.work.segments.prepare_spare()
            {
                tracing::debug!(%error, "cannot prepare a journal segment");
            }
            if durable != self.work.progress.durable() {
                (durable, unchanged) = (self.work.progress.durable(), Stopwatch::start());
            }
            let every =
                if unchanged.elapsed() < ARCHIVE_AFTER { self.work.batch_every } else { Duration::ZERO };
            let is_behind = self.work.progress.archived() < durable;
            // After a failure it is tried again even if there is nothing new: the checkpoint may have failed.
            let is_due = (is_behind && since.elapsed() >= every.max(last_batch * WAIT_PER_BATCH))
                || check == RETRY_AFTER
                || self.journal_is_large();
            if matches!(request, Err(RecvTimeoutError::Timeout)) && !is_due {
                if check == CHECK_EVERY
                    && let Err(error) = self.vacuum_step(is_mostly_free)
                {
                    tracing::debug!(%error, "cannot return free space");
                }
                if self.work.segments.has_released()
                    && let Err(error) = self.recycle_released()
                {
                    tracing::debug!(%error, "cannot recycle the journal");
                }
                continue;
            }
            let batch = Stopwatch::start();
            self.duty.set_urgent(request.is_ok());
            let outcome = self.catch_up();
            self.work.vitals.add_archive_busy(batch.elapsed());
            (last_batch, since) = (batch.elapsed(), Stopwatch::start());
            check = if outcome.is_ok() { CHECK_EVERY } else { RETRY_AFTER };
            self.work.vitals.set_archive_failing(outcome.as_ref().err().map(ToString::to_string));
            match request {
                Ok(Request::Flush) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Request::Compact) => {
                    self.work.vitals.begin_compaction();
                    if let Err(error) = outcome.and_then(|_| self.compact()) {
                        tracing::warn!(%error, "cannot return free space");
                    }
                }
                Ok(Request::Copy(copy, reply)) => {
                    let _ = reply.send(outcome.and_then(|caught_up| match caught_up {
                        CaughtUp::Yes => self.copy(&copy),
                        CaughtUp::No => Err(being_closed()),
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
        } else if let Err(error) = self.checkpoint(true)
            && !self.closing.is_out_of_time()
        {
            self.work.vitals.set_archive_failing(Some(error.to_string()));
        }
    }

    /// Archives everything that is durable, and checkpoints when that is due. Also checked when there is nothing new: a
    /// full journal delays writes, and only a checkpoint makes it shorter. When the database is closed it stops in time.
    fn catch_up(&mut self) -> Result<CaughtUp> {
        match self.write_batches() {
            // Without its shard, a batch that reads from it cannot be written.
            Err(_) if self.closing.is_out_of_time() || self.is_without_values() => Ok(CaughtUp::No),
            outcome => outcome,
        }
    }

    fn is_without_values(&self) -> bool {
        self.work.pending.is_by_id() && self.work.keys.is_closed()
    }

    fn write_batches(&mut self) -> Result<CaughtUp> {
        // Under load there is always more: the rest is part of the next batch, unless something waits for it.
        let target = self.work.progress.durable();
        loop {
            if self.closing.is_out_of_time() {
                return Ok(CaughtUp::No);
            }
            self.wal_bytes += self.absorb()? as u64;
            if self.is_without_values() {
                return Ok(CaughtUp::No);
            }
            if !self.work.pending.is_empty() {
                self.write()?;
            }
            let is_done = self.work.progress.archived() >= target;
            if self.wal_bytes >= WAL_BYTES || (self.wal_bytes > 0 && is_done && self.journal_is_large()) {
                self.checkpoint(false)?;
            }
            if is_done {
                return Ok(CaughtUp::Yes);
            }
        }
    }

    fn write(&mut self) -> Result<()> {
        let Work { database, pending, progress, archived, keys, vitals, .. } = &mut self.work;
        let (mut keys, took) = (keys.batch(&self.closing, &self.duty), Stopwatch::start());
        database.transaction(|database| pending.write_from(database, &mut keys))?;
        let (revisions, keys) = (pending.revision().0 - progress.archived().0, pending.keys() as u64);
        vitals.add_archive_batch(revisions, keys, took.elapsed());
        tracing::debug!(revisions, keys, took = ?took.elapsed(), "archived");
        pending.clear();
        progress.set_archived(pending.revision());
        archived.notify_one();
        Ok(())
    }

    /// Whether the journal is so large that the next batch should not wait.
    fn journal_is_large(&self) -> bool {
        self.work.segments.bytes() > self.work.journal_bytes_max / 2
    }

    /// Reads the journal into `pending`, which may still hold what a failed transaction left.
    fn absorb(&mut self) -> Result<usize> {
        let Work { reader, pending, batch_bytes, keys, .. } = &mut self.work;
        let held_max = ARCHIVE_HELD_BYTES.min(*batch_bytes);
        // Without its shard it cannot read values later, so it takes what it can hold.
        let bytes_max = if keys.is_closed() { held_max } else { *batch_bytes };
        let mut bytes = 0;
        while pending.bytes() < bytes_max
            && !self.closing.is_out_of_time()
            && !(pending.is_by_id() && keys.is_closed())
            && let Some(effects) = reader.next()?
        {
            let work = Stopwatch::start();
            bytes += effects.len();
            if !pending.is_by_id() && pending.bytes() + effects.len() > held_max && !keys.is_closed() {
                pending.drop_values();
            }
            let decoder =
                if pending.is_by_id() { Decoder::without_values(effects) } else { Decoder::new(effects) };
            for effect in decoder {
                pending.absorb(&effect?);
            }
            self.duty.worked(&work);
        }
        Ok(bytes)
    }

    fn checkpoint(&mut self, last: bool) -> Result<()> {
        let archived = self.work.progress.archived();
        if self.work.database.checkpoint(last)? {
            self.wal_bytes = 0;
            self.checkpointed = archived;
            self.recycle()?;
        }
        Ok(())
    }

    /// Recycles what readers have released. Nothing may be recycled before the first checkpoint of this process.
    fn recycle_released(&mut self) -> Result<()> {
        match self.checkpointed {
            Revision::ZERO => self.checkpoint(false),
            _ => self.recycle(),
        }
    }

    /// Recycles the segments that are in the archive's file, and that no reader holds.
    fn recycle(&mut self) -> Result<()> {
        if let Some(oldest) = self.work.segments.recycle(self.checkpointed)? {
            self.work.progress.set_oldest(oldest);
        }
        Ok(())
    }

    /// Removes some free pages from the file, if there are so many that `is_wanted`. Returns whether it has.
    fn vacuum_step(&mut self, is_wanted: fn(Pages) -> bool) -> Result<bool> {
        if !is_wanted(self.work.database.pages()?) {
            return Ok(false);
        }
        self.work.database.vacuum(VACUUM_PAGES)?;
        self.wal_bytes += VACUUM_PAGES * PAGE_BYTES;
        if self.wal_bytes >= WAL_BYTES || !is_wanted(self.work.database.pages()?) {
            // The file becomes shorter.
            self.checkpoint(false)?;
        }
        Ok(true)
    }

    fn compact(&mut self) -> Result<()> {
        while !self.closing.is_out_of_time() && self.vacuum_step(|pages| pages.free > 0)? {}
        self.checkpoint(true)
    }

    /// Writes a copy of the archive. If its rows are not of one revision, the copy gets the part of the journal that makes it so.
    fn copy(&mut self, copy: &Copy) -> Result<Revision> {
        self.work.database.copy_to(&copy.files.archive)?;
        let (archived, newest) = (self.work.progress.archived(), self.work.pending.newest());
        if newest <= archived {
            return Ok(archived);
        }
        let Work { segments, progress, owner, .. } = &self.work;
        let mut reader = Reader::after(archived, Arc::clone(segments), Arc::clone(progress), *owner);
        copy_records(&mut reader, newest, copy)
    }
}

/// Whether free pages are worth moving others: deletions leave some everywhere, and new rows take them.
fn is_mostly_free(pages: Pages) -> bool {
    pages.free > FREE_PAGES_KEPT && pages.free > pages.all / 4
}

fn being_closed() -> Error {
    Error::new(Code::StoreUnavailable, "the database is being closed")
}

//! Writing the journal at `commit`: the shard itself writes, and a thread syncs about once a second, so that a power
//! loss costs little, although that is not guaranteed.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use keystead_core::{Code, Error, Result, Revision};

use super::group::Batch;
use super::record;
use super::writer::Writer;
use crate::directory::sync_dir;
use crate::health::Vitals;

const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The journal of a shard at `commit`.
pub(crate) struct InlineWriter {
    writer: Writer,
    records: Vec<u8>,
    shared: Arc<Shared>,
    /// Dropped to make the thread sync once more and end.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Syncs what the shard has written.
#[derive(Clone)]
pub(crate) struct Syncer(Arc<Shared>);

impl Syncer {
    /// Returns when everything that was written before the call is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

struct Shared {
    unsynced: Mutex<Unsynced>,
    dir: PathBuf,
    written: AtomicU64,
    synced: AtomicU64,
    /// Held while syncing: the thread of the journal does, and the archive.
    syncing: Mutex<()>,
}

/// What may not be on disk yet.
struct Unsynced {
    /// Files with such records, the current one last.
    files: Vec<Arc<File>>,
    /// Whether the name of one is new.
    has_new: bool,
}

impl InlineWriter {
    pub(crate) fn start(name: String, writer: Writer, last: Revision, vitals: Arc<Vitals>) -> Result<Self> {
        let shared = Arc::new(Shared {
            unsynced: Mutex::new(Unsynced { files: vec![writer.file()], has_new: true }),
            dir: writer.dir(),
            written: AtomicU64::new(last.0),
            synced: AtomicU64::new(last.0),
            syncing: Mutex::default(),
        });
        let (end, ended) = channel::<()>();
        let syncing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            loop {
                let over = ended.recv_timeout(SYNC_EVERY) != Err(RecvTimeoutError::Timeout);
                if let Err(error) = syncing.sync() {
                    vitals.poison(format!("the journal cannot be synced: {error}"));
                    return;
                }
                if over {
                    return;
                }
            }
        });
        let thread =
            thread.map_err(|e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e))?;
        Ok(InlineWriter { writer, records: Vec::new(), shared, end: Some(end), thread: Some(thread) })
    }

    pub(crate) fn syncer(&self) -> Syncer {
        Syncer(Arc::clone(&self.shared))
    }

    /// Writes a batch. When it returns, the operating system has it.
    pub(crate) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if self.writer.begin_record(batch.first, batch.effects.len())?.is_some() {
            let mut unsynced = self.shared.lock();
            unsynced.files.push(self.writer.file());
            unsynced.has_new = true;
        }
        let synced = Revision(self.shared.synced.load(Ordering::Acquire));
        self.records.clear();
        record::append(
            &mut self.records,
            self.writer.salt(),
            batch.first,
            batch.last,
            synced,
            &batch.effects,
        );
        self.writer.write(&self.records)?;
        self.shared.written.store(batch.last.0, Ordering::Release);
        Ok(())
    }
}

impl Shared {
    fn sync(&self) -> io::Result<()> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.written.load(Ordering::Acquire);
        if written == self.synced.load(Ordering::Acquire) {
            return Ok(());
        }
        let (files, has_new) = {
            let mut unsynced = self.lock();
            (unsynced.files.clone(), std::mem::take(&mut unsynced.has_new))
        };
        for file in &files {
            file.sync_data()?;
        }
        if has_new {
            sync_dir(&self.dir)?;
        }
        // The current file stays; the ones before it are complete.
        self.lock().files.drain(..files.len() - 1);
        self.synced.store(written, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InlineWriter {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Best effort: saves work at the next start.
        let _ = self.writer.finish();
    }
}

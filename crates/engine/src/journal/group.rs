//! The thread that writes and syncs the journal at `fsync` (group commit): it takes all queued batches, writes them together,
//! syncs once, and notifies the shard, which runs the next batch meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use keystead_core::{Code, Error, Result, Revision};
use tokio::sync::Notify;

use super::writer::Writer;
use super::{Progress, record};
use crate::bounds::{BATCHES_IN_FLIGHT_MAX, GROUP_BYTES_MAX};
use crate::health::Vitals;

/// The encoded effects of a batch.
pub(crate) struct Batch {
    pub(crate) first: Revision,
    pub(crate) last: Revision,
    pub(crate) effects: Vec<u8>,
}

/// The shard's handle of the journal thread. Dropping it makes the thread finish what is queued.
pub(crate) struct GroupWriter {
    batches: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl GroupWriter {
    pub(crate) fn start(
        name: String,
        writer: Writer,
        progress: Arc<Progress>,
        vitals: Arc<Vitals>,
        durable: Arc<Notify>,
    ) -> Result<Self> {
        let (batches, waiting) = sync_channel(BATCHES_IN_FLIGHT_MAX);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = run(writer, &waiting, &progress, &durable) {
                vitals.poison(format!("the journal cannot be written: {error}"));
            }
            drop(waiting);
            durable.notify_one();
        });
        let thread =
            thread.map_err(|e| Error::new(Code::StoreUnavailable, "cannot start a thread").with_source(e))?;
        Ok(GroupWriter { batches: Some(batches), thread: Some(thread) })
    }

    /// Queues a batch, and waits while too many are queued. The failure of the thread is reported through the shard's
    /// vitals, so nothing is returned here.
    pub(crate) fn send(&self, batch: Batch) {
        if let Some(batches) = &self.batches {
            let _ = batches.send(batch);
        }
    }
}

impl Drop for GroupWriter {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    mut writer: Writer,
    waiting: &Receiver<Batch>,
    progress: &Progress,
    durable: &Notify,
) -> io::Result<()> {
    let mut records = Vec::new();
    let mut next = waiting.recv().ok();
    while let Some(batch) = next {
        // At a segment's end everything in it is synced already, so the previous file needs no sync.
        writer.begin_record(batch.first, batch.effects.len())?;
        let synced = progress.durable();
        let mut last = batch.last;
        records.clear();
        record::append(&mut records, writer.salt(), batch.first, batch.last, synced, &batch.effects);
        next = None;
        while let Ok(batch) = waiting.try_recv() {
            let grown = records.len() + record::HEADER_BYTES + batch.effects.len();
            if grown > GROUP_BYTES_MAX || grown as u64 > writer.available() {
                next = Some(batch);
                break;
            }
            record::append(&mut records, writer.salt(), batch.first, batch.last, synced, &batch.effects);
            last = batch.last;
        }
        writer.write(&records)?;
        writer.sync()?;
        progress.set_durable(last);
        durable.notify_one();
        if next.is_none() {
            next = waiting.recv().ok();
        }
    }
    writer.finish()
}

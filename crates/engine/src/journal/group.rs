//! The thread that writes and syncs the journal at `fsync`: it takes every batch that waits, writes them in one go, syncs
//! once, and tells the shard, which runs the next batch meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use keystead_core::{Code, Error, Result};
use tokio::sync::Notify;

use super::writer::Writer;
use super::{Progress, record};
use crate::bounds::{BATCHES_IN_FLIGHT_MAX, GROUP_BYTES_MAX};
use crate::health::Vitals;

/// What a batch changed, on its way to the disk.
pub(crate) struct Batch {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) effects: Vec<u8>,
}

/// The shard's end of the journal thread. Dropping it lets the thread finish what it was given.
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

    /// Hands over a batch, and waits while too many are on their way. A thread that has failed is noticed by the shard's
    /// vitals, so there is nothing to answer.
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
        // At a segment's end everything in it is synced already, so the file left behind needs nothing.
        writer.make_room(batch.first, batch.effects.len())?;
        let synced = progress.durable();
        let mut last = batch.last;
        records.clear();
        record::append(&mut records, writer.salt(), batch.first, batch.last, synced, &batch.effects);
        next = None;
        while let Ok(batch) = waiting.try_recv() {
            let grown = records.len() + record::HEADER_BYTES + batch.effects.len();
            if grown > GROUP_BYTES_MAX || grown as u64 > writer.room() {
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

//! The thread that frees large values and tables, so that no shard stops for it.
//!
//! It touches nothing but memory. One thread serves all shards of a database; it ends with the last of them. A thread, not slices
//! on the shard's loop: returning the pages of a large block to the system is one call that cannot be sliced.

use std::sync::mpsc::{SyncSender, sync_channel};

use keystead_core::{Code, Error, Result};
use keystead_model::keyspace::{Garbage, Keyspace};

use crate::bounds::GARBAGE_WAITING_MAX;

/// Where a shard leaves what takes long to free.
#[derive(Clone)]
pub(crate) struct Collector {
    queue: SyncSender<Garbage>,
}

impl Collector {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start() -> Result<Collector> {
        let (queue, garbage) = sync_channel::<Garbage>(GARBAGE_WAITING_MAX);
        std::thread::Builder::new()
            .name("ks-free".into())
            .spawn(move || garbage.into_iter().for_each(drop))
            .map_err(|e| Error::new(Code::Internal, "cannot start a thread").with_source(e))?;
        Ok(Collector { queue })
    }

    /// Takes what a keyspace has removed.
    #[inline]
    pub(crate) fn collect(&self, keyspace: &mut Keyspace) {
        for garbage in keyspace.take_garbage() {
            // Where the queue is full, the value comes back and is freed here.
            drop(self.queue.try_send(garbage));
        }
    }
}

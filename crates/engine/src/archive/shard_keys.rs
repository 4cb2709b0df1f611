//! Reads keys with whole values from the shard, while it goes on serving requests, for a large batch of the archive.
//!
//! Touches the shard's queue of such requests. Invariant: what was read is durable before the batch is committed, on disk also at
//! `commit`: otherwise a power loss could leave a part of a change in the archive and nothing of it in the journal.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use keystead_core::{Code, Error, Result, Revision, Stopwatch};
use keystead_model::keyspace::Keyspace;
use keystead_model::keyspace::check::KeyDump;
use keystead_model::sql::WholeKeys;
use tokio::sync::mpsc;

use super::archiver::Closing;
use super::duty_cycle::DutyCycle;
use crate::health::Vitals;
use crate::journal::Progress;
use crate::journal::inline::Syncer;

/// How often a wait for the shard checks whether the database is being closed.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// How often the journal's progress is checked.
const DURABLE_EVERY: Duration = Duration::from_millis(1);

/// A request of the archive to its shard.
pub(crate) struct KeysRequest {
    ids: Vec<u32>,
    reply: Sender<Keys>,
}

/// The keys that were found, and the revision of the keyspace then.
struct Keys {
    keys: Vec<KeyDump>,
    revision: Revision,
}

impl KeysRequest {
    /// Answers the request. Called by the shard, between jobs.
    pub(crate) fn reply(self, keyspace: &Keyspace) {
        let keys = keyspace.dump_whole(&self.ids);
        let _ = self.reply.send(Keys { keys, revision: keyspace.revision() });
    }
}

/// Where the archive thread reads keys.
pub(crate) struct ShardKeys {
    pub(crate) requests: mpsc::Sender<KeysRequest>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) vitals: Arc<Vitals>,
    /// At `commit`, durable means written, and this syncs what is.
    pub(crate) syncer: Option<Syncer>,
}

/// The keys of one batch.
pub(crate) struct BatchKeys<'a> {
    from: &'a ShardKeys,
    closing: &'a Closing,
    duty: &'a DutyCycle,
    /// Since when it writes the keys that it has received.
    writing: Option<Stopwatch>,
    replies: Receiver<Keys>,
    reply_to: Sender<Keys>,
    read_at: Revision,
}

impl ShardKeys {
    /// Whether the shard has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    pub(crate) fn batch<'a>(&'a self, closing: &'a Closing, duty: &'a DutyCycle) -> BatchKeys<'a> {
        let (reply_to, replies) = channel();
        BatchKeys { from: self, closing, duty, writing: None, replies, reply_to, read_at: Revision::ZERO }
    }
}

impl BatchKeys<'_> {
    fn check(&self) -> Result<()> {
        if self.closing.is_out_of_time() || self.from.is_closed() {
            return Err(Error::new(Code::StoreUnavailable, "the database is being closed"));
        }
        match self.from.vitals.poisoned() {
            Some(why) => Err(Error::new(Code::StoreUnavailable, why)),
            None => Ok(()),
        }
    }
}

impl WholeKeys for BatchKeys<'_> {
    fn request(&mut self, ids: Vec<u32>) -> Result<()> {
        self.check()?;
        let request = KeysRequest { ids, reply: self.reply_to.clone() };
        let closed = |_| Error::new(Code::StoreUnavailable, "the database is being closed");
        self.from.requests.blocking_send(request).map_err(closed)
    }

    fn receive(&mut self) -> Result<Vec<KeyDump>> {
        if let Some(writing) = self.writing.take() {
            self.duty.worked(&writing);
        }
        loop {
            match self.replies.recv_timeout(CHECK_EVERY) {
                Ok(Keys { keys, revision }) => {
                    self.read_at = revision;
                    self.writing = Some(Stopwatch::start());
                    return Ok(keys);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.check()?,
            }
        }
    }

    fn durable(&mut self) -> Result<Revision> {
        while self.from.progress.durable() < self.read_at {
            self.check()?;
            // No reply is under way: this waits.
            let _ = self.replies.recv_timeout(DURABLE_EVERY);
        }
        if let Some(syncer) = &self.from.syncer
            && let Err(error) = syncer.sync()
        {
            // What is on disk is unknown from here on: a later sync may succeed without having written anything.
            let why = format!("the journal cannot be synced: {error}");
            self.from.vitals.poison(why.clone());
            return Err(Error::new(Code::StoreUnavailable, why));
        }
        Ok(self.read_at)
    }
}

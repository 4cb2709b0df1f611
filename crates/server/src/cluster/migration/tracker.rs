//! What a source knows of one migration: how far a copy of it is, which keys have changed since, and the digest of all that was sent.
//! Touches the shards, through `data` and `follower`.
//!
//! Invariant: the digest of a key is that of its last export, unless it has changed since; then the follower has its name. So a seal reads
//! only those. One export at a time, or an earlier one could replace the digest of a later one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use keystead_cluster::{Digest, SlotSet};
use keystead_core::{Code, Error, Millis, Result, Revision, ShardId};
use keystead_engine::Engine;
use keystead_model::Bytes;
use tokio::sync::Mutex;

use super::data;
use super::digests::{KeyDigests, Names};
use super::follower::{Follower, Following};
use crate::bounds::{MIGRATION_BATCH_BYTES, MIGRATION_BATCH_KEYS, MIGRATION_SLICE_KEYS};

/// The tracker of one migration.
pub(super) struct Tracker {
    engine: Engine,
    slots: SlotSet,
    names: Names,
    following: Following,
    sent: Mutex<Sent>,
}

#[derive(Default)]
struct Sent {
    copy: Option<Copying>,
    digests: KeyDigests,
    /// Whether there is a digest of every key that has not changed since.
    is_complete: bool,
}

/// A copy that has begun.
struct Copying {
    /// The position at that time.
    began: Revision,
    /// The number of the last page, and what was on it: the target asks again if it did not get it.
    page: u64,
    last: Vec<Bytes>,
    /// Names that were found and not sent.
    found: VecDeque<Bytes>,
    /// Where finding goes on.
    shards: VecDeque<ShardId>,
    cursor: u64,
}

/// A part of a copy.
pub(crate) struct Part {
    pub(crate) began: Revision,
    pub(crate) keys: usize,
    pub(crate) bytes: Vec<u8>,
    /// Whether there is nothing after it.
    pub(crate) is_last: bool,
}

/// Some changes.
pub(super) struct Tail {
    pub(super) through: Revision,
    /// How many keys have changed, also beyond these.
    pub(super) lag: u64,
    pub(super) keys: usize,
    pub(super) bytes: Vec<u8>,
}

impl Tracker {
    /// Begins to follow the changes of slots.
    pub(super) fn start(engine: &Engine, slots: &SlotSet, follower: &Arc<Follower>) -> Tracker {
        Tracker {
            engine: engine.clone(),
            slots: slots.clone(),
            names: Names::default(),
            following: follower.follow(slots),
            sent: Mutex::default(),
        }
    }

    pub(super) fn following(&self) -> &Following {
        &self.following
    }

    /// How many keys were sent; nothing while they are being sent.
    pub(super) fn keys(&self) -> Option<usize> {
        self.sent.try_lock().ok().map(|sent| sent.digests.len())
    }

    /// A page of a copy. Page 0 begins a new one; any other is the one after the last, or the last again.
    pub(super) async fn page(&self, page: u64) -> Result<Part> {
        let mut sent = self.sent.lock().await;
        if page == 0 {
            *sent = Sent { copy: Some(self.begin_copy()), ..Sent::default() };
        }
        let Sent { copy, digests, is_complete } = &mut *sent;
        match copy {
            Some(copy) if page == 0 || page == copy.page + 1 => {
                copy.last = self.next_names(copy).await?;
                copy.page = page;
            }
            Some(copy) if page == copy.page => {}
            _ => return Err(unknown_copy()),
        }
        let Some(copy) = copy else { return Err(unknown_copy()) };
        let (count, bytes) = self.export(&copy.last, digests).await?;
        for name in copy.last.split_off(count).into_iter().rev() {
            copy.found.push_front(name);
        }
        let is_last = copy.found.is_empty() && copy.shards.is_empty();
        *is_complete |= is_last;
        Ok(Part { began: copy.began, keys: count, bytes, is_last })
    }

    fn begin_copy(&self) -> Copying {
        Copying {
            began: self.following.position(),
            page: 0,
            last: Vec::new(),
            found: VecDeque::new(),
            shards: data::shards(&self.engine, &self.slots).into_iter().collect(),
            cursor: 0,
        }
    }

    /// The names of the next page, as far as they are found in a few turns.
    async fn next_names(&self, copy: &mut Copying) -> Result<Vec<Bytes>> {
        while copy.found.len() < MIGRATION_BATCH_KEYS
            && let Some(shard) = copy.shards.front().copied()
        {
            let (next, found) = data::scan(&self.engine, shard, &self.slots, copy.cursor).await?;
            copy.found.extend(found);
            copy.cursor = next;
            if next == 0 {
                copy.shards.pop_front();
            }
        }
        let count = copy.found.len().min(MIGRATION_BATCH_KEYS);
        Ok(copy.found.drain(..count).collect())
    }

    /// What has changed after a position, up to which the target has everything.
    pub(super) async fn tail(&self, after: Revision) -> Result<Tail> {
        let mut sent = self.sent.lock().await;
        let batch = self.following.batch(after, MIGRATION_BATCH_KEYS);
        if self.following.is_broken() {
            // Nothing is known of what has changed, and an empty batch would mean that nothing has.
            return Err(unknown_changes());
        }
        let names: Vec<Bytes> = batch.names.iter().map(|(_, name)| name.clone()).collect();
        let (count, bytes) = self.export(&names, &mut sent.digests).await?;
        let through = match batch.names.get(count.wrapping_sub(1)) {
            Some((changed_at, _)) if count < names.len() => *changed_at,
            _ => batch.through,
        };
        // What did not fit is more than what is left: a hand over would have to wait for it.
        let lag = if count < batch.changed { u64::MAX } else { batch.changed as u64 };
        Ok(Tail { through, lag, keys: count, bytes })
    }

    /// Makes sure that a seal has to read only what changes from now on.
    pub(super) async fn prepare(&self) -> Result<()> {
        let mut sent = self.sent.lock().await;
        if !sent.is_complete {
            // A target that has copied from a process before this one.
            sent.digests = data::digest_all(&self.engine, &self.slots, &self.names).await?;
            sent.is_complete = true;
        }
        Ok(())
    }

    /// The position and the digest of everything, when the slots are closed and the feeds were read to their end.
    pub(super) async fn seal(&self, compares_after: Millis) -> Result<(Revision, Digest)> {
        let mut sent = self.sent.lock().await;
        let (position, changed) = {
            let batch = self.following.batch(Revision::ZERO, usize::MAX);
            (batch.through, batch.names.into_iter().map(|(_, name)| name).collect())
        };
        data::digest(&self.engine, changed, &self.names, &mut sent.digests).await?;
        if self.following.is_broken() || !sent.is_complete {
            return Err(unknown_changes());
        }
        Ok((position, sent.digests.sum(compares_after)))
    }

    /// The keys of these names, up to a bound: how many of the names, and their bytes. Keys of later names may be in them as well.
    async fn export(&self, names: &[Bytes], digests: &mut KeyDigests) -> Result<(usize, Vec<u8>)> {
        let (mut done, mut bytes) = (0, Vec::new());
        while done < names.len() && bytes.len() < MIGRATION_BATCH_BYTES {
            let window = &names[done..names.len().min(done + MIGRATION_SLICE_KEYS)];
            let mut by_shard: BTreeMap<ShardId, (Vec<usize>, Vec<Bytes>)> = BTreeMap::new();
            for (at, name) in window.iter().enumerate() {
                let (ats, wanted) = by_shard.entry(self.engine.shard_of(name)).or_default();
                ats.push(at);
                wanted.push(name.clone());
            }
            // All are in the queues of their shards before the first is waited for.
            let jobs: Vec<_> = by_shard
                .into_iter()
                .map(|(shard, (ats, wanted))| (ats, data::export(&self.engine, shard, wanted, &self.names)))
                .collect();
            let mut count = window.len();
            for (ats, job) in jobs {
                let exported = job.await?;
                bytes.extend(exported.bytes);
                digests.put(exported.digested);
                count = ats.get(exported.count).map_or(count, |at| count.min(*at));
            }
            done += count;
            if count < window.len() {
                break;
            }
        }
        Ok((done, bytes))
    }
}

fn unknown_changes() -> Error {
    Error::new(Code::Gone, "the changes of the slots cannot be followed")
}

fn unknown_copy() -> Error {
    Error::new(Code::Gone, "this copy is not known any more")
}

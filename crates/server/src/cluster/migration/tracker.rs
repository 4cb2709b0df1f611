//! What a source knows of moving slots while the target copies and follows: the names of their keys, and which have changed since.
//! Touches the change feeds of the shards.
//!
//! A position is the sum of the revisions that were read from the feeds of the shards that have the slots: it only grows, each change has
//! its own, and after a restart it is at least what it was. Changes are not kept, only names: a key that has changed is sent as it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_cluster::SlotSet;
use keystead_core::{Result, Revision, ShardId, key};
use keystead_engine::{Changes, Engine, Feed};
use keystead_model::Bytes;
use keystead_model::effect::Fact;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::data;

/// The tracker of one migration. It ends when it is dropped.
pub(super) struct Tracker {
    shared: Arc<Shared>,
    _readers: JoinSet<()>,
}

struct Shared {
    slots: SlotSet,
    known: Mutex<Known>,
    progressed: Notify,
}

struct Known {
    /// The position at which it began.
    oldest: Revision,
    /// Up to which revision the feed of each shard was read.
    read: BTreeMap<ShardId, Revision>,
    names: BTreeSet<Bytes>,
    /// The position of the last change of each key that has changed, as far as the target may not have it.
    changed: HashMap<Bytes, Revision>,
    /// A feed has ended: nothing more is known.
    is_broken: bool,
    /// The slots are closed, so there is no change to wait for.
    is_sealed: bool,
}

impl Known {
    fn position(&self) -> Revision {
        Revision(self.read.values().map(|revision| revision.0).sum())
    }
}

/// Some changes after a position.
pub(super) struct Batch {
    /// Names of changed keys, in the order of their changes.
    pub(super) names: Vec<(Revision, Bytes)>,
    /// All changes up to this position are in it.
    pub(super) through: Revision,
    pub(super) oldest: Revision,
}

impl Tracker {
    /// Begins to follow the shards, then finds the names of all keys.
    pub(super) async fn start(engine: &Engine, slots: &SlotSet) -> Result<Tracker> {
        let (mut read, mut feeds) = (BTreeMap::new(), Vec::new());
        for shard in data::shards(engine, slots) {
            let revision = engine.revision(shard);
            read.insert(shard, revision);
            feeds.push((shard, engine.subscribe(shard, revision)?));
        }
        let mut known = Known {
            oldest: Revision::ZERO,
            read,
            names: BTreeSet::new(),
            changed: HashMap::new(),
            is_broken: false,
            is_sealed: false,
        };
        known.oldest = known.position();
        let shared =
            Arc::new(Shared { slots: slots.clone(), known: Mutex::new(known), progressed: Notify::new() });
        let mut readers = JoinSet::new();
        for (shard, feed) in feeds {
            readers.spawn(follow(Arc::clone(&shared), shard, feed));
        }
        for shard in data::shards(engine, slots) {
            let names = data::names(engine, shard, slots).await?;
            shared.lock().names.extend(names);
        }
        Ok(Tracker { shared, _readers: readers })
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.lock().is_broken
    }

    pub(super) fn position(&self) -> Revision {
        self.shared.lock().position()
    }

    pub(super) fn oldest(&self) -> Revision {
        self.shared.lock().oldest
    }

    pub(super) fn names(&self) -> BTreeSet<Bytes> {
        self.shared.lock().names.clone()
    }

    pub(super) fn keys(&self) -> usize {
        self.shared.lock().names.len()
    }

    /// The next names after this one, in their order.
    pub(super) fn names_after(&self, after: Option<&Bytes>, most: usize) -> Vec<Bytes> {
        use std::ops::Bound::{Excluded, Unbounded};
        let known = self.shared.lock();
        let from = after.map_or(Unbounded, Excluded);
        known.names.range::<Bytes, _>((from, Unbounded)).take(most).cloned().collect()
    }

    /// What changed after a position, up to which the target has everything. At most so many names.
    pub(super) fn batch(&self, after: Revision, most: usize) -> Batch {
        let mut known = self.shared.lock();
        known.changed.retain(|_, changed_at| *changed_at > after);
        let mut names: Vec<(Revision, Bytes)> =
            known.changed.iter().map(|(name, changed_at)| (*changed_at, name.clone())).collect();
        names.sort_unstable();
        let is_all = names.len() <= most;
        names.truncate(most);
        let through = match names.last() {
            Some((changed_at, _)) if !is_all => *changed_at,
            _ => known.position(),
        };
        Batch { names, through, oldest: known.oldest }
    }

    /// Waits until something has changed after a position, or nothing will.
    pub(super) async fn changed_after(&self, after: Revision) {
        let has_changed = |known: &Known| known.changed.values().any(|changed_at| *changed_at > after);
        self.wait_until(|known| known.is_sealed || has_changed(known)).await;
    }

    /// Says whether the slots are sealed.
    pub(super) fn set_sealed(&self, sealed: bool) {
        self.shared.lock().is_sealed = sealed;
        self.shared.progressed.notify_waiters();
    }

    /// Waits until the feeds were read up to these revisions.
    pub(super) async fn read_up_to(&self, revisions: &[(ShardId, Revision)]) {
        self.wait_until(|known| {
            revisions
                .iter()
                .all(|(shard, revision)| known.read.get(shard).is_some_and(|read| read >= revision))
        })
        .await;
    }

    async fn wait_until(&self, is_met: impl Fn(&Known) -> bool) {
        loop {
            let progressed = self.shared.progressed.notified();
            {
                let known = self.shared.lock();
                if known.is_broken || is_met(&known) {
                    return;
                }
            }
            progressed.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, shard: ShardId, changes: &Changes) {
        let mut known = self.lock();
        for effect in changes {
            known.read.insert(shard, effect.revision);
            let position = known.position();
            if effect.fact == Fact::Flushed {
                // Every key that was there is deleted.
                let names: Vec<Bytes> = known.names.iter().cloned().collect();
                known.changed.extend(names.into_iter().map(|name| (name, position)));
            } else if self.slots.contains(key::slot(&effect.key)) {
                known.names.insert(effect.key.clone());
                known.changed.insert(effect.key.clone(), position);
            }
        }
        drop(known);
        self.progressed.notify_waiters();
    }
}

async fn follow(shared: Arc<Shared>, shard: ShardId, mut feed: Feed) {
    loop {
        match feed.next().await {
            Ok(changes) => shared.note(shard, &changes),
            Err(error) => {
                tracing::warn!(%error, "the changes of moving slots cannot be followed: they are copied again");
                shared.lock().is_broken = true;
                shared.progressed.notify_waiters();
                return;
            }
        }
    }
}

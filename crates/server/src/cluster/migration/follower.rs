//! Which keys of moving slots change: one reader of the change feed of each shard, for all migrations from this node. Touches the feeds.
//!
//! A position is the sum of the revisions that were read from the feeds of all shards: it only grows, each change has its own, and after a
//! restart it is at least what it was. Changes are not kept, only names: a key that has changed is sent as it is.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_cluster::SlotSet;
use keystead_cluster::bounds::SLOTS;
use keystead_core::{Result, Revision, ShardId, key};
use keystead_engine::{Changes, Engine, Feed};
use keystead_model::Bytes;
use keystead_model::effect::Fact;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::bounds::MIGRATION_CHANGED_MAX;

/// The readers of the feeds. They end when it is dropped.
pub(super) struct Follower {
    shared: Arc<Shared>,
    _readers: JoinSet<()>,
}

struct Shared {
    known: Mutex<Known>,
    progressed: Notify,
}

struct Known {
    /// Up to which revision the feed of each shard was read.
    read: Vec<Revision>,
    /// The sum of these.
    position: Revision,
    /// For each slot, who follows it: its number, or 0.
    followed_by: Box<[u32]>,
    following: HashMap<u32, Changed>,
    last_number: u32,
    /// A feed has ended: nothing more is known.
    is_broken: bool,
}

/// What has changed of the slots of one migration.
#[derive(Default)]
struct Changed {
    slots: SlotSet,
    /// The keys that have changed, as far as the target may not have it, by the position of their last change.
    by_position: BTreeSet<(Revision, Bytes)>,
    positions: HashMap<Bytes, Revision>,
    /// The slots are closed: nothing changes any more.
    is_sealed: bool,
    /// It is not known any more what has changed.
    is_broken: bool,
}

impl Changed {
    fn note(&mut self, name: &Bytes, position: Revision) {
        if let Some(before) = self.positions.insert(name.clone(), position) {
            self.by_position.remove(&(before, name.clone()));
        }
        self.by_position.insert((position, name.clone()));
        if self.positions.len() > MIGRATION_CHANGED_MAX {
            // The target copies again.
            (self.is_broken, self.positions, self.by_position) = (true, HashMap::new(), BTreeSet::new());
        }
    }

    /// Forgets what the target has.
    fn forget(&mut self, through: Revision) {
        while let Some((position, name)) = self.by_position.first()
            && *position <= through
        {
            self.positions.remove(name);
            self.by_position.pop_first();
        }
    }
}

/// Some changes after a position.
pub(super) struct Batch {
    /// Names of changed keys, in the order of their changes.
    pub(super) names: Vec<(Revision, Bytes)>,
    /// How many there are, also beyond these.
    pub(super) changed: usize,
    /// All changes up to this position are in it.
    pub(super) through: Revision,
}

/// One migration's part of a [`Follower`]. It ends when it is dropped.
pub(super) struct Following {
    follower: Arc<Follower>,
    number: u32,
    /// The position at which it began.
    pub(super) oldest: Revision,
}

impl Follower {
    /// Begins to follow all shards.
    pub(super) fn start(engine: &Engine) -> Result<Arc<Follower>> {
        let (mut read, mut feeds) = (Vec::new(), Vec::new());
        for shard in ShardId::all(engine.shards()) {
            let revision = engine.revision(shard);
            read.push(revision);
            feeds.push((shard, engine.subscribe(shard, revision)?));
        }
        let position = Revision(read.iter().map(|revision| revision.0).sum());
        let known = Known {
            read,
            position,
            followed_by: vec![0; usize::from(SLOTS)].into(),
            following: HashMap::new(),
            last_number: 0,
            is_broken: false,
        };
        let shared = Arc::new(Shared { known: Mutex::new(known), progressed: Notify::new() });
        let mut readers = JoinSet::new();
        for (shard, feed) in feeds {
            readers.spawn(read_feed(Arc::clone(&shared), shard, feed));
        }
        Ok(Arc::new(Follower { shared, _readers: readers }))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.lock().is_broken
    }

    /// Begins to follow slots, which no other migration has.
    pub(super) fn follow(self: &Arc<Self>, slots: &SlotSet) -> Following {
        let mut known = self.shared.lock();
        known.last_number += 1;
        let number = known.last_number;
        slots.iter().for_each(|slot| known.followed_by[usize::from(slot)] = number);
        known.following.insert(number, Changed { slots: slots.clone(), ..Changed::default() });
        Following { follower: Arc::clone(self), number, oldest: known.position }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut known = self.follower.shared.lock();
        let Some(changed) = known.following.remove(&self.number) else { return };
        for slot in changed.slots.iter() {
            let followed_by = &mut known.followed_by[usize::from(slot)];
            if *followed_by == self.number {
                *followed_by = 0;
            }
        }
    }
}

impl Following {
    pub(super) fn is_broken(&self) -> bool {
        let known = self.follower.shared.lock();
        known.is_broken || known.following.get(&self.number).is_none_or(|changed| changed.is_broken)
    }

    pub(super) fn position(&self) -> Revision {
        self.follower.shared.lock().position
    }

    /// What changed after a position, up to which the target has everything. At most so many names.
    pub(super) fn batch(&self, after: Revision, most: usize) -> Batch {
        let mut known = self.follower.shared.lock();
        let position = known.position;
        let Some(changed) = known.following.get_mut(&self.number) else {
            return Batch { names: Vec::new(), changed: 0, through: after };
        };
        changed.forget(after);
        let names: Vec<(Revision, Bytes)> = changed.by_position.iter().take(most).cloned().collect();
        let all = changed.by_position.len();
        let through = match names.last() {
            Some((last, _)) if names.len() < all => *last,
            _ => position,
        };
        Batch { names, changed: all, through }
    }

    /// Waits until the slots are sealed.
    pub(super) async fn until_sealed(&self) {
        self.wait_until(|_, changed| changed.is_sealed).await;
    }

    /// Says whether the slots are sealed.
    pub(super) fn set_sealed(&self, sealed: bool) {
        if let Some(changed) = self.follower.shared.lock().following.get_mut(&self.number) {
            if changed.is_sealed == sealed {
                return;
            }
            changed.is_sealed = sealed;
        }
        self.follower.shared.progressed.notify_waiters();
    }

    /// Waits until the feeds were read up to these revisions.
    pub(super) async fn read_up_to(&self, revisions: &[(ShardId, Revision)]) {
        let is_read = |read: &[Revision]| {
            revisions.iter().all(|(shard, revision)| read.get(shard.0).is_some_and(|read| read >= revision))
        };
        self.wait_until(|read, _| is_read(read)).await;
    }

    async fn wait_until(&self, is_met: impl Fn(&[Revision], &Changed) -> bool) {
        loop {
            let progressed = self.follower.shared.progressed.notified();
            {
                let known = self.follower.shared.lock();
                let Some(changed) = known.following.get(&self.number) else { return };
                if known.is_broken || changed.is_broken || is_met(&known.read, changed) {
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
        let Known { read, position, followed_by, following, .. } = &mut *known;
        for effect in changes {
            let Some(read) = read.get_mut(shard.0) else { continue };
            position.0 += effect.revision.0.saturating_sub(read.0);
            *read = effect.revision.max(*read);
            if effect.fact == Fact::Flushed {
                // Every key that was there is deleted, and their names are not known.
                following.values_mut().for_each(|changed| changed.is_broken = true);
                continue;
            }
            let number = followed_by[usize::from(key::slot(&effect.key))];
            if number != 0
                && let Some(changed) = following.get_mut(&number)
                && !changed.is_broken
            {
                changed.note(&effect.key, *position);
            }
        }
        drop(known);
        self.progressed.notify_waiters();
    }
}

async fn read_feed(shared: Arc<Shared>, shard: ShardId, mut feed: Feed) {
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

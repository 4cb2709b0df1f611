//! Jobs that wait for keys, and watches of keys. It touches nothing.
//!
//! Invariant: a ticket is in the queue of each of its keys exactly while its job waits. Jobs are served in the order in which
//! keys changed, and for each key in the order of their tickets.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use keystead_core::{Millis, Revision};
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact, StreamFact};

use super::{Job, Wait};

/// Whether any of the watched keys has changed. It is shared with the shards of these keys.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Whether a key has changed.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct Watcher {
    touched: Weak<AtomicBool>,
    /// Removing all keys changes only those that exist.
    existed: bool,
}

struct Waiter {
    job: Box<dyn Job>,
    wait: Wait,
    /// The highest revision that its result depends on.
    seen: Revision,
    until: Millis,
}

/// The jobs that wait for keys of a shard, and the watches.
#[derive(Default)]
pub(crate) struct Waiting {
    jobs: BTreeMap<u64, Waiter>,
    queues: HashMap<Bytes, BTreeSet<u64>>,
    /// Tickets by deadline.
    deadlines: BTreeSet<(Millis, u64)>,
    /// Keys that have changed and whose queue was not served yet.
    changed: VecDeque<Bytes>,
    watchers: HashMap<Bytes, Vec<Watcher>>,
    /// Number of watched keys at the last sweep.
    swept: usize,
}

impl Waiting {
    /// Whether there are no waiting jobs and no watches.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.is_empty() && self.watchers.is_empty()
    }

    /// Adds a job that waits until then.
    pub(crate) fn add(&mut self, job: Box<dyn Job>, wait: Wait, seen: Revision, until: Millis) {
        for key in &wait.keys {
            self.queues.entry(key.clone()).or_default().insert(wait.ticket);
        }
        if until != Millis::NEVER {
            self.deadlines.insert((until, wait.ticket));
        }
        self.jobs.insert(wait.ticket, Waiter { job, wait, seen, until });
    }

    /// Removes a job from its queues; returns it with the revision its result depends on and its deadline.
    pub(crate) fn take(&mut self, ticket: u64) -> Option<(Box<dyn Job>, Revision, Millis)> {
        let Waiter { job, wait, seen, until } = self.jobs.remove(&ticket)?;
        for key in &wait.keys {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.remove(&ticket);
                if queue.is_empty() {
                    self.queues.remove(key);
                }
            }
        }
        self.deadlines.remove(&(until, ticket));
        Some((job, seen, until))
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// A job whose deadline has passed.
    pub(crate) fn next_due(&self, now: Millis) -> Option<u64> {
        self.deadlines.first().filter(|(until, _)| *until <= now).map(|(_, ticket)| *ticket)
    }

    /// Removes all jobs.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<dyn Job>> {
        self.queues.clear();
        self.changed.clear();
        self.deadlines.clear();
        std::mem::take(&mut self.jobs).into_values().map(|waiter| waiter.job)
    }

    /// Notes what has changed.
    pub(crate) fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            if matches!(effect.fact, Fact::Flushed) {
                self.note_flush();
                continue;
            }
            if self.queues.contains_key(&effect.key) && self.changed.back() != Some(&effect.key) {
                self.changed.push_back(effect.key.clone());
            }
            // Any fact about a key that did not exist creates it.
            let all = changes_content(&effect.fact);
            self.touch_if(&effect.key, |watcher| all || !watcher.existed);
        }
    }

    /// Lets the jobs that wait for these keys run again, although nothing has changed.
    pub(crate) fn wake(&mut self, selects: impl Fn(&[u8]) -> bool) {
        self.changed.extend(self.queues.keys().filter(|key| selects(key)).cloned());
    }

    fn note_flush(&mut self) {
        self.changed.extend(self.queues.keys().cloned());
        self.watchers.retain(|_, watchers| {
            touch_if(watchers, |watcher| watcher.existed);
            !watchers.is_empty()
        });
    }

    fn touch_if(&mut self, key: &Bytes, selects: impl Fn(&Watcher) -> bool) {
        if let Some(watchers) = self.watchers.get_mut(key) {
            touch_if(watchers, selects);
            if watchers.is_empty() {
                self.watchers.remove(key);
            }
        }
    }

    /// The next key that has changed, and the tickets in its queue.
    pub(crate) fn next_changed(&mut self) -> Option<(Bytes, Vec<u64>)> {
        loop {
            let key = self.changed.pop_front()?;
            if let Some(queue) = self.queues.get(&key) {
                let queue = queue.iter().copied().collect();
                return Some((key, queue));
            }
        }
    }

    /// Whether a job also runs when its key is deleted.
    pub(crate) fn runs_on_delete(&self, ticket: u64) -> bool {
        self.jobs.get(&ticket).is_some_and(|waiter| waiter.wait.on_delete)
    }

    /// Makes `watch` report a change of `key`.
    pub(crate) fn watch(&mut self, key: &[u8], existed: bool, watch: &Watch) {
        // Dropped watches leave their key names behind; these are swept from time to time.
        if self.watchers.len() >= 2 * self.swept.max(512) {
            self.watchers.retain(|_, watchers| {
                watchers.retain(|watcher| watcher.touched.strong_count() > 0);
                !watchers.is_empty()
            });
            self.swept = self.watchers.len();
        }
        let watchers = self.watchers.entry(Bytes::from(key)).or_default();
        watchers.retain(|watcher| watcher.touched.strong_count() > 0);
        watchers.push(Watcher { touched: Arc::downgrade(&watch.0), existed });
    }
}

/// Triggers and removes the watchers for which `selects` returns true.
fn touch_if(watchers: &mut Vec<Watcher>, selects: impl Fn(&Watcher) -> bool) {
    watchers.retain(|watcher| {
        let selects = selects(watcher);
        if selects {
            watcher.touch();
        }
        !selects
    });
}

/// Whether a fact triggers watches. What the groups of a stream store is not its content, as in Redis.
fn changes_content(fact: &Fact) -> bool {
    match fact {
        Fact::Stream(fact) => matches!(fact, StreamFact::Entry { .. } | StreamFact::EntryDeleted(_)),
        _ => true,
    }
}

impl Watcher {
    fn touch(&self) {
        if let Some(touched) = self.touched.upgrade() {
            touched.store(true, Ordering::Release);
        }
    }
}

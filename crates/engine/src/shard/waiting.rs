//! Jobs that wait for keys, and watches that are told of changes. It touches nothing.
//!
//! Invariant: a ticket is in the line of each of its keys exactly while its job waits. Jobs are served in the order in which
//! keys changed, and for each key in the order of their tickets.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact, StreamFact};

use super::{Job, Wait};

/// Whether any of some keys has changed since they were watched. It is shared with the shards that it watches.
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
    /// Removing all keys changes only those that are there.
    existed: bool,
}

struct Waiter {
    job: Box<dyn Job>,
    wait: Wait,
    /// The highest revision that its answer rests on.
    seen: u64,
    until: Millis,
}

/// Who waits for which key of a shard.
#[derive(Default)]
pub(crate) struct Waiting {
    jobs: BTreeMap<u64, Waiter>,
    lines: HashMap<Bytes, BTreeSet<u64>>,
    /// Tickets by when their time is up.
    deadlines: BTreeSet<(Millis, u64)>,
    /// Keys that have changed and whose line was not looked at yet.
    changed: VecDeque<Bytes>,
    watchers: HashMap<Bytes, Vec<Watcher>>,
    /// Names of watched keys at the last sweep.
    swept: usize,
}

impl Waiting {
    /// Whether nobody waits and nobody watches.
    pub(crate) fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.watchers.is_empty()
    }

    /// Lets a job wait until then.
    pub(crate) fn add(&mut self, job: Box<dyn Job>, wait: Wait, seen: u64, until: Millis) {
        for key in &wait.keys {
            self.lines.entry(key.clone()).or_default().insert(wait.ticket);
        }
        if until != Millis::NEVER {
            self.deadlines.insert((until, wait.ticket));
        }
        self.jobs.insert(wait.ticket, Waiter { job, wait, seen, until });
    }

    /// Takes a job out of its lines, with what its answer rests on and until when it waits.
    pub(crate) fn take(&mut self, ticket: u64) -> Option<(Box<dyn Job>, u64, Millis)> {
        let Waiter { job, wait, seen, until } = self.jobs.remove(&ticket)?;
        for key in &wait.keys {
            if let Some(line) = self.lines.get_mut(key) {
                line.remove(&ticket);
                if line.is_empty() {
                    self.lines.remove(key);
                }
            }
        }
        self.deadlines.remove(&(until, ticket));
        Some((job, seen, until))
    }

    /// When somebody's time is up next.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Somebody whose time is up.
    pub(crate) fn next_due(&self, now: Millis) -> Option<u64> {
        self.deadlines.first().filter(|(until, _)| *until <= now).map(|(_, ticket)| *ticket)
    }

    /// Takes every job out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<dyn Job>> {
        self.lines.clear();
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
            if self.lines.contains_key(&effect.key) && self.changed.back() != Some(&effect.key) {
                self.changed.push_back(effect.key.clone());
            }
            // A key that was not there has come into being, whatever the fact is about.
            let all = changes_content(&effect.fact);
            self.touch_if(&effect.key, |watcher| all || !watcher.existed);
        }
    }

    fn note_flush(&mut self) {
        self.changed.extend(self.lines.keys().cloned());
        self.watchers.retain(|_, watchers| {
            touch_if(watchers, |watcher| watcher.existed);
            !watchers.is_empty()
        });
    }

    fn touch_if(&mut self, key: &Bytes, hears: impl Fn(&Watcher) -> bool) {
        if let Some(watchers) = self.watchers.get_mut(key) {
            touch_if(watchers, hears);
            if watchers.is_empty() {
                self.watchers.remove(key);
            }
        }
    }

    /// The next key that has changed, and who stands in its line.
    pub(crate) fn next_changed(&mut self) -> Option<(Bytes, Vec<u64>)> {
        loop {
            let key = self.changed.pop_front()?;
            if let Some(line) = self.lines.get(&key) {
                let line = line.iter().copied().collect();
                return Some((key, line));
            }
        }
    }

    /// Whether a job also runs when its key has gone.
    pub(crate) fn wants_gone(&self, ticket: u64) -> bool {
        self.jobs.get(&ticket).is_some_and(|waiter| waiter.wait.gone)
    }

    /// Lets `watch` be told when `key`, which is there or not, changes.
    pub(crate) fn watch(&mut self, key: &[u8], existed: bool, watch: &Watch) {
        // Those who went away leave their names behind; now and then these are swept out.
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

/// Tells those watchers that hear of it, and forgets them.
fn touch_if(watchers: &mut Vec<Watcher>, hears: impl Fn(&Watcher) -> bool) {
    watchers.retain(|watcher| {
        let hears = hears(watcher);
        if hears {
            watcher.touch();
        }
        !hears
    });
}

/// Whether a fact is one that watchers hear of. What the groups of a stream remember is not its content, as in Redis.
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

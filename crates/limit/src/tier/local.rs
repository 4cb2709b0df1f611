//! The local state of a node: for each key its units, the last denial, and the checks that wait. Bounded by a number of keys.
//!
//! Evicting a key costs a request to the shared store and never admits more.

use std::future::poll_fn;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use foldhash::fast::RandomState;
use hipstr::HipByt;
use keystead_core::table::Table;
use keystead_core::{Code, Error, Key, Millis};

use super::coalesce::{Lead, Turn, same_error};
use super::units::Units;
use crate::bounds::{DENIAL_MS, LOCAL_KEYS};
use crate::decision::Decision;

/// Number of locks, so that keys of different shards do not block each other.
const SHARDS: usize = 16;

pub(super) struct Local {
    hasher: RandomState,
    shards: [Mutex<Table<Entry>>; SHARDS],
    pub(super) max_keys: usize,
    /// How long a denial is cached.
    pub(super) denial_ms: u64,
}

/// The local state of one key.
#[derive(Default)]
pub(super) struct Entry {
    units: Units,
    /// The state of the shared store after the last lease.
    shared: Option<Decision>,
    denied: Option<Denied>,
    question: Question,
}

/// A denial that holds until `until`, for this cost and every higher one.
struct Denied {
    cost: u64,
    since: Millis,
    until: Millis,
    decision: Decision,
}

/// The request that is in flight, if there is one, and the result of the last one.
#[derive(Default)]
struct Question {
    open: bool,
    generation: u64,
    waiting: Vec<Waker>,
    failure: Option<(u64, Code, String)>,
}

impl Entry {
    pub(super) fn receive(&mut self, sent_at: Millis, units: u64, good_ms: u64, decision: &Decision) {
        self.units.receive(sent_at, units, good_ms, decision.reset_at);
        self.shared = Some(*decision);
        self.denied = None;
    }

    pub(super) fn deny(&mut self, sent_at: Millis, cost: u64, decision: &Decision) {
        // From before the request: the store's wait began no earlier.
        let until = sent_at.plus_ms(decision.retry_after_ms);
        self.denied = Some(Denied { cost, since: sent_at, until, decision: *decision });
    }

    pub(super) fn fail(&mut self, error: &Error) {
        self.question.failure = Some((self.question.generation, error.code(), error.to_string()));
    }

    fn denied(&mut self, now: Millis, cost: u64, denial_ms: u64) -> Option<Decision> {
        let denied = self.denied.as_ref()?;
        // When the clock has jumped back it is not known how long the denial holds.
        if now < denied.since || now >= denied.until || denied.since.plus_ms(denial_ms) <= now {
            self.denied = None;
            return None;
        }
        let retry_after_ms = denied.until.since_ms(now);
        (cost >= denied.cost).then_some(Decision { retry_after_ms, ..denied.decision })
    }

    fn spend(&mut self, now: Millis, cost: u64) -> Option<Decision> {
        let shared = self.shared?;
        self.units.spend(now, cost).then(|| self.with_units(shared))
    }

    fn with_units(&self, shared: Decision) -> Decision {
        Decision { remaining: shared.remaining + self.units.left(), ..shared }
    }
}

impl Local {
    pub(super) fn new() -> Self {
        let hasher = RandomState::default();
        let shards = std::array::from_fn(|_| Mutex::new(Table::with_state(1, hasher.clone())));
        Local { hasher, shards, max_keys: LOCAL_KEYS, denial_ms: DENIAL_MS }
    }

    fn shard(&self, key: &Key) -> (u64, MutexGuard<'_, Table<Entry>>) {
        let hash = self.hasher.hash_one(key.as_bytes());
        let shard = &self.shards[(hash >> 48) as usize % SHARDS];
        // Nothing here panics half way through a change.
        (hash, shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The entry of a key, if there is one.
    fn with<R>(&self, key: &Key, look: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let (hash, mut table) = self.shard(key);
        let id = table.find_hashed(hash, key.as_bytes())?;
        table.touch(id);
        table.get_mut(id).map(look)
    }

    /// The entry of a key, created if there is none. A key with a request in flight is never evicted.
    fn with_new<R>(&self, key: &Key, look: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let (hash, mut table) = self.shard(key);
        let id = table.find_hashed(hash, key.as_bytes()).unwrap_or_else(|| {
            while table.len() >= self.max_keys.div_ceil(SHARDS) {
                let Some(id) = table.evictable(|_, entry| !entry.question.open) else { break };
                table.remove(id);
            }
            table.insert_hashed(hash, HipByt::from(key.as_bytes()), Entry::default())
        });
        table.touch(id);
        table.get_mut(id).map(look)
    }

    /// The denial of a key that holds `now`. The clock is read under the lock, as in [`turn`](Local::turn).
    pub(super) fn denied(&self, key: &Key, now: impl FnOnce() -> Millis, cost: u64) -> Option<Decision> {
        self.with(key, |entry| entry.denied(now(), cost, self.denial_ms))?
    }

    pub(super) fn deny(&self, key: &Key, sent_at: Millis, cost: u64, decision: &Decision) {
        self.with_new(key, |entry| entry.deny(sent_at, cost, decision));
    }

    pub(super) fn forget(&self, key: &Key) {
        self.with(key, |entry| {
            entry.units = Units::default();
            (entry.shared, entry.denied) = (None, None);
        });
    }

    /// Decides a check locally if possible, else determines which check sends the request. The clock is read under the lock: a time from
    /// before another check's result would look like a clock that jumped back, and the units of that result would be dropped.
    pub(super) fn turn<'a>(&'a self, key: &'a Key, now: impl FnOnce() -> Millis, cost: u64) -> Turn<'a> {
        let turn = self.with_new(key, |entry| {
            let now = now();
            let decision = entry.spend(now, cost).or_else(|| entry.denied(now, cost, self.denial_ms));
            if let Some(decision) = decision {
                return Turn::Decided(decision);
            }
            if entry.question.open {
                return Turn::Wait(entry.question.generation);
            }
            entry.question.open = true;
            entry.question.generation += 1;
            Turn::Lead(Lead { local: self, key, open: true })
        });
        // The entry was just inserted; even if it were missing, a request of its own would be correct.
        turn.unwrap_or(Turn::Lead(Lead { local: self, key, open: false }))
    }

    /// Waits until the request of this generation has ended. Returns its error if it failed.
    pub(super) async fn wait(&self, key: &Key, generation: u64) -> Option<Error> {
        poll_fn(|cx| {
            let ended = self.with(key, |entry| {
                let question = &mut entry.question;
                if question.open && question.generation == generation {
                    if !question.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        question.waiting.push(cx.waker().clone());
                    }
                    return Poll::Pending;
                }
                let failure = question.failure.as_ref().filter(|failure| failure.0 == generation);
                Poll::Ready(failure.map(|(_, code, message)| same_error(*code, message)))
            });
            ended.unwrap_or(Poll::Ready(None))
        })
        .await
    }

    /// Ends the request of a key and wakes all checks that wait for it.
    pub(super) fn end(&self, key: &Key, take_in: impl FnOnce(&mut Entry)) {
        let waiting = self.with(key, |entry| {
            take_in(entry);
            entry.question.open = false;
            std::mem::take(&mut entry.question.waiting)
        });
        // Outside of the lock: a waker may run its task at once.
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// A decision of the shared store, with the local units added.
    pub(super) fn with_local_units(&self, key: &Key, decision: Decision) -> Decision {
        if !decision.allowed || decision.failed_open {
            return decision;
        }
        self.with(key, |entry| entry.with_units(decision)).unwrap_or(decision)
    }
}

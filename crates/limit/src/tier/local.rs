//! What this node remembers: for each key its units, the last denial, and who waits. Bounded by a number of keys.
//!
//! To forget a key costs a question to the shared store and never admits more.

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

/// Locks, so that keys of different shards do not wait for each other.
const SHARDS: usize = 16;

pub(super) struct Local {
    hasher: RandomState,
    shards: [Mutex<Table<Entry>>; SHARDS],
    pub(super) max_keys: usize,
    /// How long a denial is believed.
    pub(super) denial_ms: u64,
}

/// What is known of one key.
#[derive(Default)]
pub(super) struct Entry {
    units: Units,
    /// How the shared store stood after the last lease.
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

/// The question that is under way, if there is one, and how the last one ended.
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
        // From before the question: the store's own wait began no earlier.
        let until = sent_at.plus_ms(decision.retry_after_ms);
        self.denied = Some(Denied { cost, since: sent_at, until, decision: *decision });
    }

    pub(super) fn fail(&mut self, error: &Error) {
        self.question.failure = Some((self.question.generation, error.code(), error.to_string()));
    }

    fn denied(&mut self, now: Millis, cost: u64, denial_ms: u64) -> Option<Decision> {
        let denied = self.denied.as_ref()?;
        // A clock that has jumped back cannot tell how long the denial holds.
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

    /// The entry of a key, made if there is none. A key that somebody waits for is never forgotten to make room.
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

    /// The denial of a key that holds `now`, which is looked at under the lock, as in [`turn`](Local::turn).
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

    /// Decides a check here if it can be, else says who asks. The clock is looked at under the lock: a time from before somebody
    /// else's answer would look like a clock that was set back, and what came with the answer would be forgotten.
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
        // The table holds what was just put into it; if it did not, asking without company is right, too.
        turn.unwrap_or(Turn::Lead(Lead { local: self, key, open: false }))
    }

    /// Waits until the question of this generation has ended, and tells the error if it failed.
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

    /// Ends the question of a key and wakes everybody who waits for it.
    pub(super) fn end(&self, key: &Key, take_in: impl FnOnce(&mut Entry)) {
        let waiting = self.with(key, |entry| {
            take_in(entry);
            entry.question.open = false;
            std::mem::take(&mut entry.question.waiting)
        });
        // Outside of the lock: a waker may run what waits at once.
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// A decision of the shared store together with what is left here.
    pub(super) fn with_local_units(&self, key: &Key, decision: Decision) -> Decision {
        if !decision.allowed || decision.failed_open {
            return decision;
        }
        self.with(key, |entry| entry.with_units(decision)).unwrap_or(decision)
    }
}

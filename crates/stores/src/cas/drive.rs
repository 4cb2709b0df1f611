//! Attempts: run a batch on the state of its key, swap, and try again after a lost race.

use keystead_core::{Code, Error, Key, Millis, Outcome, Result};

use super::batch::Persists;
use super::combine::{self, Job, Ran};
use super::fault::Fault;
use super::nonce::random;
use super::queue::Queues;
use super::record::Record;
use super::retry::{Pace, Times};
use super::settle::Settled;
use super::{Backend, Inner, Reading, Swap, Swapped, VersionToken};
use crate::bounds::{ATTEMPTS_MAX, RECLAIM_SLACK_MS};
use crate::copied::copy_as;

/// What a batch is based on: the value of a key, read or cached.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) token: Option<VersionToken>,
    pub(super) record: Option<Record>,
    /// The time of the server at the read, if that is the authority.
    pub(super) now: Option<Millis>,
}

impl Base {
    pub(super) fn of(reading: Reading) -> Result<Base> {
        let Some(stored) = reading.stored else {
            return Ok(Base { token: None, record: None, now: reading.now });
        };
        let record = Record::decode(&stored.text)?;
        Ok(Base { token: Some(stored.token), record: Some(record), now: reading.now })
    }
}

/// How the attempts of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Each job has its result, and what they changed is persisted.
    Done,
    /// Others wrote the key meanwhile, each time. Nothing was changed.
    Lost { attempts: u32 },
}

/// A swap that was sent.
pub(super) struct Sent {
    pub(super) record: Record,
    pub(super) now: Millis,
}

impl<B: Backend> Persists for Inner<B> {
    fn queues(&self) -> &Queues {
        &self.queues
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn persist(&self, key: &Key, jobs: &mut [Job]) -> Result<()> {
        match self.attempts(key, jobs, ATTEMPTS_MAX).await? {
            Ended::Done => Ok(()),
            Ended::Lost { attempts } => {
                let message =
                    format!("{attempts} attempts lost against other writers of the key: try again later");
                Err(Error::new(Code::StoreUnavailable, message))
            }
        }
    }
}

impl<B: Backend> Inner<B> {
    /// Runs jobs on the value of their key until they are persisted, or this many attempts are lost.
    pub(super) async fn attempts(&self, key: &Key, jobs: &mut [Job], attempts_max: u32) -> Result<Ended> {
        let times = self.pace.begin();
        let state_bytes_max = self.backend.capabilities().state_bytes_max;
        let cached = self.cached(key);
        // A denial from a stale state is wrong: what changes nothing must be based on a value that was just read.
        let mut fresh = cached.is_none();
        let mut base = match cached {
            Some(base) => base,
            None => self.read(key, &times).await?,
        };
        let mut attempt = 0;
        loop {
            let now = base.now.unwrap_or_else(|| self.clock.now());
            match combine::run(jobs, base.record.as_ref(), now, state_bytes_max) {
                Ran::Unchanged if fresh || self.has(Fault::TrustsTheCache) => {
                    self.cache.put(key, base);
                    return Ok(Ended::Done);
                }
                Ran::Unchanged => (base, fresh) = (self.read(key, &times).await?, true),
                Ran::Changed { state, expires_at } => {
                    let nonce = self.nonces.next();
                    let record = Record::after(base.record.as_ref(), random(), nonce, state, expires_at);
                    match self.write(key, &base, Sent { record, now }, &times).await? {
                        None => return Ok(Ended::Done),
                        Some(current) => base = current,
                    }
                    fresh = true;
                    if attempt + 1 < attempts_max {
                        times.pause(attempt).await;
                    }
                    attempt += 1;
                    if attempt == attempts_max || !times.may_attempt() {
                        return Ok(Ended::Lost { attempts: attempt });
                    }
                }
            }
        }
    }

    /// Swaps, and settles the outcome if there is no reply. Returns the current value if the race was lost.
    async fn write(&self, key: &Key, base: &Base, sent: Sent, times: &Times) -> Result<Option<Base>> {
        let error = match self.swap(key, base.token, &sent, times).await {
            Ok(Swapped::Done(token)) => {
                self.cache.put(key, Base { token: Some(token), record: Some(sent.record), now: None });
                return Ok(None);
            }
            Ok(Swapped::Conflict(Some(current))) => return Base::of(current).map(Some),
            Ok(Swapped::Conflict(None)) => return self.read(key, times).await.map(Some),
            Err(error) if error.outcome() == Outcome::NotApplied => return Err(error),
            Err(_) if self.has(Fault::RetriesUnknown) => return self.read(key, times).await.map(Some),
            Err(error) => error,
        };
        match self.settle(key, base, &sent, times).await {
            Settled::Applied => Ok(None),
            Settled::NotApplied => Err(copy_as(&error, Outcome::NotApplied)),
            Settled::Unknown => Err(copy_as(&error, Outcome::Unknown)),
        }
    }

    /// What is known of the key without asking the server.
    fn cached(&self, key: &Key) -> Option<Base> {
        // On the server's clock a step needs a time that was just read.
        let cached = self.cache.take(key);
        cached.filter(|_| self.backend.capabilities().injected_clock)
    }

    pub(super) async fn read(&self, key: &Key, times: &Times) -> Result<Base> {
        match times.call(self.backend.read(key)).await {
            Some(Ok(reading)) => Base::of(reading),
            // Whatever the backend reports, a read changes nothing.
            Some(Err(error)) => Err(copy_as(&error, Outcome::NotApplied)),
            None => Err(Error::new(Code::StoreUnavailable, self.silence(times))),
        }
    }

    pub(super) async fn swap(
        &self,
        key: &Key,
        expected: Option<VersionToken>,
        sent: &Sent,
        times: &Times,
    ) -> Result<Swapped> {
        let Sent { record, now } = sent;
        let text = record.encode();
        let left_ms = match (&record.state, record.expires_at) {
            (None, _) => Some(0),
            (Some(_), Millis::NEVER) => None,
            (Some(_), expires_at) => Some(expires_at.since_ms(*now)),
        };
        let swap = Swap {
            expected,
            text: &text,
            version: record.version,
            nonce: record.writers[0],
            reclaim_ms: left_ms.map(|ms| ms.saturating_add(RECLAIM_SLACK_MS)),
        };
        match times.call(self.backend.swap(key, &swap)).await {
            Some(result) => result,
            None => Err(Error::unknown(Code::StoreUnavailable, self.silence(times))),
        }
    }

    fn silence(&self, times: &Times) -> String {
        format!("the {} server did not reply within {}", self.backend.scheme(), times.patience())
    }
}

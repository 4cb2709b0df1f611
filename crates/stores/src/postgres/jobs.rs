//! Jobs on several keys: one transaction locks their rows, in the order of the keys, and writes what the job made of them. The job runs one time.
//!
//! A key without a row gets one without a state first, in the same transaction, so that there is something to lock. Who compares and sets,
//! or holds an advisory lock, waits for the rows too.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Applies, Clock, Code, ErasedStep, Error, Job, Key, Millis, Outcome, Result};
use tokio::time::timeout;

use super::backend::CAPABILITIES;
use super::calls::{self, RowSwap};
use super::failure;
use super::lock::roll_back;
use super::pool::{Lease, Pool};
use crate::bounds::{ATTEMPTS_MAX, POSTGRES_KEY_BYTES_MAX, RECLAIM_SLACK_MS};
use crate::cas::combine::{Ran, Working};
use crate::cas::nonce::random;
use crate::cas::record::Record;
use crate::cas::{Stored, Swapped, VersionToken};
use crate::copied::copy_as;

type Reply = Box<dyn Any + Send>;

pub(super) struct Jobs {
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

/// A row that is locked.
struct Held {
    key: Key,
    token: VersionToken,
    record: Record,
    working: Working,
}

/// The rows of a job.
struct Rows {
    held: Vec<Held>,
    now: Millis,
}

impl Jobs {
    pub(super) fn new(pool: &Arc<Pool>, clock: &Arc<dyn Clock>, deadline_ms: u64) -> Jobs {
        let (pool, clock) = (Arc::clone(pool), Arc::clone(clock));
        Jobs { pool, clock, deadline: Duration::from_millis(deadline_ms) }
    }

    pub(super) async fn run(&self, keys: &[Key], job: Job) -> Result<Reply> {
        let long = keys.iter().map(|key| key.as_bytes().len()).find(|len| *len > POSTGRES_KEY_BYTES_MAX);
        if let Some(len) = long {
            let message =
                format!("max key size exceeded. Limit: {POSTGRES_KEY_BYTES_MAX} bytes, Actual: {len} bytes");
            return Err(Error::new(Code::TooLarge, message));
        }
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        let mut is_sent = false;
        let ran = timeout(self.deadline / 8 * 7, self.transaction(keys, job, &mut is_sent)).await;
        ran.unwrap_or_else(|_| {
            let outcome = if is_sent { Outcome::Unknown } else { Outcome::NotApplied };
            let error = Error::new(Code::StoreUnavailable, "the PostgreSQL server did not reply in time");
            Err(copy_as(&error, outcome))
        })
    }

    async fn transaction(&self, keys: Vec<Key>, job: Job, is_sent: &mut bool) -> Result<Reply> {
        let (lease, stored) = self.hold(&keys).await?;
        let now = self.clock.now();
        let ran = Rows::of(keys, stored, now).and_then(|mut rows| {
            let reply = job.run(&mut rows)?;
            Ok((rows.changes()?, reply))
        });
        let (changes, reply) = match ran {
            Ok((changes, reply)) if !changes.is_empty() => (changes, reply),
            unchanged => {
                roll_back(lease).await;
                return unchanged.map(|(_, reply)| reply);
            }
        };
        *is_sent = true;
        // Both are sent at once; after an error the second one rolls back.
        let (swapped, committed) =
            tokio::join!(calls::swap_many(&lease, &changes), lease.client().batch_execute("COMMIT"));
        let swapped = swapped.map_err(|error| failure::of_call(&error))?;
        committed.map_err(|error| failure::of_call(&error))?;
        lease.finish();
        match swapped.iter().all(|swapped| matches!(swapped, Swapped::Done(_))) {
            true => Ok(reply),
            false => Err(Error::unknown(Code::StoreUnavailable, "a row changed while it was locked")),
        }
    }

    /// Begins a transaction in which the rows of all keys are there and locked.
    async fn hold(&self, keys: &[Key]) -> Result<(Lease<'_>, Vec<Stored>)> {
        let absent: Vec<RowSwap> = keys.iter().map(absent).collect();
        for _ in 0..ATTEMPTS_MAX {
            let lease = self.pool.take().await?;
            lease.ready().await.map_err(|error| copy_as(&failure::of_call(&error), Outcome::NotApplied))?;
            let (begun, inserted, stored) = tokio::join!(
                lease.begin(),
                calls::swap_many(&lease, &absent),
                // A statement of its own: it waits for others, and then sees what they have written.
                calls::hold_many(&lease, keys),
            );
            let stored = match (begun, inserted, stored) {
                (Ok(()), Ok(_), Ok(stored)) => stored,
                (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                    // The job has not run yet. The connection is closed, which ends the transaction.
                    if failure::is_lost_race(&error) {
                        continue;
                    }
                    let error = failure::of_call(&error);
                    return Err(copy_as(&error, Outcome::NotApplied));
                }
            };
            // A row may have been reclaimed between the two statements.
            match stored.into_iter().collect::<Option<Vec<_>>>() {
                Some(stored) => return Ok((lease, stored)),
                None => roll_back(lease).await,
            }
        }
        Err(Error::new(Code::StoreUnavailable, "rows were reclaimed again and again: try again later"))
    }
}

/// A row without a state.
fn absent(key: &Key) -> RowSwap {
    let record =
        Record { version: random() >> 12, expires_at: Millis::NEVER, writers: Vec::new(), state: None };
    RowSwap::of(key, None, &record, Some(RECLAIM_SLACK_MS))
}

impl Rows {
    fn of(keys: Vec<Key>, stored: Vec<Stored>, now: Millis) -> Result<Rows> {
        let held = keys.into_iter().zip(stored).map(|(key, stored)| {
            let record = Record::decode(&stored.text)?;
            let working = Working::of(Some(&record));
            Ok(Held { key, token: stored.token, record, working })
        });
        Ok(Rows { held: held.collect::<Result<_>>()?, now })
    }

    /// What is to be written. The names of the last writers stay: others find in them what they wrote.
    fn changes(self) -> Result<Vec<RowSwap>> {
        let now = self.now;
        let mut changes = Vec::new();
        for Held { key, token, record, working } in self.held {
            let Ran::Changed { state, expires_at } = working.finish(CAPABILITIES.state_bytes_max)? else {
                continue;
            };
            let left_ms = match (&state, expires_at) {
                (None, _) => Some(0),
                (Some(_), Millis::NEVER) => None,
                (Some(_), expires_at) => Some(expires_at.since_ms(now)),
            };
            let record = Record { version: record.version + 1, expires_at, writers: record.writers, state };
            let reclaim_ms = left_ms.map(|ms| ms.saturating_add(RECLAIM_SLACK_MS));
            changes.push(RowSwap::of(&key, Some(token), &record, reclaim_ms));
        }
        Ok(changes)
    }
}

impl Applies for Rows {
    fn now(&self) -> Millis {
        self.now
    }

    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        let now = self.now;
        match self.held.iter_mut().find(|held| held.key == *key) {
            Some(held) => held.working.apply(step, now),
            None => Err(Error::new(Code::Internal, "the job did not declare this key")),
        }
    }
}

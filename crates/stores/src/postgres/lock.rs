//! Steps under an advisory lock: one transaction locks the key, reads it, and writes what the steps made of it that waited for the key in this
//! process.
//!
//! The lock ends with its transaction. So whoever gets the lock of a call that had no reply knows that its transaction has ended, and reads
//! whether it was committed. The write also compares the version, because others may use the same key by compare-and-set.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_core::{
    Capabilities, Clock, Code, ErasedStep, Error, Key, Millis, Outcome, Result, Store, StoreFuture, Together,
};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::backend::CAPABILITIES;
use super::calls::{self, RowSwap};
use super::failure;
use super::jobs::Jobs;
use super::pool::{Lease, Pool};
use super::table::{Param, Query};
use crate::bounds::{ATTEMPTS_MAX, POSTGRES_KEY_BYTES_MAX, RECLAIM_SLACK_MS, WRITERS_MAX};
use crate::cas::batch::{self, Persists};
use crate::cas::combine::{self, Job, Ran, Work};
use crate::cas::nonce::{Nonces, random};
use crate::cas::queue::Queues;
use crate::cas::record::Record;
use crate::cas::retry::Pace;
use crate::cas::{Nonce, Stored, Swap, Swapped};
use crate::copied::copy_as;

pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";

pub(super) struct LockStore {
    inner: Arc<Inner>,
    jobs: Jobs,
}

struct Inner {
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    nonces: Nonces,
    queues: Queues,
    pace: Pace,
    deadline: Duration,
    closed: AtomicBool,
}

/// A write that was sent.
struct Sent {
    nonce: Nonce,
    before: Option<Record>,
}

/// The result of one transaction.
enum Ended {
    Done,
    /// Somebody wrote without the lock.
    LostRace,
}

impl LockStore {
    pub(super) fn new(pool: Arc<Pool>, clock: Arc<dyn Clock>, deadline_ms: u64) -> Result<Self> {
        let jobs = Jobs::new(&pool, &clock, deadline_ms);
        let inner = Inner {
            pool,
            clock,
            nonces: Nonces::new(),
            queues: Queues::default(),
            pace: Pace::new(deadline_ms)?,
            deadline: Duration::from_millis(deadline_ms),
            closed: AtomicBool::new(false),
        };
        Ok(LockStore { inner: Arc::new(inner), jobs })
    }

    async fn run(&self, key: &Key, work: Work) -> Result<Work> {
        if self.inner.closed.load(Ordering::SeqCst) {
            return Err(Error::new(Code::StoreUnavailable, "the store is closed"));
        }
        let (len, max) = (key.as_bytes().len(), POSTGRES_KEY_BYTES_MAX);
        if len > max {
            let message = format!("max key size exceeded. Limit: {max} bytes, Actual: {len} bytes");
            return Err(Error::new(Code::TooLarge, message));
        }
        batch::run(&self.inner, key, work).await
    }
}

impl Persists for Inner {
    fn queues(&self) -> &Queues {
        &self.queues
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn persist(&self, key: &Key, jobs: &mut [Job]) -> Result<()> {
        let mut sent = None;
        // A quarter of the deadline may have been spent waiting; a half is for the steps, the rest to settle an unknown outcome.
        let ran = timeout(self.deadline / 2, self.attempts(key, jobs, &mut sent)).await;
        let error = match ran {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => Error::unknown(Code::StoreUnavailable, "the PostgreSQL server did not reply in time"),
        };
        let settled = match (&sent, error.outcome()) {
            (Some(sent), Outcome::Unknown) => {
                timeout(self.deadline / 4, self.settle(key, sent)).await.unwrap_or(None)
            }
            // Nothing was written.
            _ => Some(false),
        };
        match settled {
            Some(true) => Ok(()),
            Some(false) => Err(copy_as(&error, Outcome::NotApplied)),
            None => Err(copy_as(&error, Outcome::Unknown)),
        }
    }
}

impl Inner {
    async fn attempts(&self, key: &Key, jobs: &mut [Job], sent: &mut Option<Sent>) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            if let Ended::Done = self.attempt(key, jobs, sent).await? {
                return Ok(());
            }
            *sent = None;
        }
        let message =
            format!("{ATTEMPTS_MAX} attempts lost against writers without the lock: try again later");
        Err(Error::new(Code::StoreUnavailable, message))
    }

    async fn attempt(&self, key: &Key, jobs: &mut [Job], sent: &mut Option<Sent>) -> Result<Ended> {
        let lease = self.pool.take().await?;
        let stored = self.locked_read(&lease, key).await?;
        let token = stored.as_ref().map(|stored| stored.token);
        let before = stored.map(|stored| Record::decode(&stored.text)).transpose();
        let now = self.clock.now();
        let ran = before
            .map(|before| (combine::run(jobs, before.as_ref(), now, CAPABILITIES.state_bytes_max), before));
        let (state, expires_at, before) = match ran {
            Ok((Ran::Changed { state, expires_at }, before)) => (state, expires_at, before),
            unchanged => {
                roll_back(lease).await;
                return unchanged.map(|_| Ended::Done);
            }
        };
        let nonce = self.nonces.next();
        let record = Record::after(before.as_ref(), random(), nonce, state, expires_at);
        let text = record.encode();
        let left_ms = match (&record.state, record.expires_at) {
            (None, _) => Some(0),
            (Some(_), Millis::NEVER) => None,
            (Some(_), expires_at) => Some(expires_at.since_ms(now)),
        };
        let reclaim_ms = left_ms.map(|ms| ms.saturating_add(RECLAIM_SLACK_MS));
        let swap = Swap { expected: token, text: &text, version: record.version, nonce, reclaim_ms };
        *sent = Some(Sent { nonce, before });
        let swap = RowSwap::new(key, &swap);
        // Both are sent at once; after an error the second one rolls back.
        let client = lease.client();
        let (swapped, committed) = tokio::join!(calls::swap(&lease, &swap), client.batch_execute("COMMIT"));
        match (swapped, committed) {
            (Ok(swapped), Ok(())) => {
                lease.finish();
                Ok(match swapped {
                    Swapped::Done(_) => Ended::Done,
                    Swapped::Conflict(_) => Ended::LostRace,
                })
            }
            (Err(error), _) | (_, Err(error)) if failure::is_lost_race(&error) => Ok(Ended::LostRace),
            (Err(error), _) | (_, Err(error)) => Err(failure::of_call(&error)),
        }
    }

    /// Begins a transaction, locks the key and reads it, in one round trip.
    async fn locked_read(&self, lease: &Lease<'_>, key: &Key) -> Result<Option<Stored>> {
        let id = self.pool.table.lock_id(key);
        let lock: [Param<'_>; 1] = [&id];
        lease.ready().await.map_err(|error| failure::of_call(&error))?;
        let (begun, locked, stored) = tokio::join!(
            lease.begin(),
            lease.query(Query::Lock, &lock),
            // A statement of its own: in that of the lock it would see the row as it was before the wait.
            calls::read(lease, key),
        );
        // Nothing has been written.
        let failed = |error: tokio_postgres::Error| copy_as(&failure::of_call(&error), Outcome::NotApplied);
        begun.map_err(failed)?;
        locked.map_err(failed)?;
        stored.map_err(failed)
    }

    /// Whether a write without a reply was committed; `None` if that cannot be known.
    async fn settle(&self, key: &Key, sent: &Sent) -> Option<bool> {
        loop {
            if let Ok(lease) = self.pool.take().await
                && let Ok(stored) = self.locked_read(&lease, key).await
            {
                roll_back(lease).await;
                let current = stored.map(|stored| Record::decode(&stored.text)).transpose().ok()?;
                return evidence(sent, current.as_ref());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Ends a transaction that has changed nothing.
pub(super) async fn roll_back(lease: Lease<'_>) {
    // Else the connection is closed, which also ends the transaction.
    if lease.client().batch_execute("ROLLBACK").await.is_ok() {
        lease.finish();
    }
}

fn evidence(sent: &Sent, current: Option<&Record>) -> Option<bool> {
    let Some(current) = current else {
        // Something else may have removed it after it was written.
        return sent.before.is_none().then_some(false);
    };
    if current.writers.contains(&sent.nonce) {
        return Some(true);
    }
    let before = sent.before.as_ref();
    let named_before =
        before.is_some_and(|before| before.writers.iter().any(|writer| current.writers.contains(writer)));
    // Else so many others wrote that it may have been dropped from the list.
    (named_before || current.writers.len() < WRITERS_MAX).then_some(false)
}

/// Whether an advisory lock of one connection excludes another: some servers that speak the protocol only accept the call.
pub(super) async fn check(one: &Client, other: &Client, patience: Duration) -> Result<()> {
    let id = (random() >> 1) as i64;
    let lock = [(&id as &(dyn tokio_postgres::types::ToSql + Sync), Type::INT8)];
    let failed = |error| failure::of_call(&error);
    one.batch_execute("BEGIN").await.map_err(failed)?;
    one.query_typed(LOCK, &lock).await.map_err(failed)?;
    let while_held = timeout(patience, other.query_typed_one(TRY_LOCK, &lock)).await.map_err(|_| {
        let message = "the server does not reply to a second connection while the first has a transaction: a pooler \
                       needs two connections to the server (default_pool_size of PgBouncer), or use atomic=cas";
        Error::new(Code::StoreUnavailable, message)
    })?;
    let while_held: bool = while_held.map_err(failed)?.get(0);
    one.batch_execute("ROLLBACK").await.map_err(failed)?;
    let afterwards: bool = other.query_typed_one(TRY_LOCK, &lock).await.map_err(failed)?.get(0);
    match (while_held, afterwards) {
        (false, true) => Ok(()),
        _ => {
            let message = "advisory locks do not exclude each other on this server: use atomic=cas";
            Err(Error::new(Code::Unsupported, message))
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for LockStore {
    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        StoreFuture::pending(async move {
            if let Work::Step(mut detached) = self.run(key, Work::Step(step.detach())).await?
                && let Some(reply) = detached.take_reply()
            {
                step.put_reply(reply);
            }
            Ok(())
        })
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(async move {
            Ok(matches!(self.run(key, Work::reset()).await?, Work::Reset { existed: true }))
        })
    }

    fn together(&self) -> Option<&dyn Together> {
        Some(self)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        StoreFuture::pending(async move {
            self.inner.closed.store(true, Ordering::SeqCst);
            self.inner.queues.drained().await;
            self.inner.pool.close();
            Ok(())
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl Together for LockStore {
    fn run_together<'a>(
        &'a self,
        keys: &'a [Key],
        job: keystead_core::Job,
    ) -> StoreFuture<'a, Box<dyn Any + Send>> {
        StoreFuture::pending(self.jobs.run(keys, job))
    }
}

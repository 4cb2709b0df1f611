//! Sends what is to be compared and executed, and finds out what became of it when a response was lost. Touches the storage service.
//!
//! Each write takes the next number of this process, and stores it in the same transaction. It is executed only if the number before it
//! is stored. So the same write may be sent again: it is executed once, and the stored number says that it was. Invariant: what is
//! reported as not applied never is, however late a request arrives.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use keystead_core::{Clock, Code, Error, Result, Stopwatch, SystemClock};
use keystead_http_api::statements::{Expectation, Item, Mismatch, Outcome, Row, Statement, Value};
use tokio::time::sleep;

use super::client::{Called, SharedStorage};
use super::rows::{number, revision};
use crate::bounds::{COMPUTE_PAUSE, COMPUTE_SETTLE_TIMEOUT};

const NUMBER: &str = "SELECT sequence FROM writers WHERE id = ?1";
const TAKE: &str = "INSERT INTO writers (id, sequence, at) VALUES (?1, ?2, ?3)
    ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence, at = excluded.at";

/// What became of an item.
pub(super) enum Committed {
    /// It was executed; the revision of the rows, or 0 where that is not known.
    Done(u64),
    /// It was not: for each expectation, nothing if it holds.
    Conflict(Vec<Option<Mismatch>>),
}

/// The writes of this process.
pub(super) struct Writer {
    storage: SharedStorage,
    id: String,
    /// The last number that is stored.
    last: Option<i64>,
}

impl Writer {
    pub(super) fn new(storage: SharedStorage) -> Writer {
        Writer { storage, id: new_id(), last: None }
    }

    /// Compares what an item expects. It has nothing to write, so it may be sent again.
    pub(super) async fn compare(&self, item: &Item) -> Result<Committed> {
        let mut called = self.storage.call(item).await;
        if let Called::Lost(_) = called {
            called = self.storage.call(item).await;
        }
        match called {
            Called::Answered(Outcome::Conflict(mismatches)) => Ok(Committed::Conflict(mismatches)),
            Called::Answered(_) => Ok(Committed::Done(0)),
            Called::NotSent(error) => Err(error),
            Called::Lost(error) => Err(Error::new(error.code(), error.message().to_owned())),
        }
    }

    /// Has an item executed once.
    pub(super) async fn write(&mut self, item: &mut Item) -> Result<Committed> {
        let next = self.last.unwrap_or(0) + 1;
        self.number(item, next);
        item.statements.push(revision());
        let began = Stopwatch::start();
        let mut is_lost = false;
        loop {
            let called = self.storage.call(item).await;
            match called {
                Called::Answered(Outcome::Results(results)) => {
                    self.last = Some(next);
                    let revision = results.last().and_then(|result| number(result.rows.first()?.first()));
                    return Ok(Committed::Done(revision.unwrap_or(0)));
                }
                Called::Answered(Outcome::Conflict(mismatches)) => {
                    let found = mismatches.last().and_then(Option::as_ref).map(|mismatch| &mismatch.rows[..]);
                    if self.is_stored(found, next) {
                        return Ok(Committed::Done(0));
                    }
                    if is_lost && self.fence(next, began).await? {
                        return Ok(Committed::Done(0));
                    }
                    return Ok(Committed::Conflict(mismatches));
                }
                Called::NotSent(error) if !is_lost => return Err(error),
                Called::NotSent(error) | Called::Lost(error) if began.elapsed() > COMPUTE_SETTLE_TIMEOUT => {
                    return Err(self.unknown(&error));
                }
                Called::NotSent(_) => pause().await,
                Called::Lost(_) => {
                    is_lost = true;
                    pause().await;
                }
                Called::Answered(Outcome::Error(failure)) => {
                    return Err(self.unknown(&Error::new(Code::StoreUnavailable, failure.message)));
                }
            }
        }
    }

    /// Makes a write impossible that may still arrive, by storing its number. Whether it had arrived before.
    async fn fence(&mut self, next: i64, began: Stopwatch) -> Result<bool> {
        let mut item = Item::default();
        self.number(&mut item, next);
        loop {
            match self.storage.call(&item).await {
                Called::Answered(Outcome::Results(_)) => {
                    self.last = Some(next);
                    return Ok(false);
                }
                Called::Answered(Outcome::Conflict(mismatches)) => {
                    let found = mismatches.last().and_then(Option::as_ref).map(|mismatch| &mismatch.rows[..]);
                    return Ok(self.is_stored(found, next));
                }
                Called::NotSent(error) | Called::Lost(error) if began.elapsed() > COMPUTE_SETTLE_TIMEOUT => {
                    return Err(self.unknown(&error));
                }
                _ => pause().await,
            }
        }
    }

    /// Adds the number of a write: what is expected, and what is stored.
    fn number(&self, item: &mut Item, next: i64) {
        let id = || Value::Text(self.id.clone());
        let rows = self.last.map(|last| vec![Value::Int(last)]).into_iter().collect();
        item.expect.push(Expectation { sql: NUMBER.into(), params: vec![id()], rows, otherwise: Vec::new() });
        let at = Value::Int(i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX));
        item.statements.push(Statement { sql: TAKE.into(), params: vec![id(), Value::Int(next), at] });
    }

    /// Whether the number that is stored says that the write was executed. Another one is taken over.
    fn is_stored(&mut self, found: Option<&[Row]>, next: i64) -> bool {
        let Some(found) = found else { return false };
        self.last =
            number(found.first().and_then(|row| row.first())).and_then(|last| i64::try_from(last).ok());
        self.last == Some(next)
    }

    /// What could not be found out. Nobody waits for this number any more, so the next write is that of another writer.
    fn unknown(&mut self, error: &Error) -> Error {
        (self.id, self.last) = (new_id(), None);
        let words = format!(
            "{}; the change may have been made: read the keys before you send it again",
            error.message()
        );
        Error::unknown(error.code(), words)
    }
}

/// 32 hexadecimal digits from a generator that the operating system has seeded.
fn new_id() -> String {
    let half = || RandomState::new().hash_one(SystemClock.now().0);
    format!("{:016x}{:016x}", half(), half())
}

async fn pause() {
    let part = RandomState::new().hash_one(0) % 1000;
    sleep(COMPUTE_PAUSE.mul_f64(0.5 + part as f64 / 1000.0)).await;
}

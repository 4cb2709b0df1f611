//! Steps on records, as a store: read, run in memory, swap, and again after a lost race. Touches the records it is given.
//!
//! It is the compare-and-set layer of `crates/stores` without what a Worker has not: requests of others to combine with, a cache, a thread.

use std::borrow::Cow;
use std::time::Duration;

use keystead_core::record::{Nonce, Ran, Record, Working};
use keystead_core::{
    Capabilities, Code, ErasedStep, Error, Key, Millis, Result, Store, StoreFuture, Together,
};
use worker::Delay;
use worker::send::SendFuture;

use super::items::{self, Call, Outcome, Swap};
use super::{Backend, Records};
use crate::bounds::{STORE_ATTEMPTS_MAX, STORE_PAUSE_MS_MAX, STORE_STATE_BYTES_MAX};
use crate::database::now;

/// How much longer than its state a record stays, in milliseconds: as that of other processes on the same records.
const RECLAIM_SLACK_MS: u64 = 300_000;

/// A store on records.
pub(crate) struct RecordStore {
    backend: Backend,
    records: Records,
}

impl RecordStore {
    pub(super) fn new(backend: Backend, records: Records) -> RecordStore {
        RecordStore { backend, records }
    }

    /// Changes a key until no other has changed it meanwhile. Returns what the last run has returned.
    async fn change<T>(
        &self,
        key: &Key,
        mut run: impl FnMut(&mut Working, Millis) -> Result<T>,
    ) -> Result<T> {
        let text = if self.backend == Backend::Kv { key.short_text() } else { key.text() };
        let mut current = self.read(&text).await?;
        let nonce = Nonce { writer: random(), number: 1 };
        for attempt in 0..STORE_ATTEMPTS_MAX {
            let before = current.as_deref().map(Record::decode).transpose()?;
            let (now, mut working) = (now(), Working::of(before.as_ref()));
            let result = run(&mut working, now)?;
            let Ran::Changed { state, expires_at } = working.finish(STORE_STATE_BYTES_MAX)? else {
                return Ok(result);
            };
            let left_ms = match (&state, expires_at) {
                (None, _) => Some(0),
                (Some(_), Millis::NEVER) => None,
                (Some(_), at) => Some(at.since_ms(now)),
            };
            let record = Record::after(before.as_ref(), random(), nonce, state, expires_at);
            let swap = Call::Swap(Swap {
                key: text.clone(),
                expected: before.map(|before| before.version),
                record: record.encode().into(),
                reclaim_ms: left_ms.map(|ms| ms.saturating_add(RECLAIM_SLACK_MS)),
                version: record.version,
            });
            match self.call(swap).await? {
                Outcome::Swapped(_) => return Ok(result),
                Outcome::Conflict(met) => current = met,
                // It was not read after the race was lost.
                Outcome::LargeConflict => current = self.read(&text).await?,
                other => return Err(unexpected(&other)),
            }
            pause(attempt).await;
        }
        let message =
            format!("{STORE_ATTEMPTS_MAX} attempts lost against other writers of the key: try again later");
        Err(Error::new(Code::StoreUnavailable, message))
    }

    async fn read(&self, key: &str) -> Result<Option<String>> {
        match self.call(Call::Read { key: Cow::Borrowed(key) }).await? {
            Outcome::Record(record) => Ok(record),
            other => Err(unexpected(&other)),
        }
    }

    async fn call(&self, mut call: Call<'_>) -> Result<Outcome> {
        items::check(&mut call, self.backend)?;
        let (outcomes, _) = self.records.run(std::slice::from_ref(&call)).await?;
        match outcomes.into_iter().next() {
            Some(Outcome::Failed(error)) => Err(error),
            Some(outcome) => Ok(outcome),
            None => Err(Error::unknown(Code::Internal, "a call has no outcome")),
        }
    }
}

impl Store for RecordStore {
    fn scheme(&self) -> &'static str {
        match self.backend {
            Backend::Object => "durable-object",
            Backend::D1 => "d1",
            Backend::Kv => "workers-kv",
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: self.backend != Backend::Kv,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: false,
            key_bytes_max: self.backend.key_bytes_max(),
            state_bytes_max: STORE_STATE_BYTES_MAX,
        }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        let change = self.change(key, move |working, now| working.apply(step, now));
        StoreFuture::pending(SendFuture::new(change))
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(SendFuture::new(self.change(key, |working, now| Ok(working.reset(now)))))
    }

    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        StoreFuture::Ready(Ok(()))
    }
}

/// A random part of a bound that doubles with each attempt.
async fn pause(attempt: u32) {
    let bound_ms = (1u64 << attempt.min(16)).min(STORE_PAUSE_MS_MAX);
    let ms = js_sys::Math::random() * bound_ms as f64;
    Delay::from(Duration::from_millis(ms as u64)).await;
}

/// A random number of 64 bits, of two of the platform.
fn random() -> u64 {
    let half = || (js_sys::Math::random() * 4_294_967_296.0) as u64;
    half() << 32 | half()
}

fn unexpected(outcome: &Outcome) -> Error {
    Error::unknown(Code::Internal, format!("a call has an outcome of another: {outcome:?}"))
}

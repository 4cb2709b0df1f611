//! An optimistic store of text: read, run the step, write if the row has not changed, else retry.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{
    AnyState, Capabilities, Clock, Code, ErasedStep, Error, Key, ManualClock, Millis, Result, Store,
    StoreFuture, SystemClock, Together, Ttl, Verdict,
};
use tokio::task::yield_now;

use super::Fault;

type Bytes = Vec<u8>;

/// The data of one or several handles, which outlives them.
#[derive(Clone, Default)]
pub struct SharedRows(Arc<Mutex<Rows>>);

#[derive(Default)]
struct Rows {
    rows: BTreeMap<Bytes, Row>,
    /// The version of the last write of any row.
    version: u64,
    /// The latest time that was read.
    latest: Millis,
}

struct Row {
    text: String,
    expires_at: Millis,
    version: u64,
    /// The handle that wrote it.
    writer: u64,
}

/// What an attempt has read.
struct Read {
    text: Option<String>,
    /// The version that the row must still have when the attempt writes.
    version: Option<u64>,
    expires_at: Millis,
    now: Millis,
}

impl SharedRows {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An optimistic store of text with at most one fault.
pub struct TextStore {
    rows: SharedRows,
    clock: Arc<dyn Clock>,
    fault: Fault,
    handle: u64,
    max_keys: Option<usize>,
    injected_clock: bool,
    atomic: bool,
    closed: AtomicBool,
    /// Keys that [`Fault::LeaksLock`] locks.
    locked: Mutex<BTreeSet<Bytes>>,
}

impl TextStore {
    /// A store with data of its own.
    #[must_use]
    pub fn alone(clock: ManualClock, fault: Fault) -> Self {
        TextStore::on(&SharedRows::default(), clock, fault)
    }

    /// A handle on these rows.
    #[must_use]
    pub fn on(rows: &SharedRows, clock: ManualClock, fault: Fault) -> Self {
        static HANDLES: AtomicU64 = AtomicU64::new(0);
        let rows = if fault == Fault::NotShared { SharedRows::default() } else { rows.clone() };
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        TextStore {
            rows,
            clock: Arc::new(clock),
            fault,
            handle,
            max_keys: None,
            injected_clock: true,
            atomic: true,
            closed: AtomicBool::new(false),
            locked: Mutex::default(),
        }
    }

    /// The same with a bound: beyond it, another key is evicted.
    #[must_use]
    pub fn bounded(self, max_keys: usize) -> Self {
        TextStore { max_keys: Some(max_keys), ..self }
    }

    /// The same on a clock that cannot be set, as a server has.
    #[must_use]
    pub fn on_servers_clock(self) -> Self {
        TextStore { clock: Arc::new(SystemClock), injected_clock: false, ..self }
    }

    /// The same, declared to be approximate by design.
    #[must_use]
    pub fn approximate(self) -> Self {
        TextStore { atomic: false, ..self }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) && self.fault != Fault::IgnoresClose {
            return Err(Error::new(Code::StoreUnavailable, "the store is closed"));
        }
        Ok(())
    }

    fn now(&self, rows: &mut Rows) -> Millis {
        let now = self.clock.now();
        rows.latest = rows.latest.max(now);
        if self.fault == Fault::SweepsByLatestTime {
            let latest = rows.latest;
            rows.rows.retain(|_, row| latest < row.expires_at);
        }
        if self.fault == Fault::MonotonicTime { rows.latest } else { now }
    }

    /// The row if it is not expired. An expired row is removed, so that it does not reappear when the clock jumps back.
    fn read(&self, key: &Bytes) -> Read {
        let mut rows = self.rows.lock();
        let now = self.now(&mut rows);
        let mut read = Read { text: None, version: None, expires_at: Millis::NEVER, now };
        let Some(row) = rows.rows.get(key) else {
            return read;
        };
        let expired = now >= row.expires_at;
        let remembers = self.fault == Fault::RemembersExpiredType && row.text.starts_with('"');
        if !expired || remembers {
            (read.text, read.expires_at) = (Some(row.text.clone()), row.expires_at);
        }
        if !expired || remembers || self.fault == Fault::HidesExpired {
            read.version = Some(row.version);
            return read;
        }
        if self.fault == Fault::InheritsExpiry {
            read.expires_at = row.expires_at.plus_ms(50);
        }
        rows.rows.remove(key);
        read
    }

    /// Writes if the row still has the version that was read. Returns whether it did.
    fn write(&self, key: &Bytes, read: Option<u64>, new: Option<(String, Millis)>) -> bool {
        let mut rows = self.rows.lock();
        let found = rows.rows.get(key);
        let blind = match self.fault {
            Fault::LostUpdate => true,
            Fault::BlindToOtherHandles => found.is_some_and(|row| row.writer != self.handle),
            _ => false,
        };
        if found.map(|row| row.version) != read && !blind {
            return false;
        }
        match new {
            None => {
                rows.rows.remove(key);
            }
            Some((text, expires_at)) => {
                rows.version += 1;
                let (version, writer) = (rows.version, self.handle);
                rows.rows.insert(key.clone(), Row { text, expires_at, version, writer });
                self.evict(&mut rows, key);
            }
        }
        true
    }

    fn evict(&self, rows: &mut Rows, newest: &Bytes) {
        let max_keys = self.max_keys.unwrap_or(usize::MAX);
        if rows.rows.len() <= max_keys || self.fault == Fault::Unbounded {
            return;
        }
        let oldest = rows.rows.iter().filter(|(key, _)| *key != newest).min_by_key(|(_, row)| row.version);
        let victim =
            if self.fault == Fault::EvictsTheNewest { Some(newest) } else { oldest.map(|(key, _)| key) };
        if let Some(victim) = victim.cloned() {
            rows.rows.remove(&victim);
        }
    }

    async fn run(&self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        self.check_open()?;
        let key = self.fault.cut(key.as_bytes());
        self.lock_leakily(&key).await;
        let ran = loop {
            match self.attempt(&key, step).await {
                Ok(true) => break Ok(()),
                Ok(false) => yield_now().await,
                Err(error) => break Err(error),
            }
        };
        // A lock that is released here and not by a guard outlives an apply that is dropped.
        self.locked().remove(&key);
        ran
    }

    /// One read, run and write. Returns whether there was no concurrent write.
    async fn attempt(&self, key: &Bytes, step: &mut dyn ErasedStep) -> Result<bool> {
        let read = self.read(key);
        yield_now().await;
        let mut slot = match &read.text {
            Some(text) => self.decode(key, text, step)?,
            None => None,
        };
        let mut verdict = step.run(&mut slot, read.now)?;
        yield_now().await;
        if self.fault == Fault::PersistsDenied && verdict == Verdict::Keep {
            verdict = Verdict::Put(Ttl::Never);
        }
        if self.fault == Fault::DeniedTrims && verdict == Verdict::Keep {
            self.trim(key);
        }
        let new = match verdict {
            Verdict::Keep => return Ok(true),
            Verdict::Delete if self.fault == Fault::IgnoresDelete => return Ok(true),
            Verdict::Delete => None,
            Verdict::Put(ttl) => {
                let text = slot.map_or_else(|| Ok("null".to_owned()), |state| state.encode());
                if text.is_err() && self.fault == Fault::LosesOnTooLarge {
                    self.write(key, read.version, None);
                }
                let expires_at = self.fault.expires_at(ttl, read.now, read.expires_at);
                Some((self.fault.spoil(text?), expires_at))
            }
        };
        Ok(self.write(key, read.version, new))
    }

    fn trim(&self, key: &Bytes) {
        if let Some(row) = self.rows.lock().rows.get_mut(key)
            && row.text.starts_with('[')
            && let Some((head, _)) = row.text.rsplit_once(',')
        {
            row.text = format!("{head}]");
        }
    }

    fn decode(&self, key: &Bytes, text: &str, step: &mut dyn ErasedStep) -> Result<Option<AnyState>> {
        if self.fault == Fault::NullIsAbsent && text == "null" {
            return Ok(None);
        }
        match step.decode(text) {
            Ok(state) => Ok(Some(state)),
            Err(_) if self.fault == Fault::OverwritesOtherTypes => Ok(None),
            Err(error) => {
                if self.fault == Fault::DenialTouchesTtl
                    && let Some(row) = self.rows.lock().rows.get_mut(key)
                {
                    row.expires_at = Millis::NEVER;
                }
                Err(error)
            }
        }
    }

    async fn lock_leakily(&self, key: &Bytes) {
        while self.fault == Fault::LeaksLock && !self.locked().insert(key.clone()) {
            yield_now().await;
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<Bytes>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_reset(&self, key: &Key) -> Result<bool> {
        self.check_open()?;
        let key = self.fault.cut(key.as_bytes());
        if self.fault == Fault::ResetSeesExpired {
            return Ok(self.rows.lock().rows.remove(&key).is_some());
        }
        loop {
            let read = self.read(&key);
            yield_now().await;
            if read.text.is_none() {
                return Ok(self.fault == Fault::ResetAlwaysReturnsTrue);
            }
            match self.fault {
                Fault::IgnoresReset => return Ok(true),
                Fault::RacyReset => {
                    self.rows.lock().rows.remove(&key);
                    return Ok(true);
                }
                _ if self.write(&key, read.version, None) => return Ok(true),
                _ => {}
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for TextStore {
    fn scheme(&self) -> &'static str {
        "text"
    }

    fn capabilities(&self) -> Capabilities {
        let sync = self.fault == Fault::ClaimsSync;
        Capabilities {
            atomic: self.atomic,
            durable: true,
            shared: true,
            sync,
            injected_clock: self.injected_clock,
            key_bytes_max: match self.fault {
                Fault::IgnoresKeyBound => KEY_BYTES_MAX / 2,
                _ => KEY_BYTES_MAX,
            },
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        if self.fault == Fault::HidesSync {
            return StoreFuture::Ready(at_once(self.run(key, step)));
        }
        StoreFuture::pending(self.run(key, step))
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(self.run_reset(key))
    }

    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        let closed = self.closed.swap(true, Ordering::SeqCst);
        if closed && self.fault == Fault::SecondCloseFails {
            return StoreFuture::Ready(Err(Error::new(Code::Internal, "closed twice")));
        }
        if self.fault == Fault::ForgetsOnClose {
            self.rows.lock().rows.clear();
        }
        StoreFuture::Ready(Ok(()))
    }
}

/// Drives a future that only yields, on this thread.
fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut cx) {
            return result;
        }
    }
}

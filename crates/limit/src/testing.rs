//! Shared by the tests of several modules: a store that counts its applies and can fail or block, on a manual clock.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{
    Capabilities, Clock, Code, ErasedStep, Error, Key, ManualClock, MemoryOptions, MemoryStore, Millis,
    Result, Store, StoreFuture, Together, Verdict,
};

use crate::policy::Policy;
use crate::strategy::KINDS;

/// A policy of every kind, each with a limit of 5.
pub(crate) fn every_kind() -> impl Iterator<Item = Policy> {
    KINDS.iter().map(|kind| Policy::from_json(kind.example).unwrap())
}

pub(crate) fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap()
}

/// A future that must be ready at once.
#[track_caller]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("not ready"),
    }
}

/// A store like a remote server: it stores text, runs one step at a time, counts the applies, and can be made to fail or block.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    rows: Mutex<HashMap<Key, (String, Millis)>>,
    clock: ManualClock,
    applies: AtomicUsize,
    broken: AtomicBool,
    gate: Mutex<Gate>,
    /// Runs once, right before the apply of this number.
    between: Mutex<Option<(usize, Run)>>,
}

type Run = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Gate {
    closed: bool,
    waiting: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Shared(Arc::new(Inner {
            rows: Mutex::default(),
            clock: clock.clone(),
            applies: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            gate: Mutex::default(),
            between: Mutex::default(),
        }))
    }

    pub(crate) fn applies(&self) -> usize {
        self.0.applies.load(Ordering::SeqCst)
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::SeqCst);
    }

    /// While it is closed, applies block.
    pub(crate) fn set_closed(&self, closed: bool) {
        let mut gate = self.0.gate.lock().unwrap();
        gate.closed = closed;
        gate.waiting.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn before_apply(&self, number: usize, run: impl FnOnce() + Send + 'static) {
        *self.0.between.lock().unwrap() = Some((number, Box::new(run)));
    }

    pub(crate) fn text(&self, key: &Key) -> Option<String> {
        self.0.rows.lock().unwrap().get(key).map(|(text, _)| text.clone())
    }

    async fn pass(&self) {
        std::future::poll_fn(|cx| {
            let mut gate = self.0.gate.lock().unwrap();
            if gate.closed {
                gate.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    async fn run(&self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        let number = self.0.applies.fetch_add(1, Ordering::SeqCst) + 1;
        let due = self.0.between.lock().unwrap().take_if(|(at, _)| *at == number);
        if let Some((_, run)) = due {
            run();
        }
        self.pass().await;
        if self.0.broken.load(Ordering::SeqCst) {
            return Err(Error::new(Code::StoreUnavailable, "the connection is lost"));
        }
        let now = self.0.clock.now();
        let mut rows = self.0.rows.lock().unwrap();
        let row = rows.get(key).filter(|(_, expires_at)| now < *expires_at).cloned();
        let mut slot = row.as_ref().map(|(text, _)| step.decode(text)).transpose()?;
        match step.run(&mut slot, now)? {
            Verdict::Keep => {}
            Verdict::Delete => drop(rows.remove(key)),
            Verdict::Put(ttl) => {
                let before = row.map_or(Millis::NEVER, |(_, expires_at)| expires_at);
                let text = slot.as_ref().unwrap().encode()?;
                rows.insert(key.clone(), (text, ttl.expires_at(now, before)));
            }
        }
        Ok(())
    }
}

impl Store for Shared {
    fn scheme(&self) -> &'static str {
        "shared"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: false,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        let future: Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> = Box::pin(self.run(key, step));
        StoreFuture::Pending(future)
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::Ready(Ok(self.0.rows.lock().unwrap().remove(key).is_some()))
    }

    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.set_broken(true);
        StoreFuture::Ready(Ok(()))
    }
}

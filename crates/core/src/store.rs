//! Stores: a store runs a step atomically against one key and stores the result.
//!
//! [`Store`] is minimal, has no default methods and can be a trait object, so that a store can be chosen at
//! run time; convenience methods are in [`StoreExt`].

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::clock::Millis;
use crate::erased::{Erased, ErasedStep};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::step::{Change, State, Step, step_fn};
use crate::together::Together;

/// Runs steps atomically, one key at a time.
pub trait Store: Send + Sync {
    /// The name of this kind of store in URLs, errors and metrics, for example `memory`.
    fn scheme(&self) -> &'static str;

    /// What this store supports.
    fn capabilities(&self) -> Capabilities;

    /// Runs `step` atomically against `key` and stores the result. The reply is left in `step`.
    ///
    /// The store passes the time to the step. A [`StoreFuture::Pending`] does nothing before it is first polled; when it is
    /// dropped after that, the outcome is unknown.
    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()>;

    /// Removes `key` and returns whether it existed.
    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool>;

    /// This store's multi-key steps, if it supports them.
    fn together(&self) -> Option<&dyn Together>;

    /// Completes pending work and releases all resources. Later calls fail with `store_unavailable`.
    fn close(&self) -> StoreFuture<'_, ()>;
}

/// What a store declares of itself; the conformance suite verifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// A step is atomic. A store without this is approximate by design.
    pub atomic: bool,
    /// Acknowledged changes survive a restart of the process.
    pub durable: bool,
    /// Several processes can share it.
    pub shared: bool,
    /// It completes every call immediately, without an async runtime.
    pub sync: bool,
    /// Steps get the time of the injected clock, not of a server.
    pub injected_clock: bool,
    /// The longest key. A longer one is rejected with `too_large`.
    pub key_bytes_max: usize,
    /// The longest text form of a state. A longer one is rejected with `too_large`.
    pub state_bytes_max: usize,
}

/// A result that is ready or pending. It is a future in both cases.
///
/// A result that is ready needs no allocation.
pub enum StoreFuture<'a, T> {
    /// The result.
    Ready(Result<T>),
    /// The result is not available yet.
    Pending(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    /// The result was returned by an earlier poll.
    Taken,
}

impl<'a, T> StoreFuture<'a, T> {
    /// A result that is not available yet.
    pub fn pending(future: impl Future<Output = Result<T>> + Send + 'a) -> Self {
        StoreFuture::Pending(Box::pin(future))
    }
}

impl<T: Unpin> Future for StoreFuture<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if let StoreFuture::Pending(future) = &mut *self {
            return future.as_mut().poll(cx);
        }
        match std::mem::replace(&mut *self, StoreFuture::Taken) {
            StoreFuture::Ready(result) => Poll::Ready(result),
            _ => Poll::Ready(Err(Error::new(Code::Internal, "a store future was polled after completion"))),
        }
    }
}

/// Convenience methods of every store.
pub trait StoreExt: Store {
    /// Runs `step` atomically against `key` and returns its reply.
    fn apply<S: Step>(&self, key: &Key, step: &S) -> impl Future<Output = Result<S::Reply>> + Send {
        async move {
            let mut erased = Erased::<&S, S>::new(step);
            self.apply_erased(key, &mut erased).await?;
            erased.reply.ok_or_else(no_reply)
        }
    }

    /// The same without an async runtime, on a store with [`Capabilities::sync`].
    ///
    /// # Errors
    /// `unsupported` when this store is asynchronous, else the error of the store.
    #[inline]
    fn apply_sync<S: Step>(&self, key: &Key, step: &S) -> Result<S::Reply> {
        let mut erased = Erased::<&S, S>::new(step);
        match self.apply_erased(key, &mut erased) {
            StoreFuture::Ready(result) => result?,
            _ => {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("a {} store has no synchronous apply", self.scheme()),
                ));
            }
        }
        erased.reply.ok_or_else(no_reply)
    }

    /// The state under `key`, if it exists and is not expired.
    fn get<T: State>(&self, key: &Key) -> impl Future<Output = Result<Option<T>>> + Send {
        async move {
            let get = step_fn(|state: Option<&T>, _now: Millis| Change::Keep(state.cloned()));
            self.apply(key, &get).await
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Runs a future of a synchronous store to completion without an async runtime.
///
/// ```
/// use keystead_core::{Key, MemoryStore, Result, StoreExt, at_once};
///
/// let store = MemoryStore::new();
/// assert_eq!(at_once(store.get::<u64>(&Key::new("visits")?))?, None);
/// # Ok::<(), keystead_core::Error>(())
/// ```
///
/// # Errors
/// `unsupported` when it has to wait (what it had begun by then may or may not happen), else the error of the future.
pub fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            Err(Error::unknown(Code::Unsupported, "this store is asynchronous: await the future"))
        }
    }
}

pub(crate) fn no_reply() -> Error {
    Error::unknown(Code::Internal, "the store ran no step")
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn scheme(&self) -> &'static str {
        (**self).scheme()
    }

    #[inline]
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    #[inline]
    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        (**self).apply_erased(key, step)
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        (**self).reset(key)
    }

    fn together(&self) -> Option<&dyn Together> {
        (**self).together()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        (**self).close()
    }
}

//! What a store is: it runs a step atomically against one key and keeps the result.
//!
//! [`Store`] is minimal, has no default methods and can be a trait object, so that a store can be chosen at
//! run time; the comforts are in [`StoreExt`].

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
    /// The word for this kind of store in URLs, errors and metrics, for example `memory`.
    fn scheme(&self) -> &'static str;

    /// What this store can and cannot do.
    fn capabilities(&self) -> Capabilities;

    /// Runs `step` atomically against `key` and keeps what it decides. The reply waits in `step`.
    ///
    /// The store tells the step the time. A [`StoreFuture::Pending`] does nothing before it is first polled, and
    /// dropping it then leaves the outcome unknown.
    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()>;

    /// Removes `key`, and tells whether it was there.
    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool>;

    /// This store as one that can run several steps together, if it can.
    fn together(&self) -> Option<&dyn Together>;

    /// Finishes what was begun and lets go of everything. Later calls answer `store_unavailable`.
    fn close(&self) -> StoreFuture<'_, ()>;
}

/// What a store declares of itself; the conformance suite holds it to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// A step is atomic. A store that is not is approximate by design and says so.
    pub atomic: bool,
    /// What was answered survives the process.
    pub durable: bool,
    /// Several processes can share it.
    pub shared: bool,
    /// It answers at once, without a runtime.
    pub sync: bool,
    /// It tells steps the time of the injected clock, not of a server.
    pub injected_clock: bool,
}

/// An answer that is there already, or will come. It is a future either way.
///
/// A store that answers at once allocates nothing for it.
pub enum StoreFuture<'a, T> {
    /// The answer.
    Ready(Result<T>),
    /// It will come.
    Pending(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    /// It was handed out.
    Taken,
}

impl<'a, T> StoreFuture<'a, T> {
    /// An answer that will come.
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
            StoreFuture::Ready(answer) => Poll::Ready(answer),
            _ => Poll::Ready(Err(Error::new(Code::Internal, "an answer was asked for twice"))),
        }
    }
}

/// The comforts of every store.
pub trait StoreExt: Store {
    /// Runs `step` atomically against `key` and gives its reply.
    fn apply<S: Step>(&self, key: &Key, step: &S) -> impl Future<Output = Result<S::Reply>> + Send {
        async move {
            let mut erased = Erased::<&S, S>::new(step);
            self.apply_erased(key, &mut erased).await?;
            erased.reply.ok_or_else(no_reply)
        }
    }

    /// The same without a runtime, on a store that answers at once.
    ///
    /// # Errors
    /// `unsupported` when this store cannot, else what the store says.
    #[inline]
    fn apply_sync<S: Step>(&self, key: &Key, step: &S) -> Result<S::Reply> {
        let mut erased = Erased::<&S, S>::new(step);
        match self.apply_erased(key, &mut erased) {
            StoreFuture::Ready(answer) => answer?,
            _ => {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("a {} store has no synchronous apply", self.scheme()),
                ));
            }
        }
        erased.reply.ok_or_else(no_reply)
    }

    /// The state under `key`, if it is there and not expired.
    fn get<T: State>(&self, key: &Key) -> impl Future<Output = Result<Option<T>>> + Send {
        async move {
            let look = step_fn(|state: Option<&T>, _now: Millis| Change::Keep(state.cloned()));
            self.apply(key, &look).await
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Runs a future to its end without a runtime: every call of a store that answers at once, and of what stands on it.
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
/// `unsupported` when it has to wait, else what the future says. What it had begun by then may or may not happen.
pub fn at_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            Err(Error::unknown(Code::Unsupported, "this store does not answer at once: await the answer"))
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

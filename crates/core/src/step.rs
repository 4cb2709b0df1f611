//! The one atomic step: a pure function of (state, now).
//!
//! A step reads no clock, no random source, no environment. It may run several times (optimistic stores try
//! again), so it has no side effect. A step that returns [`Change::Keep`] changes nothing, not even a TTL.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Millis;

/// What a step can keep under a key. Implemented for everything that has these properties.
///
/// A store that is not memory keeps the state as JSON text, in which a finite double survives bit for bit.
pub trait State: Serialize + DeserializeOwned + Clone + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> State for T {}

/// One atomic change of one key.
///
/// It is `Clone` so that a store with a thread of its own can carry it there.
pub trait Step: Clone + Send + Sync + 'static {
    /// What stays under the key.
    type State: State;
    /// What the caller is told.
    type Reply: Send + 'static;

    /// Decides what happens. `state` is `None` when the key is absent or expired.
    fn run(&self, state: Option<&Self::State>, now: Millis) -> Change<Self::State, Self::Reply>;
}

/// What a step decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<S, R> {
    /// Nothing changes.
    Keep(R),
    /// The key holds this state from now on.
    Put(S, Ttl, R),
    /// The key is gone.
    Delete(R),
}

/// How long a state that is put will live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Until it is deleted.
    Never,
    /// As long as the state it replaces; for a new key, until it is deleted.
    Same,
    /// This many milliseconds from now. With 0 it is expired at once.
    Ms(u64),
}

impl Ttl {
    /// When a state that is put at `now` expires, if the one it replaces would have expired at `before`.
    #[must_use]
    pub fn expires_at(self, now: Millis, before: Millis) -> Millis {
        match self {
            Ttl::Never => Millis::NEVER,
            Ttl::Same => before,
            Ttl::Ms(ms) => now.plus_ms(ms),
        }
    }
}

/// Makes a step of a function, for tests and small features.
///
/// ```
/// use keystead_core::{Change, Ttl, step_fn};
/// let increment = step_fn(|n: Option<&u64>, _now| {
///     let n = n.copied().unwrap_or(0) + 1;
///     Change::Put(n, Ttl::Never, n)
/// });
/// # let _ = increment;
/// ```
pub fn step_fn<S, R, F>(run: F) -> impl Step<State = S, Reply = R>
where
    S: State,
    R: Send + 'static,
    F: Fn(Option<&S>, Millis) -> Change<S, R> + Clone + Send + Sync + 'static,
{
    StepFn { run, types: PhantomData }
}

struct StepFn<F, S, R> {
    run: F,
    types: PhantomData<fn() -> (S, R)>,
}

impl<F: Clone, S, R> Clone for StepFn<F, S, R> {
    fn clone(&self) -> Self {
        StepFn { run: self.run.clone(), types: PhantomData }
    }
}

impl<F, S, R> Step for StepFn<F, S, R>
where
    S: State,
    R: Send + 'static,
    F: Fn(Option<&S>, Millis) -> Change<S, R> + Clone + Send + Sync + 'static,
{
    type State = S;
    type Reply = R;

    fn run(&self, state: Option<&S>, now: Millis) -> Change<S, R> {
        (self.run)(state, now)
    }
}

//! The atomic step: a pure function of (state, now).
//!
//! A step reads no clock, no random number generator, no environment. It may run several times (stores with optimistic
//! concurrency retry), so it has no side effects. A step that returns [`Change::Keep`] changes nothing, not even a TTL.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Millis;
use crate::script::{Script, ScriptReply};

/// What a step can store under a key. Implemented for every type with these properties.
///
/// Stores other than memory store the state as JSON text, which preserves a finite double bit for bit.
pub trait State: Serialize + DeserializeOwned + Clone + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> State for T {}

/// One atomic change of one key.
///
/// It is `Clone` so that a store can send it to another thread.
pub trait Step: Clone + Send + Sync + 'static {
    /// The state that is stored under the key.
    type State: State;
    /// What the caller receives.
    type Reply: Send + 'static;

    /// Decides the change. `state` is `None` when the key is absent or expired.
    fn run(&self, state: Option<&Self::State>, now: Millis) -> Change<Self::State, Self::Reply>;

    /// The same step as a script, if there is one. It must make the same decision, bit for bit.
    fn script(&self) -> Option<Script> {
        None
    }

    /// The reply, from what its script returned. `None` when that is not a reply of it.
    fn script_reply(&self, _reply: &ScriptReply<'_>) -> Option<Self::Reply> {
        None
    }
}

/// The decision of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<S, R> {
    /// Nothing changes.
    Keep(R),
    /// Stores this state under the key.
    Put(S, Ttl, R),
    /// Deletes the key.
    Delete(R),
}

/// The time to live of a state that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Does not expire.
    Never,
    /// The expiry of the state it replaces; a new key does not expire.
    Same,
    /// This many milliseconds from now. With 0 it is expired immediately.
    Ms(u64),
}

impl Ttl {
    /// The expiry of a state that is put at `now` and replaces one that would have expired at `before`.
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

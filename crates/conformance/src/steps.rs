//! The steps that the cases use, among them the smallest possible rate limit.

use keystead_core::{Change, Millis, State, Step, Ttl, step_fn};

/// Counts up by one and replies with the new count.
#[must_use]
pub fn increment(ttl: Ttl) -> impl Step<State = u64, Reply = u64> {
    step_fn(move |count: Option<&u64>, _now| {
        let count = count.copied().unwrap_or(0) + 1;
        Change::Put(count, ttl, count)
    })
}

/// Puts a state, whatever was there.
#[must_use]
pub fn put<T: State + Sync>(value: T, ttl: Ttl) -> impl Step<State = T, Reply = ()> {
    step_fn(move |_state: Option<&T>, _now| Change::Put(value.clone(), ttl, ()))
}

/// Puts a state only if there is none, and replies whether it did.
#[must_use]
pub fn put_if_absent<T: State + Sync>(value: T) -> impl Step<State = T, Reply = bool> {
    step_fn(move |state: Option<&T>, _now| match state {
        Some(_) => Change::Keep(false),
        None => Change::Put(value.clone(), Ttl::Never, true),
    })
}

/// Puts a state and replies with the one it replaced.
#[must_use]
pub fn swap<T: State + Sync>(value: T) -> impl Step<State = T, Reply = Option<T>> {
    step_fn(move |state: Option<&T>, _now| Change::Put(value.clone(), Ttl::Never, state.cloned()))
}

/// Writes the state back as it was read, for one more round trip through the store.
#[must_use]
pub fn rewrite<T: State>() -> impl Step<State = T, Reply = bool> {
    step_fn(|state: Option<&T>, _now| match state {
        Some(state) => Change::Put(state.clone(), Ttl::Same, true),
        None => Change::Keep(false),
    })
}

/// Deletes the key and replies with its state.
#[must_use]
pub fn delete<T: State>() -> impl Step<State = T, Reply = Option<T>> {
    step_fn(|state: Option<&T>, _now| Change::Delete(state.cloned()))
}

/// Changes nothing and replies with the state.
#[must_use]
pub fn look<T: State>() -> impl Step<State = T, Reply = Option<T>> {
    step_fn(|state: Option<&T>, _now| Change::Keep(state.cloned()))
}

/// Changes nothing and replies with the time that the store passed.
#[must_use]
pub fn read_time() -> impl Step<State = u64, Reply = Millis> {
    step_fn(|_state: Option<&u64>, now| Change::Keep(now))
}

/// The smallest possible rate limit: a number of checks a window, which begins with the first. A denial changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct FixedCount {
    /// How many checks a window admits.
    pub limit: u64,
    /// How long a window lasts.
    pub window_ms: u64,
}

impl Step for FixedCount {
    type State = u64;
    type Reply = bool;

    fn run(&self, used: Option<&u64>, _now: Millis) -> Change<u64, bool> {
        match used.copied() {
            None if self.limit > 0 => Change::Put(1, Ttl::Ms(self.window_ms), true),
            Some(used) if used < self.limit => Change::Put(used + 1, Ttl::Same, true),
            _ => Change::Keep(false),
        }
    }
}

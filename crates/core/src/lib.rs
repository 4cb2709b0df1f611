//! The contract that everything in Keystead stands on: one atomic step on one key.
//!
//! ```text
//! apply(key, step) -> reply      step: (Option<State>, now) -> Keep(reply) | Put(state, ttl, reply) | Delete(reply)
//! ```
//!
//! A *store* runs a step atomically against one key and keeps the result. A *feature* is a set of pure
//! steps. Features never know their store, stores never know a feature's maths.
//!
//! | To find            | open          |
//! |--------------------|---------------|
//! | what a step is     | [`step`]      |
//! | what a store is    | [`store`]     |
//! | who tells the time | [`clock`]     |
//! | what can go wrong  | [`error`]     |
//! | what a key is      | [`key`]       |
//! | how large is large | [`bounds`]    |
//! | `"15m"` as a number| [`duration`]  |
//! | the reference store| [`memory`]    |
//! | keys in memory     | [`table`]     |
//! | several keys as one| [`together`]  |
//!
//! This crate touches nothing: no sockets, no files, no runtime.

pub mod bounds;
pub mod clock;
pub mod duration;
pub mod erased;
pub mod error;
pub mod key;
pub mod memory;
pub mod step;
pub mod store;
pub mod table;
pub mod together;

pub use clock::{Clock, ManualClock, Millis, SteadyClock, Stopwatch, SystemClock};
pub use duration::parse_duration_ms;
pub use erased::{AnyState, ErasedStep, Verdict};
pub use error::{Code, Error, Outcome, Result};
pub use key::Key;
pub use memory::{MemoryOptions, MemoryStore};
pub use step::{Change, State, Step, Ttl, step_fn};
pub use store::{Capabilities, Store, StoreExt, StoreFuture, at_once};
pub use together::{Applies, Job, Together};

/// The examples of the README and of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/memory-store.md")]
struct Guide;

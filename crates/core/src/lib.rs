//! The contract that all of Keystead builds on: one atomic step on one key.
//!
//! ```text
//! apply(key, step) -> reply      step: (Option<State>, now) -> Keep(reply) | Put(state, ttl, reply) | Delete(reply)
//! ```
//!
//! A *store* runs a step atomically against one key and stores the result. A *feature* is a set of pure
//! steps. Features do not know their store, stores do not know a feature's logic.
//!
//! | To find            | open          |
//! |--------------------|---------------|
//! | what a step is     | [`step`]      |
//! | what a store is    | [`store`]     |
//! | clocks             | [`clock`]     |
//! | errors             | [`error`]     |
//! | revisions, versions| [`ids`]       |
//! | keys, hash slots   | [`key`]       |
//! | sizes and bounds   | [`bounds`]    |
//! | parsing `"15m"`    | [`duration`]  |
//! | the reference store| [`memory`]    |
//! | the key table      | [`table`]     |
//! | multi-key steps    | [`together`]  |
//! | steps as scripts   | [`script`]    |
//! | records of compare-and-set stores | [`record`] |
//!
//! This crate does no I/O: no sockets, no files, no async runtime.

pub mod bounds;
pub mod clock;
pub mod duration;
pub mod erased;
pub mod error;
pub mod ids;
pub mod key;
mod key_text;
pub mod memory;
pub mod record;
pub mod script;
pub mod step;
pub mod store;
pub mod table;
pub mod together;

pub use clock::{Clock, ManualClock, Millis, SteadyClock, Stopwatch, SystemClock};
pub use duration::parse_duration_ms;
pub use erased::{AnyState, ErasedStep, Verdict};
pub use error::{Code, Error, Outcome, Result};
pub use ids::{Revision, ShardId, Version};
pub use key::Key;
pub use memory::{MemoryOptions, MemoryStore};
pub use script::{Script, ScriptArg, ScriptReply};
pub use step::{Change, State, Step, Ttl, step_fn};
pub use store::{Capabilities, Store, StoreExt, StoreFuture, at_once};
pub use together::{Applies, Commit, Job, JobScript, Together};

/// The examples of the README and of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/memory-store.md")]
struct Guide;

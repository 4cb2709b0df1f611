//! The conformance suite for stores of `keystead-core`, and a harness for the server.
//!
//! A store registers with one line in its crate's `tests/conformance.rs` (with `harness = false`):
//!
//! ```no_run
//! use keystead_testkit::broken::{Fault, TextStore};
//!
//! fn main() -> std::process::ExitCode {
//!     keystead_testkit::conformance()
//!         .store("text", |setup| async move { Ok(TextStore::alone(setup.clock(), Fault::None)) })
//!         .run()
//! }
//! ```
//!
//! Every (store, case) pair is a test of its own that `cargo test` and `cargo nextest` list by name. A missing backend, and a case
//! that a store's [capabilities](keystead_core::Capabilities) exclude, are listed as *ignored* with the reason, never as passed;
//! `REQUIRE=redis,postgres` or `REQUIRE=all` turns a missing backend into a failure.
//!
//! | To find                          | open            |
//! |----------------------------------|-----------------|
//! | the cases themselves             | [`keystead_conformance`] |
//! | how cases become tests           | [`mod@conformance`] |
//! | stores that break the contract   | [`broken`]      |
//! | the server in a test             | [`server`]      |
//! | servers of others, to test stores| [`servers`]     |
//! | clients that write to a cluster  | [`cluster_writers`] |
//! | tests that cannot run            | [`skip`]        |
//!
//! This crate uses temporary directories and child processes. Cases and harnesses return a [`Failure`] and never panic, so that the
//! suite can be tested with broken stores.

pub mod broken;
pub mod cluster_writers;
pub mod conformance;
pub mod server;
pub mod servers;
pub mod skip;

pub use conformance::{Conformance, conformance};
pub use keystead_conformance::{
    Checked, Failure, NotOpened, Scene, Setup, cases, decisions, failure, rng, runner, scene, setup, steps,
    walk,
};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../CONTRIBUTING.md")]
struct Guide;

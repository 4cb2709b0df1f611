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
//! | the cases, one file a group      | [`cases`]       |
//! | the arguments of a store's opener| [`setup`]       |
//! | the arguments of a case          | [`scene`]       |
//! | how cases become tests           | [`mod@conformance`] |
//! | the random walk against a model  | [`walk`]        |
//! | stores that break the contract   | [`broken`]      |
//! | the server in a test             | [`server`]      |
//!
//! This crate uses temporary directories and child processes. Cases and harnesses return a [`Failure`] and never panic, so that the
//! suite can be tested with broken stores.

pub mod broken;
pub mod cases;
pub mod conformance;
pub mod failure;
pub mod rng;
pub mod runner;
pub mod scene;
pub mod server;
pub mod setup;
pub mod steps;
pub mod walk;

pub use conformance::{Conformance, conformance};
pub use failure::{Checked, Failure};
pub use scene::Scene;
pub use setup::{NotOpened, Setup};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../CONTRIBUTING.md")]
struct Guide;

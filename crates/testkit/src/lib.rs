//! Proof that a store keeps the contract of `keystead-core`, for authors of stores; and a harness for the server.
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
//! Every (store, case) pair is a test of its own that `cargo test` and `cargo nextest` list by name. A backend
//! that is not there and a case that a store's [capabilities](keystead_core::Capabilities) exclude are listed as
//! *ignored* together with the reason, never as passed; `REQUIRE=redis,postgres` or `REQUIRE=all` turns a
//! missing backend into a failure.
//!
//! | To find                          | open            |
//! |----------------------------------|-----------------|
//! | the cases, one file a group      | [`cases`]       |
//! | what a store's opener is handed  | [`setup`]       |
//! | what a case is handed            | [`scene`]       |
//! | how cases become tests           | [`mod@conformance`] |
//! | the random walk beside a model   | [`walk`]        |
//! | stores that break the contract   | [`broken`]      |
//! | the server in a test             | [`server`]      |
//!
//! This crate touches temporary directories and child processes. Cases and harnesses answer with a
//! [`Failure`] and never panic, so that a broken store can be examined as well as a good one.

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

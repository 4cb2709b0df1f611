//! What every store of `keystead-core` must do, as cases that run on any store: in the tests of each store (through
//! `keystead-testkit`), and against a user's own server (`keystead store verify`).
//!
//! | To find                          | open            |
//! |----------------------------------|-----------------|
//! | the cases, one file a group      | [`cases`]       |
//! | the arguments of a store's opener| [`setup`]       |
//! | the arguments of a case          | [`scene`]       |
//! | how a case is run                | [`runner`]      |
//! | the random walk against a model  | [`walk`]        |
//! | decisions of limits, against memory and against vectors | [`decisions`] |
//! | which keys were used, and their removal | [`recording`] |
//! | checks a second and latencies    | [`figures`]     |
//!
//! This crate touches nothing but the stores that it is given, and temporary directories. Cases return a [`Failure`] and never panic,
//! so that the suite can be tested with broken stores.

pub mod cases;
pub mod decisions;
pub mod failure;
pub mod figures;
pub mod recording;
pub mod rng;
pub mod runner;
pub mod scene;
pub mod setup;
pub mod steps;
pub mod walk;

pub use failure::{Checked, Failure};
pub use scene::Scene;
pub use setup::{NotOpened, Setup};

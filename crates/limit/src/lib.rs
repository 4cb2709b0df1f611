//! Rate limiting as pure steps, which run on any [store](keystead_core::Store).
//!
//! ```
//! use keystead_core::{MemoryStore, Result};
//! use keystead_limit::{FailMode, Limiter, Policy};
//!
//! fn main() -> Result<()> {
//!     let policy = Policy::from_json(r#"{"kind": "gcra", "limit": 2, "periodMs": "60s"}"#)?;
//!     let limiter = Limiter::new(policy, MemoryStore::new(), FailMode::Closed).prefix("login");
//!
//!     assert!(limiter.check_sync("ada", 1)?.allowed);
//!     assert!(limiter.check_sync("ada", 1)?.allowed);
//!     let third = limiter.check_sync("ada", 1)?;
//!     assert!(!third.allowed && third.retry_after_ms > 29_000);
//!     Ok(())
//! }
//! ```
//!
//! | To find                                | open                    |
//! |----------------------------------------|-------------------------|
//! | the algorithms, one file each          | [`strategy`]            |
//! | a limit in JSON or TOML                | [`policy`]              |
//! | the result of a check                  | [`decision`]            |
//! | check, peek, forecast, reset           | [`limiter`]             |
//! | several limits as one                  | [`combine`]             |
//! | delaying requests to an even rate      | [`shaper`]              |
//! | leases of a concurrency limit          | [`lease`]               |
//! | a cost that is known only afterwards   | [`reserve`]             |
//! | a check that owns its data             | [`question`]            |
//! | a local tier in front of a shared store| [`tier`]                |
//! | fail open or fail closed               | [`fail_mode`]                |
//! | headers of an HTTP response            | [`headers`]             |
//! | the client address of a request        | [`client`]              |
//! | a tower `Layer` (feature `tower`)      | `layer`                 |
//! | a policy on a recorded history         | [`replay`]              |
//! | bounds of sizes and numbers            | [`bounds`]              |
//!
//! `examples/axum.rs` is a complete service that is limited by client address.
//!
//! This crate touches nothing: no sockets, no files, no runtime.

pub mod bounds;
pub mod client;
pub mod combine;
pub mod decision;
pub mod fail_mode;
pub mod headers;
#[cfg(feature = "tower")]
pub mod layer;
pub mod lease;
pub mod limiter;
mod number;
pub mod policy;
pub mod question;
pub mod replay;
pub mod reserve;
pub mod shaper;
pub mod strategy;
#[cfg(test)]
mod testing;
pub mod tier;

pub use client::{ClientAddress, HiddenKeys, Trust};
pub use combine::{Combination, Combined, Rule};
pub use decision::Decision;
pub use fail_mode::FailMode;
pub use headers::{HeaderStyles, Headers};
#[cfg(feature = "tower")]
pub use layer::LimitLayer;
pub use lease::Lease;
pub use limiter::Limiter;
pub use policy::Policy;
pub use question::Question;
pub use replay::Replay;
pub use reserve::Reserved;
pub use shaper::{Reservation, Shaper};
pub use strategy::Strategy;
pub use tier::{Mode, Tiered};

/// Runs the examples of the guide as tests.
#[cfg(all(doctest, feature = "tower"))]
#[doc = include_str!("../../../docs/limits.md")]
struct Guide;

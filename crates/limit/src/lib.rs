//! Rate limits as pure steps, which any [store](keystead_core::Store) runs.
//!
//! ```
//! use keystead_core::{MemoryStore, Result};
//! use keystead_limit::{Fail, Limiter, Policy};
//!
//! fn main() -> Result<()> {
//!     let policy = Policy::from_json(r#"{"kind": "gcra", "limit": 2, "periodMs": "60s"}"#)?;
//!     let limiter = Limiter::new(policy, MemoryStore::new(), Fail::Closed).prefix("login");
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
//! | the maths, one file a kind             | [`strategy`]            |
//! | how people write a limit               | [`policy`]              |
//! | what a check answers                   | [`decision`]            |
//! | check, peek, forecast, reset           | [`limiter`]             |
//! | several limits as one                  | [`combine`]             |
//! | waiting for one's turn                 | [`shaper`]              |
//! | how many at the same time              | [`lease`]               |
//! | a cost that is known only afterwards   | [`reserve`]             |
//! | one question, wherever the key is      | [`question`]            |
//! | a local tier before a shared store     | [`tier`]                |
//! | what a broken store means              | [`fail`]                |
//! | headers of an HTTP answer              | [`headers`]             |
//! | whom a request counts for              | [`client`]              |
//! | a tower `Layer` (feature `tower`)      | `layer`                 |
//! | what a policy would have decided       | [`replay`]              |
//! | how large is large                     | [`bounds`]              |
//!
//! This crate touches nothing: no sockets, no files, no runtime.

pub mod bounds;
pub mod client;
pub mod combine;
pub mod decision;
pub mod fail;
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
pub use fail::Fail;
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

/// The examples of the guide are tests.
#[cfg(all(doctest, feature = "tower"))]
#[doc = include_str!("../../../docs/limits.md")]
struct Guide;

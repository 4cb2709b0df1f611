//! Stores that break the contract in one way each, to show that the suite can fail; and one that does not.
//!
//! [`TextStore`] with [`Fault::None`] is the smallest correct store of another kind than `MemoryStore`: it stores states as text, is
//! asynchronous, and runs steps optimistically, so that a step may run several times.

mod fault;
mod text;

pub use fault::Fault;
pub use text::{SharedRows, TextStore};

//! The decisions of rate limits on a store: equal to those in memory on random timelines, and to the vectors.
//!
//! | To find                                   | open          |
//! |-------------------------------------------|---------------|
//! | random policies and timelines             | [`plan`]      |
//! | the comparison with memory, and shrinking | [`timelines`] |
//! | decisions that are written down           | [`vectors`]   |
//! | several limits as one                     | [`combinations`] |
//! | many keys, and many steps of a key, at a time | [`concurrent`] |

pub mod combinations;
pub mod concurrent;
pub mod plan;
mod shrink;
pub mod timelines;
pub mod vectors;

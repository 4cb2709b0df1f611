//! The decisions of rate limits on a store: equal to those in memory on random timelines, and to the vectors.
//!
//! | To find                                   | open          |
//! |-------------------------------------------|---------------|
//! | random policies and timelines             | [`plan`]      |
//! | the comparison with memory, and shrinking | [`timelines`] |
//! | decisions that are written down           | [`vectors`]   |
//! | several limits as one                     | [`combinations`] |

pub mod combinations;
pub mod plan;
pub mod timelines;
pub mod vectors;

//! The load of the crash and power-loss tests: groups of keys, each with one writer, whose operation `n` is the same in every
//! process. So what a group must look like after `n` operations can be computed and compared to the last bit.
//!
//! | To find                              | open       |
//! |--------------------------------------|------------|
//! | what operation `n` of a group does   | [`ops`]    |
//! | what a group looks like              | [`look`]   |
//! | what was acknowledged, and the truth | [`ledger`] |
//! | the process that writes              | [`writer`] |

pub(crate) mod ledger;
pub(crate) mod look;
pub(crate) mod ops;
pub(crate) mod writer;

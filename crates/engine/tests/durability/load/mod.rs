//! The load of the crash and power-loss tests: groups of keys, each with one writer, whose operation `n` is the same in every
//! process. So the state of a group after `n` operations can be computed and compared exactly.
//!
//! | To find                              | open       |
//! |--------------------------------------|------------|
//! | what operation `n` of a group does   | [`ops`]    |
//! | the state of a group                 | [`state`]  |
//! | what was acknowledged                | [`ledger`] |
//! | the process that writes              | [`writer`] |

pub(crate) mod ledger;
pub(crate) mod ops;
pub(crate) mod state;
pub(crate) mod writer;

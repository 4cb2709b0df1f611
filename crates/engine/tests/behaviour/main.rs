//! What the engine does when jobs fail, files are damaged, readers are slow and memory is short.
//!
//! | To find                                      | open         |
//! |----------------------------------------------|--------------|
//! | jobs that fail or panic, beside good ones    | [`batch`]    |
//! | queues that are full, things over a limit    | [`refusals`] |
//! | damaged, foreign and newer archives          | [`archive`]  |
//! | damaged and foreign journals                 | [`journal`]  |
//! | places that cannot be written                | [`places`]   |
//! | change feeds                                 | [`feed`]     |
//! | copies of a running database                 | [`backup`]   |
//! | ten times more values than memory            | [`larger`]   |
//! | tasks on a shard's loop and their turns      | [`guests`]   |
//! | several steps as one job                     | [`together`] |
//! | jobs that wait for keys                      | [`waiting`]  |
//! | watches of keys                              | [`watches`]  |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "test code; clippy sees that only in test functions"
)]

mod archive;
mod backup;
mod batch;
mod common;
mod feed;
mod guests;
mod journal;
mod larger;
mod places;
mod refusals;
mod together;
mod waiting;
mod watches;

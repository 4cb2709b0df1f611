//! How the engine behaves when jobs fail, files are damaged, readers are slow and memory is short.
//!
//! | To find                                      | open         |
//! |----------------------------------------------|--------------|
//! | jobs that fail or panic, beside good ones    | [`batch`]    |
//! | full queues, sizes over their bounds         | [`bounds`]   |
//! | damaged, foreign and newer archives          | [`archive`]  |
//! | damaged and foreign journals                 | [`journal`]  |
//! | directories that cannot be written           | [`unwritable`] |
//! | change feeds                                 | [`feed`]     |
//! | copies of a running database                 | [`backup`]   |
//! | ten times more values than memory            | [`larger`]   |
//! | writers that are faster than the archive      | [`marathon`] |
//! | tasks on a shard's loop and their turns      | [`local_tasks`] |
//! | several requests in one entry of a queue     | [`sequences`] |
//! | multi-key jobs                               | [`together`] |
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
mod bounds;
mod common;
mod feed;
mod journal;
mod larger;
mod local_tasks;
mod marathon;
mod sequences;
mod throttle;
mod together;
mod unwritable;
mod waiting;
mod watches;

//! The embedded database: one directory, several shards, and a single writer per key.
//!
//! **Commands run in memory, the journal makes them durable, SQLite archives them.** A shard is a thread that owns a keyspace.
//! It takes the jobs in its queue as one batch, runs them in memory, and sends the effects to the journal. The output gate holds
//! back replies until what they depend on is durable. An archive thread reads the journal and updates the shard's SQLite file.
//!
//! | To find                                      | open          |
//! |----------------------------------------------|---------------|
//! | opening, submitting, closing                 | [`Engine`]    |
//! | settings                                     | [`Options`]   |
//! | the files of the directory, its lock         | `directory`   |
//! | file permissions                             | `private`     |
//! | the batch, the output gate, the shard's loop | `shard`       |
//! | segments, records, group commit, replay      | `journal`     |
//! | SQLite, the archive thread, evicted values   | `archive`     |
//! | from files to a keyspace                     | `recovery`    |
//! | how far opening is                           | [`LoadProgress`] |
//! | changes from a revision on                   | [`Feed`]      |
//! | a copy of a running database                 | `backup`      |
//! | offline consistency check                    | [`check`]     |
//!
//! This crate accesses one directory and nothing else.

mod archive;
mod backup;
pub mod bounds;
mod check;
mod directory;
mod engine;
mod feed;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod journal;
mod load;
mod options;
mod private;
mod recovery;
mod shard;
mod store;

pub use check::{Report, check};
pub use engine::Engine;
pub use feed::{Changes, Feed};
pub use health::{ArchiveWork, Health, ShardHealth, Size};
pub use load::{LoadProgress, LoadStage, Portion, ShardLoad};
pub use options::{Durability, Options};
pub use shard::{Completion, Job, Local, LocalTask, Ran, Sequence, Turn, Wait, Watch};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/engine.md")]
struct Guide;

//! The embedded database: one directory, some shards, and each key's one writer.
//!
//! **Memory runs, the journal keeps, SQLite rests.** A shard is a thread that owns a keyspace. It takes what waits in its
//! queue as one batch, runs it in memory, and hands the effects to the journal; replies leave through the gate when what
//! they tell is durable. Behind it, an archive thread reads the journal and keeps the shard's SQLite file up to date.
//!
//! | To find                                      | open          |
//! |----------------------------------------------|---------------|
//! | opening, submitting, closing                 | [`Engine`]    |
//! | settings                                     | [`Options`]   |
//! | what lies in the directory, its lock         | `directory`   |
//! | who may read its files                       | `private`     |
//! | the batch, the gate, the shard's loop        | `shard`       |
//! | segments, records, group fsync, reading back | `journal`     |
//! | SQLite, the archive thread, resting values   | `archive`     |
//! | from files to a keyspace                     | `recovery`    |
//! | changes from a revision on                   | [`Feed`]      |
//! | a copy while it runs                         | `backup`      |
//! | is this directory sound?                     | [`check`]     |
//!
//! This crate touches one directory, and nothing else.

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
mod options;
mod private;
mod recovery;
mod shard;
mod store;

pub use check::{Report, check};
pub use engine::Engine;
pub use feed::{Changes, Feed};
pub use health::{Health, ShardHealth, Size};
pub use options::{Durability, Options};
pub use shard::{Completion, Guest, Job, Local, Ran, Turn, Wait, Watch};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/engine.md")]
struct Guide;

//! The archive of a shard: a SQLite file that is always consistent with the journal and a little behind.
//!
//! It runs in WAL mode with synchronous NORMAL, so a commit alone is not synced: only a checkpoint makes the archive
//! durable, and only after that are journal segments recycled.

pub(crate) mod archiver;
mod duty_cycle;
pub(crate) mod shard_keys;
mod sqlite;
pub(crate) mod value_reader;

pub(crate) use sqlite::{Access, Database, Pages};

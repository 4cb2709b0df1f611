//! The archive of a shard: a SQLite file that is always consistent and a little behind.
//!
//! It runs in WAL mode with synchronous NORMAL, so a commit is not synced by itself: only a checkpoint brings the archive to
//! disk for certain, and only then may the journal let go of what it holds.

pub(crate) mod archiver;
mod sqlite;
pub(crate) mod value_reader;

pub(crate) use sqlite::{Access, Database};

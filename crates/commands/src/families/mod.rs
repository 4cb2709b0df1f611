//! The families of commands: one folder each, with its table in `mod.rs` and one file per command or group of commands.
//!
//! They touch the keyspace, and the hub for state that is not a key. A family is listed in [`crate::table::FAMILIES`].
//!
//! The entry function of a command is named after the command in lower snake case: `append::append`, `incr::decr`,
//! `get::json_get`, and `type_` where Rust reserves the word. A subcommand's is named after its own part: `group::create` for
//! XGROUP CREATE. Commands that do the same share a function, which is named after one of them: TOUCH runs `exists::exists`.
//! `tests/entry_points.rs` checks this.

pub(crate) mod bitmaps;
pub(crate) mod connection;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub mod json;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod pubsub;
pub(crate) mod rate_limits;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;
pub(crate) mod zsets;

pub use pubsub::shard_channel_ended;

//! Redis commands on a keyspace, independent of any wire protocol.
//!
//! | To find                                          | open            |
//! |--------------------------------------------------|-----------------|
//! | the row of a command, and all rows               | [`spec`], [`table`] |
//! | arguments, and which of them are keys            | [`args`], [`keys_of`] |
//! | the context of a command                         | [`ctx`], [`conn`] |
//! | replies, and Redis's error texts                 | [`reply`], [`errors`] |
//! | the bounds of one command                        | [`meter`]       |
//! | how large the replies of a request may be        | [`reply_budget`] |
//! | dispatch, MULTI and WATCH                        | [`dispatch`], [`session`], [`transaction`] |
//! | state shared by all connections: Pub/Sub, clients | [`hub`]         |
//! | parsing of requests, encoding of replies         | [`wire`]        |
//! | documents as trees, paths into them, merging     | [`json`]        |
//! | versioned documents, patches                     | [`documents`]   |
//! | idempotent requests                              | [`idempotency`] |
//! | offline sync                                     | [`sync`]        |
//! | docs/commands.md, and HELP of containers         | [`docs`]        |
//! | a family of commands                             | its folder      |
//!
//! This crate touches the model's keyspace only: no sockets, no clock. It compiles to wasm32.

pub mod args;
pub mod blocking;
pub mod bounds;
pub mod conn;
pub mod ctx;
pub mod dispatch;
pub mod docs;
pub mod documents;
pub mod errors;
pub mod families;
pub mod glob;
mod help;
pub mod hub;
pub mod idempotency;
pub mod keys_of;
pub mod meter;
mod mpop;
pub mod number;
pub mod random;
pub mod reply;
pub mod reply_budget;
pub mod scan;
pub mod session;
pub mod span;
pub mod spec;
pub mod sync;
pub mod table;
#[cfg(test)]
mod testing;
pub mod transaction;
mod ttl;
pub mod wire;

pub use args::{Args, Command};
pub use ctx::Ctx;
pub use errors::{CommandResult, Fail};
pub use families::{json, shard_channel_ended};
pub use random::Random;
pub use reply::Reply;
pub use spec::Spec;

//! Redis commands on a keyspace: what they mean, apart from any wire.
//!
//! | To find                                          | open            |
//! |--------------------------------------------------|-----------------|
//! | the row of a command, and all rows               | [`spec`], [`table`] |
//! | arguments, and where keys stand among them       | [`args`], [`keys_of`] |
//! | what a command is given                          | [`ctx`], [`conn`] |
//! | what it answers, and Redis's error texts         | [`reply`], [`errors`] |
//! | how much one command may take                    | [`meter`]       |
//! | how a request becomes a call, MULTI and WATCH    | [`dispatch`], [`session`] |
//! | what all connections share: messages, clients    | [`hub`]         |
//! | requests from bytes, answers to bytes            | [`wire`]        |
//! | documents as trees, paths into them, merging     | [`json`]        |
//! | versioned documents, patches                     | [`documents`]   |
//! | requests that are sent twice and run once        | [`idempotency`] |
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
pub mod scan;
pub mod session;
pub mod span;
pub mod spec;
pub mod table;
#[cfg(test)]
mod testing;
mod ttl;
pub mod wire;

pub use args::{Args, Command};
pub use ctx::Ctx;
pub use errors::{CommandResult, Fail};
pub use families::json;
pub use random::Random;
pub use reply::Reply;
pub use spec::Spec;

//! The `keystead` binary: settings, the command line, and the doors.
//!
//! ```text
//! flags, KEYSTEAD_*, keystead.toml -> settings -> server -> door -> route -> handler(App, request) -> reply
//! ```
//!
//! | To find                         | open         |
//! |---------------------------------|--------------|
//! | what can be set, and by whom    | [`settings`] |
//! | what `keystead X` does          | [`cli`]      |
//! | how a server starts and stops   | [`server`]   |
//! | what handlers share             | [`app`]      |
//! | how the database is opened      | [`database`] |
//! | how a command reaches its shard | `call`       |
//! | how connections are accepted    | `accept`     |
//! | how a connection reaches its shard | `handover` |
//! | functions between two starts    | [`functions`] |
//! | the HTTP door and its routes    | [`http`]     |
//! | the RESP door: Redis over TCP   | [`resp`]     |
//! | named rate limits               | [`policies`] |
//! | what SIGHUP does                | [`reload`]   |
//! | who may read and change files   | `permissions` |
//! | how large is large              | [`bounds`]   |
//! | what is counted and measured    | [`metrics`]  |
//!
//! This crate touches sockets, the terminal and the process: arguments, environment, signals, exit codes.

mod accept;
pub mod app;
pub mod bounds;
mod call;
pub mod cli;
pub mod database;
pub mod failure;
pub mod functions;
mod handover;
pub mod http;
pub mod listen;
pub mod logs;
pub mod metrics;
pub mod notice;
pub mod open_files;
mod permissions;
pub mod policies;
pub mod ready;
pub mod reload;
pub mod resp;
pub mod server;
pub mod settings;
pub mod signals;
mod suggest;
mod written;

/// The version of the binary and of every crate in the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// [`VERSION`], and the commit in parentheses if the build knew it. Set by `build.rs`.
pub const LONG_VERSION: &str = env!("KEYSTEAD_LONG_VERSION");

//! The `keystead` binary: settings, the command line, and the two listeners.
//!
//! ```text
//! flags, KEYSTEAD_*, keystead.toml -> settings -> server -> listener -> route -> handler(App, request) -> response
//! ```
//!
//! | To find                         | open         |
//! |---------------------------------|--------------|
//! | settings and their sources      | [`settings`] |
//! | what `keystead X` does          | [`cli`]      |
//! | how a server starts and stops   | [`server`]   |
//! | the server while its database loads | [`starting`] |
//! | what handlers share             | [`app`]      |
//! | how the database is opened      | [`database`] |
//! | how a command reaches its shard | `call`       |
//! | how connections are accepted    | `accept`     |
//! | how a connection reaches its shard | `handover` |
//! | persisted function libraries    | [`functions`] |
//! | the HTTP listener and its routes | [`http`]    |
//! | the RESP listener: Redis over TCP | [`resp`]   |
//! | rate limit policies             | [`policies`] |
//! | stores on other servers         | [`stores`]   |
//! | documents in such a store       | [`documents`] |
//! | a node of a cluster            | [`cluster`]  |
//! | a Redis behind the REST API     | [`upstream`] |
//! | write-behind                    | [`sinks`]    |
//! | several nodes behind one address | [`router`]  |
//! | split mode: one file for others | [`storage`] |
//! | split mode: commands on its rows | [`compute`] |
//! | a listener without shards       | `service`    |
//! | what SIGHUP does                | [`reload`]   |
//! | permissions of files            | `permissions` |
//! | sizes, counts and timeouts      | [`bounds`]   |
//! | the allocator                   | [`allocator`] |
//! | metrics                         | [`metrics`]  |
//!
//! This crate touches sockets, the terminal and the process: arguments, environment, signals, exit codes.

mod accept;
pub mod allocator;
pub mod app;
pub mod bounds;
mod call;
pub mod cli;
pub mod cluster;
pub mod compute;
mod data_file;
pub mod database;
pub mod documents;
pub mod failure;
mod free_memory;
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
pub mod router;
pub mod server;
mod service;
pub mod settings;
pub mod signals;
pub mod sinks;
pub mod starting;
pub mod storage;
pub mod stores;
mod suggest;
pub mod sync_token;
pub mod upstream;

use keystead_http_api::written;

/// The version of the binary and of every crate in the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// [`VERSION`], and the commit in parentheses if the build knew it. Set by `build.rs`.
pub const LONG_VERSION: &str = env!("KEYSTEAD_LONG_VERSION");

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Guide;

//! The HTTP listener and its APIs: HTTP/1.1 with keep-alive. Touches sockets.
//!
//! ```text
//! bytes -> connection, on a shard's loop -> request -> route -> host, token -> body -> the route's handler -> response -> bytes
//! ```
//!
//! | To find                               | open           |
//! |---------------------------------------|----------------|
//! | the table of routes                   | [`routes`]     |
//! | accept, connection bound, drain       | [`listener`]   |
//! | connections while the database loads  | `loading`      |
//! | how one request is processed          | [`request`]    |
//! | the body of a request, and its bounds | [`body`]       |
//! | responses and error bodies            | [`reply`]      |
//! | tokens, hosts, and pages of other sites | [`rights`]   |
//! | server-sent events; event logs        | [`events`]; `event_log` |
//! | the Upstash-compatible REST API       | `upstash`      |
//! | versioned documents                   | `kv`           |
//! | offline sync                          | `sync`         |
//! | rate limits                           | `limit`        |
//! | the `Idempotency-Key` header          | `idempotency`  |
//! | the OpenAPI document                  | `openapi`      |
//! | errors of documents and limits        | `error`        |
//! | the status of an error                | [`status`]     |
//!
//! What does not need a socket or a shard (the commands of a body, conditions, forms of responses) is in the crate `http-api`.
//!
//! A route is one file here, with its part of the OpenAPI document, and one row in [`routes`].

mod backup;
pub mod body;
mod cluster;
mod context;
pub(crate) mod cors;
pub(crate) mod error;
mod event_log;
pub mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod idempotency;
mod kv;
mod limit;
pub mod listener;
mod loading;
mod metrics;
mod openapi;
pub mod reply;
pub mod request;
pub mod rights;
pub mod routes;
mod sinks;
mod sync;
pub(crate) mod upstash;

use keystead_http_api::parameters;
pub use keystead_http_api::status;
pub(crate) use keystead_http_api::url;

pub use context::HttpContext;
pub use listener::serve;
pub use loading::serve_from_start;

//! The HTTP door: HTTP/1.1 with keep-alive on one listener. Touches sockets.
//!
//! ```text
//! bytes -> connection, on a shard's loop -> request -> which route? -> host, token -> body -> the route's handler -> reply -> bytes
//! ```
//!
//! | To find                               | open           |
//! |---------------------------------------|----------------|
//! | the table of routes                   | [`routes`]     |
//! | accept, connection limit, drain       | [`listener`]   |
//! | one request's way through             | [`request`]    |
//! | replies and error bodies              | [`reply`]      |
//! | who may do what                       | [`rights`]     |
//! | answers that go on                    | [`events`]     |
//! | Redis over HTTP                       | `upstash`      |
//! | versioned documents                   | `kv`           |
//! | rate limits                           | `limit`        |
//! | requests that are sent twice          | `idempotency`  |
//! | what OpenAPI tells of the routes      | `openapi`      |
//! | parts of paths and queries            | `url`          |
//! | what a query says                     | `parameters`   |
//! | refusals of documents and limits      | `error`        |
//! | which status an error has             | [`status`]     |
//!
//! A route is one file here, with what OpenAPI tells of it, and one row in [`routes`].

mod backup;
mod context;
mod cors;
mod error;
pub mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod idempotency;
mod kv;
mod limit;
pub mod listener;
mod metrics;
mod openapi;
mod parameters;
pub mod reply;
pub mod request;
pub mod rights;
pub mod routes;
pub mod status;
mod upstash;
mod url;

pub use context::HttpContext;
pub use listener::serve;

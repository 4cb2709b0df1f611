//! The HTTP door: HTTP/1.1 with keep-alive on one listener. Touches sockets.
//!
//! ```text
//! bytes -> connection, on a shard's loop -> request -> which route? -> host, token -> body -> the route's handler -> reply -> bytes
//! ```
//!
//! | To find                               | open           |
//! |---------------------------------------|----------------|
//! | the table of routes                   | [`routes`]     |
//! | accept, connection limit, drain       | [`door`]       |
//! | one request's way through             | [`request`]    |
//! | replies and error bodies              | [`reply`]      |
//! | who may do what                       | [`rights`]     |
//! | answers that go on                    | [`events`]     |
//! | Redis over HTTP                       | `rest`         |
//! | versioned documents                   | `kv`           |
//! | rate limits                           | `limit`        |
//! | requests that are sent twice          | `once`         |
//! | what OpenAPI tells of the routes      | `openapi`      |
//! | parts of paths and queries            | `url`          |
//! | what a query says                     | `parameters`   |
//! | refusals of documents and limits      | `refused`      |
//! | which status an error has             | [`status`]     |
//!
//! A route is one file here, with what OpenAPI tells of it, and one row in [`routes`].

mod backup;
mod cors;
pub mod door;
pub mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod here;
mod kv;
mod limit;
mod metrics;
mod once;
mod openapi;
mod parameters;
mod refused;
pub mod reply;
pub mod request;
mod rest;
pub mod rights;
pub mod routes;
pub mod status;
mod url;

pub use door::serve;
pub use here::Here;

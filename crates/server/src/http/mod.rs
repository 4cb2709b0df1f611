//! The HTTP door: HTTP/1.1 with keep-alive on one listener. Touches sockets.
//!
//! ```text
//! bytes -> connection -> request -> which route? -> token -> body -> the route's handler -> reply -> bytes
//! ```
//!
//! | To find                               | open           |
//! |---------------------------------------|----------------|
//! | the table of routes                   | [`routes`]     |
//! | accept, connection limit, drain       | [`door`]       |
//! | one request's way through             | [`request`]    |
//! | replies and error bodies              | [`reply`]      |
//! | which status an error has             | [`status`]     |
//!
//! A route is one file here and one row in [`routes`].

mod backup;
pub mod door;
mod health;
mod metrics;
pub mod reply;
pub mod request;
pub mod routes;
pub mod status;

pub use door::serve;

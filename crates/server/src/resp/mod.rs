//! The RESP listener: Redis over TCP.
//!
//! A connection runs on a shard's loop. Requests on keys of that shard run there without a hop; only requests on other shards go
//! through a channel, those of a pipeline together. A reply waits in the connection's output until the revision that it depends on is durable.
//!
//! | To find                                        | open         |
//! |------------------------------------------------|--------------|
//! | accepting, bounds, draining                    | `listener`   |
//! | reading, running and writing                   | `connection` |
//! | a request that waits                           | `pending`    |
//! | requests not run yet, replies not sent yet     | `input`, `output` |
//! | commands served while a shard's loop is busy, or the database loads | `held` |
//! | clients that read too slowly                   | `output_limit` |
//! | clients before AUTH                            | `unauthenticated` |
//! | running one request, here or on another shard  | `execute`, `remote`, `worker` |
//! | a pipeline, split by shard                     | `pipeline`   |
//! | messages to a subscriber                       | `messages`   |
//! | certificates                                   | [`tls`]      |
//! | what commands read about the server            | `host`, `process` |

mod connection;
mod execute;
mod held;
mod host;
pub(crate) mod input;
mod listener;
pub(crate) mod messages;
mod output;
pub(crate) mod output_limit;
mod pending;
mod pipeline;
pub(crate) mod process;
mod remote;
pub mod tls;
pub(crate) mod unauthenticated;
mod wait_sink;
mod worker;

pub use host::Server;
pub use listener::{serve, serve_from_start};

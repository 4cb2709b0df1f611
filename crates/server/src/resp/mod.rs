//! The RESP door: Redis over TCP.
//!
//! A connection lives on a shard's loop. What it reads in one go runs there without a hop, its answers wait in its own
//! queue until what they tell is durable, and only what belongs to another shard crosses a channel.
//!
//! | To find                                        | open         |
//! |------------------------------------------------|--------------|
//! | accepting, limits, draining                    | `listener`   |
//! | reading, running and writing, in turns         | `connection` |
//! | what a connection waits for                    | `pending`    |
//! | bytes that came, bytes that leave              | `input`, `output` |
//! | what is answered while a loop is stuck         | `held`       |
//! | readers that are too slow                      | `patience`   |
//! | connections without the token                  | `stranger`   |
//! | one request: here, in MULTI, waiting, elsewhere| `run`, `elsewhere` |
//! | certificates                                   | [`tls`]      |
//! | what commands ask about the server             | `host`       |

mod connection;
mod elsewhere;
mod execute;
mod held;
mod host;
mod input;
mod listener;
mod output;
mod patience;
mod pending;
mod stranger;
pub mod tls;
mod worker;

pub use host::Server;
pub use listener::serve;

//! The RESP listener, through the real binary.
//!
//! | To find                                             | open             |
//! |-----------------------------------------------------|------------------|
//! | RESP2, RESP3, pipelines, requests in pieces         | [`protocol`]     |
//! | what is no request, and what announces too much     | [`malformed`]    |
//! | tokens                                              | [`auth`]         |
//! | limits on clients, KILL, PAUSE, QUIT, clients that go | [`clients`]    |
//! | readers that are too slow                           | [`slow`]         |
//! | SIGTERM                                             | [`stop`]         |
//! | while the database loads                            | [`loading`]      |
//! | waiting for keys                                    | [`blocking`]     |
//! | MULTI, WATCH                                        | [`transactions`] |
//! | messages                                            | [`pubsub`]       |
//! | MONITOR                                             | [`monitor`]      |
//! | scripts and functions                               | [`scripts`]      |
//! | several shards                                      | [`shards`]       |
//! | pipelines over several shards                       | [`pipelines`]    |
//! | rate limits                                         | [`throttle`]     |
//! | TLS                                                 | [`tls`]          |
//! | more values than memory                             | [`larger`]       |
//! | kill -9 under transactions                          | [`crash`]        |
//! | the client of these tests                           | [`client`]       |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

mod auth;
mod blocking;
mod client;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod larger;
mod loading;
mod malformed;
mod monitor;
mod pipelines;
mod protocol;
mod pubsub;
mod scripts;
mod shards;
mod slow;
mod stop;
mod throttle;
mod tls;
mod transactions;

use keystead_testkit::server::Server;

/// A server that keeps everything in memory, with these arguments beside.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

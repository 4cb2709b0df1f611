//! The documents API `/kv`, through the real binary.
//!
//! | To find                                                  | open           |
//! |----------------------------------------------------------|----------------|
//! | GET, PUT, PATCH, DELETE, ttl, exact numbers              | [`documents`]  |
//! | ifVersion, If-Match, If-None-Match                       | [`conditions`] |
//! | keys of any bytes, invalid requests, bounds              | [`bad_input`]  |
//! | random requests                                          | [`random`]     |
//! | `GET /kv`                                                | [`lists`]      |
//! | waiting for a change, events                             | [`watching`]   |
//! | `POST /kv:batch`                                         | [`batches`]    |
//! | `Idempotency-Key`                                        | [`idempotency`]    |
//! | the same keys through Redis, tokens, pages               | [`apis`]       |
//! | many clients at once, on 1 and 16 shards, at every level | [`many`]       |
//! | kill -9 under writers                                    | [`crash`]      |
//! | histories that are checked for linearizability           | [`linear`]     |
//! | documents on Redis and PostgreSQL (`--documents-store`)  | [`stores`]     |
//! | what these tests send and compare                        | [`requests`]   |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

mod apis;
mod bad_input;
mod batches;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod conditions;
mod crash;
mod documents;
mod idempotency;
mod linear;
mod lists;
mod many;
#[path = "../common/others.rs"]
mod others;
mod random;
mod requests;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod stores;
mod watching;

use client::Http;
use common::differs;
use keystead_testkit::server::Server;

/// A server with durability `memory` and these arguments.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

fn open() -> (Server, Http) {
    let server = memory(&[]);
    let http = Http::connect(&server);
    (server, http)
}

//! The REST door, through the real binary.
//!
//! | To find                                             | open            |
//! |-----------------------------------------------------|-----------------|
//! | commands in the body and in the path, methods, HEAD | [`commands`]    |
//! | `/pipeline`                                         | [`pipeline`]    |
//! | `/multi-exec`                                       | [`transaction`] |
//! | JSON, base64, RESP2                                 | [`encodings`]   |
//! | tokens, pages of other sites, sync tokens           | [`tokens`]      |
//! | what is no request, and random ones                 | [`bad_input`]   |
//! | sizes and counts that are too much                  | [`bounds`]      |
//! | `/subscribe`, `/psubscribe`                         | [`events`]      |
//! | several shards                                      | [`shards`]      |
//! | `Idempotency-Key`                                   | [`idempotency`]     |
//! | the same, killed again and again                    | [`repeats_crash`] |
//! | kill -9 under pipelines                             | [`crash`]       |
//! | the client of these tests                           | [`client`]      |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that is random says what it did"
)]

mod bad_input;
mod bounds;
mod client;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod encodings;
mod events;
mod idempotency;
mod idempotency_crash;
mod pipeline;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod shards;
mod tokens;
mod transaction;

use keystead_testkit::server::Server;

/// A server that keeps everything in memory, with these arguments beside.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

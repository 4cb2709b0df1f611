//! The Upstash-compatible REST API, through the real binary.
//!
//! | To find                                             | open            |
//! |-----------------------------------------------------|-----------------|
//! | commands in the body and in the path, methods, HEAD | [`commands`]    |
//! | `/pipeline`                                         | [`pipeline`]    |
//! | `/multi-exec`                                       | [`transaction`] |
//! | JSON, base64, RESP2                                 | [`encodings`]   |
//! | tokens, pages of other sites, sync tokens           | [`tokens`]      |
//! | invalid and random requests                         | [`bad_input`]   |
//! | sizes and counts beyond the bounds                  | [`bounds`]      |
//! | `/subscribe`, `/psubscribe`                         | [`events`]      |
//! | several shards                                      | [`shards`]      |
//! | `Idempotency-Key`                                   | [`idempotency`]     |
//! | the same, killed again and again                    | [`idempotency_crash`] |
//! | kill -9 under pipelines                             | [`crash`]       |
//! | no token; the log, stop and restart of the process  | [`process`]     |
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
mod process;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod shards;
mod tokens;
mod transaction;

use common::differs;
use keystead_testkit::server::Server;

/// A server with durability `memory` and these arguments.
fn memory(arguments: &[&str]) -> Server {
    common::start(&[&["--durability", "memory"], arguments].concat())
}

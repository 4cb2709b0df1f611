//! The memory limit, and memory that is freed, through the real binary.
//!
//! | To find                                              | open        |
//! |------------------------------------------------------|-------------|
//! | what is rejected at the limit, and what makes room   | [`limit`]   |
//! | the same over REST, `/kv` and `/limit`; health       | [`apis`]    |
//! | large keys that are freed, memory that is returned   | [`freeing`] |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one that measures says what it saw"
)]

mod apis;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
#[path = "../common/mod.rs"]
mod common;
mod freeing;
mod limit;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;

use keystead_testkit::server::Server;
use resp::{Client, info, request};

/// Redis's error.
const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

/// Small keys that fill a limit of this size, and more.
const LIMIT: &str = "2mb";
const LIMIT_BYTES: u64 = 2 << 20;
const KEYS: usize = 40_000;

/// Sets `keys` small keys, many at a time, and returns how many were rejected.
fn fill(client: &mut Client, keys: usize) -> usize {
    let mut rejected = 0;
    for first in (0..keys).step_by(1000) {
        let requests: Vec<u8> =
            (first..first + 1000).flat_map(|n| request(&format!("SET key:{n:010} v"))).collect();
        client.send_raw(&requests);
        for _ in 0..1000 {
            match client.receive().as_str() {
                "+OK" => {}
                error => {
                    assert_eq!(error, OOM);
                    rejected += 1;
                }
            }
        }
    }
    rejected
}

/// A server at its limit, and a client.
fn full(arguments: &[&str]) -> (Server, Client) {
    let server = common::start(&[&["--durability", "commit", "--memory", LIMIT], arguments].concat());
    let mut client = Client::connect(&server);
    assert!(
        fill(&mut client, KEYS) > 0,
        "everything fits: {} bytes",
        info(&mut client, "memory", "used_memory")
    );
    (server, client)
}
